//! The removal of messages from the spool.
//!
//! A message leaves the spool when it is complete (`Message::is_complete`): each recipient is
//! finished, each note is on disk, no agent has a job of it, it is neither partial nor being read
//! again, no alternative is left to be tried, and its sender has got the reports about it. If a
//! note, a report or the removal fails (a full disk), it is tried again until it succeeds. The
//! message stays known meanwhile.

use crate::Scheduler;
use crate::action::Action;
use crate::context::Context;
use crate::outcome::sender_reports::SenderReportState;
use crate::queue::{MessageId, Queue};
use crate::timers::Timer;
use log::Level;
use std::io::ErrorKind;

impl Scheduler {
    /// Reports on a message, and removes it from the spool if nothing is left to do.
    ///
    /// If it is partial, there may be room to read more of it.
    pub(crate) fn settle_message(&mut self, message: MessageId) {
        self.admission.settle_alternatives(&mut self.queue, &mut self.cx, message);
        self.settle_report(message);
        let message_ref = &self.queue.messages[message];
        match message_ref.is_complete() && !message_ref.is_removing {
            true if message_ref.is_forgotten => self.queue.messages.remove(message),
            true => self.queue.remove_from_spool(&mut self.cx, message),
            false => self.admission.check_partial_soon(&self.queue, &mut self.cx, message),
        }
    }

    pub(crate) fn removed(&mut self, number: u64, outcome: Result<(), ErrorKind>) {
        let Some(message) =
            self.queue.messages.find(number).filter(|id| self.queue.messages[*id].is_removing)
        else {
            return;
        };
        match outcome {
            Ok(()) => {
                self.notes.write_succeeded(number);
                self.cx.counters.messages_out += 1;
                self.overrides.drop_overrides(&self.queue, message);
                self.admission.end_partial(&mut self.queue, message);
                self.queue.messages.remove(message);
                self.packet_gone(number);
            }
            Err(error) => {
                let id = self.queue.messages[message].spool_id();
                self.notes.write_failed(
                    &mut self.cx,
                    number,
                    format!("{id}: cannot be removed: {error}"),
                );
                self.cx
                    .timers
                    .add(self.cx.now + self.cx.settings.failed_write, Timer::Removal(message));
            }
        }
    }

    /// Forgets a message that is no longer in the spool.
    ///
    /// Its unfinished recipients are dropped.
    pub(crate) fn forget(&mut self, message: MessageId) {
        for vertex in self.queue.messages[message].vertices.to_vec(&self.queue.vertices) {
            for offset in self.queue.vertices[vertex].recipients.pending() {
                self.queue.drop_recipient(&mut self.cx, vertex, offset);
            }
        }
        let number = self.queue.messages[message].name.number();
        for order in self.notes.forget(number) {
            self.orders.finish_order_part(&mut self.cx, order, None);
        }
        self.overrides.drop_overrides(&self.queue, message);
        self.admission.end_partial(&mut self.queue, message);
        self.sender_reports.forget(message);
        self.queue.messages[message].report = SenderReportState::None;
        self.queue.messages[message].notes = 0;
        self.queue.messages[message].is_rereading = false;
        self.queue.messages[message].wants_alternative = false;
        self.queue.messages[message].is_forgotten = true;
        self.queue.messages.release_number(message);
        self.packet_gone(number);
    }
}

impl Queue {
    fn remove_from_spool(&mut self, cx: &mut Context, message: MessageId) {
        let message_ref = &mut self.messages[message];
        message_ref.is_removing = true;
        if cx.settings.log_finished_messages {
            let id = message_ref.spool_id();
            let (total, failed) = (message_ref.recipients, message_ref.failed);
            cx.log(Level::Debug, format!("{id}: complete ({total} recipients, {failed} failed)"));
        }
        self.remove_again(cx, message);
    }

    pub(crate) fn remove_again(&self, cx: &mut Context, message: MessageId) {
        let message = &self.messages[message];
        let aside = message.has_undeliverable_lines;
        cx.act(Action::Remove { name: message.name.clone(), aside });
    }
}
