//! Notes: diagnostics that are written into control files.
//!
//! A message stays in the spool until each note about it is on disk. A note that cannot be written
//! (a full disk) is written again until it can.

use crate::Scheduler;
use crate::action::{Action, Note, NoteTicket};
use crate::context::Context;
use crate::operator::order::OrderTicket;
use crate::query::view::View;
use crate::queue::{MessageFlag, MessageId, Queue};
use crate::timers::Timer;
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use zsched_format::log_limiter::LogLimiter;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_spool::Offsets;
use zsched_spool::note::OutcomeKind;

/// What a note says about recipients.
pub(crate) struct NoteContent {
    pub offsets: Offsets,
    pub occasion: OutcomeKind,
    pub notary: Arc<[u8]>,
    pub text: Arc<[u8]>,
}

impl NoteContent {
    /// A note without texts.
    pub(crate) fn without_text(offsets: Offsets, occasion: OutcomeKind) -> NoteContent {
        NoteContent { offsets, occasion, notary: Arc::default(), text: Arc::default() }
    }
}

impl Scheduler {
    /// Requests a note about recipients of a message.
    pub(crate) fn request_note(&mut self, message: MessageId, content: NoteContent) {
        self.notes.note(&mut self.queue, &mut self.cx, message, content);
    }
}

/// Notes that are not on disk yet.
#[derive(Serialize, Deserialize)]
pub struct Notes {
    unwritten: BTreeMap<NoteTicket, Note>,
    /// Orders that are answered when these notes are written.
    orders: BTreeMap<NoteTicket, OrderTicket>,
    last_ticket: NoteTicket,
    /// Limits the log lines about failed writes: one in each interval of retries.
    ///
    /// Otherwise a full disk would fill the log, with a line for each message.
    failure_log: LogLimiter<Timestamp>,
    /// The last failed write or removal, until it succeeds: the message's number, and the error.
    #[serde(skip)]
    last_failure: Option<(u64, String)>,
}

impl Notes {
    /// Creates a state without notes. A failed write is tried again after `retry_interval`.
    pub fn new(retry_interval: Duration) -> Notes {
        let failure_log = LogLimiter::new(1, retry_interval);
        Notes {
            unwritten: BTreeMap::new(),
            orders: BTreeMap::new(),
            last_ticket: 0,
            failure_log,
            last_failure: None,
        }
    }

    /// Panics if a message waits for more or fewer notes than are unwritten.
    pub fn check(&self, queue: &Queue) {
        let mut unwritten: BTreeMap<u64, u32> = BTreeMap::new();
        for (ticket, note) in &self.unwritten {
            assert_eq!(note.ticket, *ticket, "a note under another ticket");
            *unwritten.entry(note.name.number()).or_default() += 1;
        }
        for (id, message) in queue.messages().iter() {
            let number = message.number();
            let is_named = queue.messages().find(number) == Some(id);
            let notes = if is_named { unwritten.remove(&number) } else { None };
            assert_eq!(message.notes, notes.unwrap_or_default(), "{}: notes", message.name());
        }
        assert!(unwritten.is_empty(), "notes about messages that are gone: {unwritten:?}");
    }

    /// Requests a note: a diagnostic in a message's control file.
    pub(crate) fn note(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        message: MessageId,
        content: NoteContent,
    ) {
        let NoteContent { offsets, occasion, notary, text } = content;
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let name = queue.message(message).name();
        let note = Note { ticket, name, offsets, occasion, time: cx.now, notary, message: text };
        queue.message_mut(message).notes += 1;
        self.unwritten.insert(ticket, note.clone());
        self.orders.extend(cx.add_order_part().map(|order| (ticket, order)));
        cx.act(Action::Note(note));
    }

    /// Forgets the notes about a message. Returns the orders that waited for them.
    pub(crate) fn forget(&mut self, number: u64) -> Vec<OrderTicket> {
        let of_message = self.unwritten.iter().filter(|(_, note)| note.name.number() == number);
        let of_message: Vec<NoteTicket> = of_message.map(|(ticket, _)| *ticket).collect();
        of_message.iter().for_each(|ticket| drop(self.unwritten.remove(ticket)));
        self.write_succeeded(number);
        of_message.into_iter().filter_map(|ticket| self.take_order(ticket)).collect()
    }

    /// Returns true if notes are not on disk yet.
    pub(crate) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Moves all times, because the clock was set.
    pub(crate) fn shift(&mut self, step: ClockStep) {
        self.failure_log.shift(step);
    }

    /// The order that waits for a note, which waits no longer.
    pub(crate) fn take_order(&mut self, ticket: NoteTicket) -> Option<OrderTicket> {
        self.orders.remove(&ticket)
    }

    /// The orders that wait for notes, once for each note.
    pub(crate) fn orders(&self) -> impl Iterator<Item = OrderTicket> {
        self.orders.values().copied()
    }

    pub(crate) fn write_note_again(&self, cx: &mut Context, ticket: NoteTicket) {
        if let Some(note) = self.unwritten.get(&ticket).cloned() {
            cx.act(Action::Note(note));
        }
    }

    /// Keeps a write error, and logs it unless the limit is reached.
    pub(crate) fn write_failed(&mut self, cx: &mut Context, number: u64, text: String) {
        if let Some(suppressed) = self.failure_log.permit(cx.now) {
            let wait = cx.settings.failed_write.as_secs_f32();
            cx.log(Level::Error, format!("{text}; again in {wait} s{suppressed}"));
        }
        self.last_failure = Some((number, text));
    }

    /// Forgets a failure, if it was about this message.
    pub(crate) fn write_succeeded(&mut self, number: u64) {
        self.last_failure.take_if(|(failed, _)| *failed == number);
    }
}

impl Scheduler {
    pub(crate) fn noted(&mut self, ticket: NoteTicket, outcome: Result<bool, ErrorKind>) {
        let Some(note) = self.notes.unwritten.get(&ticket) else {
            return;
        };
        let name = note.name.clone();
        let wrote = match outcome {
            Ok(wrote) => wrote,
            Err(ErrorKind::NotFound) => {
                self.cx.log(
                    Level::Error,
                    format!("{name}: the control file is gone, and with it a diagnostic"),
                );
                false
            }
            Err(error) => {
                self.notes.write_failed(
                    &mut self.cx,
                    name.number(),
                    format!("{name}: cannot write a diagnostic: {error}"),
                );
                if let Some(order) = self.notes.take_order(ticket) {
                    self.orders.finish_order_part(&mut self.cx, order, Some(error));
                }
                return self
                    .cx
                    .timers
                    .add(self.cx.now + self.cx.settings.failed_write, Timer::Note(ticket));
            }
        };
        self.notes.write_succeeded(name.number());
        self.notes.unwritten.remove(&ticket);
        if let Some(order) = self.notes.take_order(ticket) {
            self.orders.finish_order_part(&mut self.cx, order, None);
        }
        if let Some(message) = self.queue.messages().find(name.number()) {
            self.queue.message_mut(message).notes -= 1;
            self.queue.message_mut(message).set_if(MessageFlag::OwesReport, wrote);
        }
    }
}

impl<'s> View<'s> {
    /// Why the spool cannot be written, if the last write or removal failed.
    pub fn write_failure(self) -> Option<&'s str> {
        self.core.notes.last_failure.as_ref().map(|(_, text)| text.as_str())
    }
}
