//! Messages that leave the spool, or are gone from it.

use crate::Scheduler;
use crate::queue::{MessageFlag, MessageId};
use crate::timers::Timer;
use std::io::ErrorKind;

impl Scheduler {
    /// Reports on a message, and removes it from the spool if nothing is left to do.
    ///
    /// If it is partial, there may be room to read more of it.
    pub(crate) fn settle_message(&mut self, message: MessageId) {
        self.admission.settle_alternatives(&mut self.queue, &mut self.cx, message);
        self.settle_report(message);
        let message_ref = self.queue.message(message);
        match message_ref.is_complete() && !message_ref.is(MessageFlag::Removing) {
            true if message_ref.is(MessageFlag::Forgotten) => self.queue.remove_message(message),
            true => self.queue.remove_from_spool(&mut self.cx, message),
            false => self.admission.check_partial_soon(&self.queue, self.cx.now, message),
        }
    }

    pub(crate) fn removed(&mut self, number: u64, outcome: Result<(), ErrorKind>) {
        let Some(message) = self
            .queue
            .messages()
            .find(number)
            .filter(|id| self.queue.message(*id).is(MessageFlag::Removing))
        else {
            return;
        };
        match outcome {
            Ok(()) => {
                self.notes.write_succeeded(number);
                self.cx.counters.messages_out += 1;
                self.overrides.drop_overrides(&self.queue, message);
                self.admission.end_partial(&mut self.queue, message);
                self.queue.remove_message(message);
                self.bulk.packet_gone(number);
            }
            Err(error) => {
                let id = self.queue.message(message).spool_id();
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
        self.queue.drop_recipients(&mut self.cx, message);
        let number = self.queue.message(message).number();
        for order in self.notes.forget(number) {
            self.orders.finish_order_part(&mut self.cx, order, None);
        }
        self.overrides.drop_overrides(&self.queue, message);
        self.admission.end_partial(&mut self.queue, message);
        self.sender_reports.forget(message);
        self.queue.forget_message(message);
        self.bulk.packet_gone(number);
    }
}
