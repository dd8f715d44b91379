//! The end of recipients, then of vertices, then of messages.
//!
//! A message leaves the spool when each recipient is finished and each note about one is on disk.
//! If a note or the removal fails (a full disk), it is tried again until it succeeds. The message
//! stays known meanwhile.

use crate::Scheduler;
use crate::action::{Action, Note, NoteTicket, Statistics};
use crate::outcome::report::FinalState;
use crate::queue::message::MessageId;
use crate::queue::vertex::{VertexId, VertexState};
use crate::timers::Timer;
use log::Level;
use std::io::ErrorKind;
use std::rc::Rc;
use zsched_format::time::Timestamp;
use zsched_spool::note::OutcomeKind;

impl Scheduler {
    /// Finishes a pending recipient of a vertex.
    pub(crate) fn finish_recipient(&mut self, vertex: VertexId, offset: u32, outcome: FinalState) {
        let message = self.vertices[vertex].message;
        self.write_statistics(vertex, outcome);
        self.messages[message].failed += u32::from(outcome.failed);
        self.drop_recipient(vertex, offset);
    }

    fn write_statistics(&mut self, vertex: VertexId, outcome: FinalState) {
        let vertex = &self.vertices[vertex];
        let message = &self.messages[vertex.message];
        self.act(Action::Statistics(Statistics {
            spool_id: message.spool_id(),
            created: message.created,
            state: outcome.state,
            destination: self.threads[vertex.thread].destination.clone(),
        }));
    }

    /// Drops a recipient, and its vertex with the last one.
    pub(crate) fn drop_recipient(&mut self, vertex: VertexId, offset: u32) {
        let vertex_ref = &mut self.vertices[vertex];
        if !vertex_ref.recipients.finish(offset) {
            return;
        }
        vertex_ref.pending -= 1;
        let (message, thread, left) = (vertex_ref.message, vertex_ref.thread, vertex_ref.pending);
        self.messages[message].pending -= 1;
        self.adjust_recipients(thread, -1);
        self.counters.recipients_out += 1;
        if !self.partials.is_empty() {
            self.check_first_partial_of_ring(thread);
        }
        if left == 0 {
            self.end_vertex(vertex);
        }
    }

    /// Takes a vertex out of its message and its thread.
    ///
    /// If an agent has it as a job, its number stays taken until that job is over.
    pub(crate) fn end_vertex(&mut self, vertex: VertexId) {
        let message = self.vertices[vertex].message;
        let was_fed = self.vertices[vertex].place == VertexState::Fed;
        self.messages[message].vertices.remove(&mut self.vertices, vertex);
        self.set_state(vertex, VertexState::Finished);
        if !was_fed {
            self.vertices.remove(vertex);
        }
    }

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
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let name = self.messages[message].name.clone();
        let note = Note { ticket, name, offsets, occasion, time: now, notary, message: text };
        self.messages[message].notes += 1;
        self.notes.insert(ticket, note.clone());
        self.attach_note_to_order(ticket);
        self.act(Action::Note(note));
    }

    pub(crate) fn noted(
        &mut self,
        now: Timestamp,
        ticket: NoteTicket,
        outcome: Result<bool, ErrorKind>,
    ) {
        let Some(note) = self.notes.get(&ticket) else {
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
        self.notes.remove(&ticket);
        self.order_note_done(ticket);
        if let Some(message) = self.messages.find(name.number()) {
            self.messages[message].notes -= 1;
            self.messages[message].owes_report |= wrote;
        }
    }

    pub(crate) fn write_note_again(&mut self, ticket: NoteTicket) {
        if let Some(note) = self.notes.get(&ticket).cloned() {
            self.act(Action::Note(note));
        }
    }

    /// Removes a message from the spool if nothing is left to do.
    ///
    /// If it is partial, there may be room to read more of it.
    pub(crate) fn settle_message(&mut self, message: MessageId) {
        let message_ref = &self.messages[message];
        match message_ref.is_complete() && !message_ref.is_removing {
            true if message_ref.is_forgotten => self.messages.remove(message),
            true => self.remove_from_spool(message),
            false => self.check_partial_soon(message),
        }
    }

    fn remove_from_spool(&mut self, message: MessageId) {
        let message_ref = &mut self.messages[message];
        message_ref.is_removing = true;
        if self.settings.log_outcomes {
            let id = message_ref.spool_id();
            let (total, failed) = (message_ref.recipients, message_ref.failed);
            self.log(Level::Debug, format!("{id}: complete ({total} recipients, {failed} failed)"));
        }
        self.remove_again(message);
    }

    pub(crate) fn remove_again(&mut self, message: MessageId) {
        let message = &self.messages[message];
        let aside = message.owes_report || message.has_undeliverable_lines;
        self.act(Action::Remove { name: message.name.clone(), aside });
    }

    pub(crate) fn removed(&mut self, now: Timestamp, number: u64, outcome: Result<(), ErrorKind>) {
        let Some(message) = self.messages.find(number).filter(|id| self.messages[*id].is_removing)
        else {
            return;
        };
        match outcome {
            Ok(()) => {
                self.counters.messages_out += 1;
                self.drop_overrides(message);
                self.end_partial(message);
                self.messages.remove(message);
            }
            Err(error) => {
                let id = self.messages[message].spool_id();
                self.log_write_trouble(now, format!("{id}: cannot be removed: {error}"));
                self.timers.add(now + self.settings.failed_write, Timer::Removal(message));
            }
        }
    }

    /// Logs a write error, at most once in each interval of retries.
    ///
    /// Otherwise a full disk would fill the log, with a line for each message.
    fn log_write_trouble(&mut self, now: Timestamp, text: String) {
        let trouble = &mut self.write_failure_log;
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

    /// Forgets a message that is no longer in the spool.
    ///
    /// Its unfinished recipients are dropped.
    pub(crate) fn forget(&mut self, message: MessageId) {
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            for offset in self.vertices[vertex].recipients.pending() {
                self.drop_recipient(vertex, offset);
            }
        }
        let number = self.messages[message].name.number();
        let of_message = self.notes.iter().filter(|(_, note)| note.name.number() == number);
        let of_message: Vec<NoteTicket> = of_message.map(|(ticket, _)| *ticket).collect();
        for ticket in of_message {
            self.notes.remove(&ticket);
            self.order_note_done(ticket);
        }
        self.drop_overrides(message);
        self.end_partial(message);
        self.messages[message].notes = 0;
        self.messages[message].is_forgotten = true;
        self.messages.release_number(message);
    }
}
