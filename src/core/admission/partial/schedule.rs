//! Which partial messages are checked for more to read, and when.

use crate::Scheduler;
use crate::admission::Admission;
use crate::queue::{MessageFlag, MessageId, Queue, RingId};
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Interval between checks of a message that waits for room.
const RECHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of messages checked per turn.
const MAX_CHECKED_PER_TURN: usize = 256;

impl Scheduler {
    /// Checks the queued messages, as many as one turn allows.
    pub(crate) fn check_partials(&mut self) {
        self.admission.partials.next_check = None;
        let mut again = Vec::new();
        for _ in 0..self.admission.partials.queue.len().min(MAX_CHECKED_PER_TURN) {
            let Some(message) = self.admission.partials.queue.pop_front() else {
                break;
            };
            // The number may belong to another message by now. A needless check does no harm.
            let Some(partial) = self.admission.partials.partial.get_mut(&message) else {
                continue;
            };
            partial.is_queued = false;
            if self.check_partial(message) {
                again.push(message);
            }
        }
        let has_more = !self.admission.partials.queue.is_empty();
        let is_waiting = !again.is_empty();
        again.into_iter().for_each(|message| self.admission.queue_partial_check(message));
        if has_more || is_waiting {
            let wait = if has_more { Duration::ZERO } else { RECHECK_INTERVAL };
            self.admission.check_partials_at(self.cx.now + wait);
        }
    }

    /// Checks a message: unloads, reads on, or ends the pass.
    ///
    /// Returns true if it must be checked again although nothing changes.
    fn check_partial(&mut self, message: MessageId) -> bool {
        let message_ref = self.queue.message(message);
        let partial = &self.admission.partials.partial[&message];
        // Nothing of a kept message is delivered, but its removal may be ordered.
        let is_kept = message_ref.is_kept() && !self.is_to_end(message);
        if partial.reading.is_some() || is_kept || message_ref.is(MessageFlag::Removing) {
            return false;
        }
        let (unread, restarts) = (partial.unread, partial.restarts);
        self.unload_waiting(message);
        let is_idle = self.queue.message(message).vertices.is_empty()
            && self.queue.message(message).jobs == 0
            && self.queue.message(message).notes == 0;
        match unread.filter(|_| !restarts) {
            None if is_idle => {
                if self.sender_reports.sends_report_now(&mut self.queue, &mut self.cx, message) {
                    return false;
                }
                self.end_pass(message);
                false
            }
            None => false,
            Some(from) => self.read_on(message, from),
        }
    }
}

impl Admission {
    /// Returns when the queued messages are checked.
    pub(crate) fn next_partial_check(&self) -> Option<Timestamp> {
        self.partials.next_check
    }

    /// Queues a check of a changed message, if it is partial.
    pub(crate) fn check_partial_soon(&mut self, queue: &Queue, now: Timestamp, message: MessageId) {
        if queue.is_partial(message) {
            self.queue_partial_check(message);
            self.check_partials_at(now);
        }
    }

    pub(super) fn check_partials_at(&mut self, time: Timestamp) {
        let next = self.partials.next_check.map_or(time, |next| next.min(time));
        self.partials.next_check = Some(next);
    }

    /// Queues a check of a ring's first partial message, which has room again.
    pub(crate) fn check_first_partial_of_ring(
        &mut self,
        queue: &Queue,
        now: Timestamp,
        ring: RingId,
    ) {
        if let Some(message) = self.partials.first_of(ring) {
            self.check_partial_soon(queue, now, message);
        }
    }

    pub(crate) fn queue_partial_check(&mut self, message: MessageId) {
        if let Some(partial) = self.partials.partial.get_mut(&message)
            && !std::mem::replace(&mut partial.is_queued, true)
        {
            self.partials.queue.push_back(message);
        }
    }
}
