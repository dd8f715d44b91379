//! Notes: diagnostics that are written into control files.
//!
//! A message stays in the spool until each note about it is on disk. A note that cannot be written
//! (a full disk) is written again until it can.

use crate::Scheduler;
use crate::action::{Action, Note, NoteTicket};
use crate::log_limiter::LogLimiter;
use crate::queue::{MessageId, Queue};
use crate::timers::Timer;
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use zsched_format::time::Timestamp;
use zsched_spool::note::OutcomeKind;

/// Notes that are not on disk yet.
#[derive(Serialize, Deserialize)]
pub struct Notes {
    pub unwritten: BTreeMap<NoteTicket, Note>,
    last_ticket: NoteTicket,
    /// Limits the log lines about failed writes: one in each interval of retries.
    ///
    /// Otherwise a full disk would fill the log, with a line for each message.
    pub failure_log: LogLimiter<Timestamp>,
    /// The last failed write or removal, until it succeeds: the message's number, and the error.
    #[serde(skip)]
    last_failure: Option<(u64, String)>,
}

impl Notes {
    /// Creates a state without notes. A failed write is tried again after `retry_interval`.
    pub fn new(retry_interval: Duration) -> Notes {
        let failure_log = LogLimiter::new(1, retry_interval);
        Notes { unwritten: BTreeMap::new(), last_ticket: 0, failure_log, last_failure: None }
    }

    /// Panics if a message waits for more or fewer notes than are unwritten.
    pub fn check(&self, queue: &Queue) {
        let mut unwritten: BTreeMap<u64, u32> = BTreeMap::new();
        for (ticket, note) in &self.unwritten {
            assert_eq!(note.ticket, *ticket, "a note under another ticket");
            *unwritten.entry(note.name.number()).or_default() += 1;
        }
        for (id, message) in queue.messages.iter() {
            let number = message.name.number();
            let is_named = queue.messages.find(number) == Some(id);
            let notes = if is_named { unwritten.remove(&number) } else { None };
            assert_eq!(message.notes, notes.unwrap_or_default(), "{}: notes", message.name);
        }
        assert!(unwritten.is_empty(), "notes about messages that are gone: {unwritten:?}");
    }
}

impl Scheduler {
    /// Requests a note: a diagnostic in a message's control file.
    pub(crate) fn note(
        &mut self,
        message: MessageId,
        offsets: Vec<u32>,
        occasion: OutcomeKind,
        notary: Arc<[u8]>,
        text: Arc<[u8]>,
    ) {
        self.notes.last_ticket += 1;
        let ticket = self.notes.last_ticket;
        let name = self.queue.messages[message].name.clone();
        let note = Note { ticket, name, offsets, occasion, time: self.now, notary, message: text };
        self.queue.messages[message].notes += 1;
        self.notes.unwritten.insert(ticket, note.clone());
        self.orders.attach_note_to_order(ticket);
        self.act(Action::Note(note));
    }

    pub(crate) fn noted(&mut self, ticket: NoteTicket, outcome: Result<bool, ErrorKind>) {
        let Some(note) = self.notes.unwritten.get(&ticket) else {
            return;
        };
        let name = note.name.clone();
        let wrote = match outcome {
            Ok(wrote) => wrote,
            Err(ErrorKind::NotFound) => {
                self.log(
                    Level::Error,
                    format!("{name}: the control file is gone, and with it a diagnostic"),
                );
                false
            }
            Err(error) => {
                self.write_failed(
                    name.number(),
                    format!("{name}: cannot write a diagnostic: {error}"),
                );
                self.order_note_failed(ticket, error);
                return self.timers.add(self.now + self.settings.failed_write, Timer::Note(ticket));
            }
        };
        self.write_succeeded(name.number());
        self.notes.unwritten.remove(&ticket);
        self.order_note_done(ticket);
        if let Some(message) = self.queue.messages.find(name.number()) {
            self.queue.messages[message].notes -= 1;
            self.queue.messages[message].owes_report |= wrote;
        }
    }

    pub(crate) fn write_note_again(&mut self, ticket: NoteTicket) {
        if let Some(note) = self.notes.unwritten.get(&ticket).cloned() {
            self.act(Action::Note(note));
        }
    }

    /// Keeps a write error, and logs it unless the limit is reached.
    pub(crate) fn write_failed(&mut self, number: u64, text: String) {
        if let Some(suppressed) = self.notes.failure_log.permit(self.now) {
            let wait = self.settings.failed_write.as_secs_f32();
            self.log(Level::Error, format!("{text}; again in {wait} s{suppressed}"));
        }
        self.notes.last_failure = Some((number, text));
    }

    /// Forgets a failure, if it was about this message.
    pub(crate) fn write_succeeded(&mut self, number: u64) {
        self.notes.last_failure.take_if(|(failed, _)| *failed == number);
    }

    /// Why the spool cannot be written, if the last write or removal failed.
    pub fn write_failure(&self) -> Option<&str> {
        self.notes.last_failure.as_ref().map(|(_, text)| text.as_str())
    }
}
