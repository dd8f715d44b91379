//! Notes: diagnostics that are written into control files.
//!
//! A message stays in the spool until each note about it is on disk. A note that cannot be written
//! (a full disk) is written again until it can.

use crate::Scheduler;
use crate::action::{Action, Note, NoteTicket};
use crate::queue::message::MessageId;
use crate::timers::Timer;
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::rc::Rc;
use zsched_format::time::Timestamp;
use zsched_spool::note::OutcomeKind;

/// Notes that are not on disk yet.
#[derive(Default, Serialize, Deserialize)]
pub struct Notes {
    pub unwritten: BTreeMap<NoteTicket, Note>,
    last_ticket: NoteTicket,
    /// Log limiter for failed writes.
    ///
    /// Time of the last log line, and number of lines suppressed since.
    failure_log: Option<(Timestamp, u32)>,
}

impl Scheduler {
    /// Requests a note: a diagnostic in a message's control file.
    pub(crate) fn note(
        &mut self,
        now: Timestamp,
        message: MessageId,
        offsets: Vec<u32>,
        occasion: OutcomeKind,
        notary: Rc<[u8]>,
        text: Rc<[u8]>,
    ) {
        self.notes.last_ticket += 1;
        let ticket = self.notes.last_ticket;
        let name = self.queue.messages[message].name.clone();
        let note = Note { ticket, name, offsets, occasion, time: now, notary, message: text };
        self.queue.messages[message].notes += 1;
        self.notes.unwritten.insert(ticket, note.clone());
        self.orders.attach_note_to_order(ticket);
        self.act(Action::Note(note));
    }

    pub(crate) fn noted(
        &mut self,
        now: Timestamp,
        ticket: NoteTicket,
        outcome: Result<bool, ErrorKind>,
    ) {
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
                self.log_write_trouble(now, format!("{name}: cannot write a diagnostic: {error}"));
                self.order_note_failed(ticket, error);
                return self.timers.add(now + self.settings.failed_write, Timer::Note(ticket));
            }
        };
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

    /// Logs a write error, at most once in each interval of retries.
    ///
    /// Otherwise a full disk would fill the log, with a line for each message.
    pub(crate) fn log_write_trouble(&mut self, now: Timestamp, text: String) {
        let trouble = &mut self.notes.failure_log;
        if trouble
            .is_none_or(|(since, _)| now.since(since) >= self.settings.failed_write || now < since)
        {
            let left_out = trouble.replace((now, 0)).map_or(0, |(_, left_out)| left_out);
            let others = match left_out {
                0 => String::new(),
                count => format!(" ({count} more since the last such line)"),
            };
            let wait = self.settings.failed_write.as_secs_f32();
            self.log(Level::Error, format!("{text}; again in {wait} s{others}"));
        } else if let Some((_, left_out)) = trouble {
            *left_out += 1;
        }
    }
}
