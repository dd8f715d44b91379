//! Which partial messages are checked for more to read, and when.

use super::super::Scheduler;
use super::super::message::MessageId;
use super::super::thread::ThreadId;
use super::super::timers::Timer;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Interval between checks of a message that waits for room.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// At the end of this turn.
const AT_ONCE: Timestamp = Timestamp::EPOCH;
/// Maximum number of messages checked per turn.
const LOOKED_AT: usize = 256;

impl Scheduler {
    /// Queues checks after a recipient has left memory.
    pub(in super::super) fn recipient_goes(&mut self, message: MessageId, thread: ThreadId) {
        self.look_at_batch(message);
        self.look_at_first_of_ring(thread);
    }

    /// Queues a check of a changed message, if it is partial.
    pub(in super::super) fn look_at_batch(&mut self, message: MessageId) {
        if self.is_partial(message) {
            self.queue_look(message);
            self.look_at_batches_at(AT_ONCE);
        }
    }

    pub(super) fn queue_look(&mut self, message: MessageId) {
        if let Some(partial) = self.batches.partial.get_mut(&message)
            && !std::mem::replace(&mut partial.is_queued, true)
        {
            self.batches.queue.push_back(message);
        }
    }

    pub(super) fn look_at_batches_at(&mut self, time: Timestamp) {
        if self.batches.timer.is_none_or(|timer| time < timer) {
            if let Some(timer) = self.batches.timer.replace(time) {
                self.timers.cancel(timer, Timer::Batches);
            }
            self.timers.add(time, Timer::Batches);
        }
    }

    /// Queues a check of a ring's first partial message, which has room again.
    fn look_at_first_of_ring(&mut self, thread: ThreadId) {
        if let Some(message) = self.batches.first_of(self.threads[thread].ring) {
            self.look_at_batch(message);
        }
    }

    /// Checks the queued messages.
    pub(in super::super) fn batches_on(&mut self, now: Timestamp) {
        self.batches.timer = None;
        let mut again = Vec::new();
        for _ in 0..self.batches.queue.len().min(LOOKED_AT) {
            let Some(message) = self.batches.queue.pop_front() else {
                break;
            };
            // The number may belong to another message by now. A needless check does no harm.
            let Some(partial) = self.batches.partial.get_mut(&message) else {
                continue;
            };
            partial.is_queued = false;
            if self.go_on_with(now, message) {
                again.push(message);
            }
        }
        let has_more = !self.batches.queue.is_empty();
        let is_waiting = !again.is_empty();
        again.into_iter().for_each(|message| self.queue_look(message));
        if has_more || is_waiting {
            self.look_at_batches_at(if has_more { AT_ONCE } else { now + LOOK_AGAIN });
        }
    }

    /// Checks a message: unloads, reads on, or ends the pass.
    ///
    /// Returns true if it must be checked again although nothing changes.
    fn go_on_with(&mut self, now: Timestamp, message: MessageId) -> bool {
        let message_ref = &self.messages[message];
        let partial = &self.batches.partial[&message];
        // Nothing of a held message is delivered, but its removal may be ordered.
        let is_held = message_ref.held && !self.is_to_end(message);
        if partial.reading.is_some() || is_held || message_ref.removing {
            return false;
        }
        let (unread, begins_anew) = (partial.unread, partial.begins_anew);
        self.leave_behind(now, message);
        let is_idle = self.messages[message].vertices.is_empty()
            && self.messages[message].jobs == 0
            && self.messages[message].notes == 0;
        match unread.filter(|_| !begins_anew) {
            None if is_idle => {
                self.end_pass(now, message);
                false
            }
            None => false,
            Some(from) => self.read_on(now, message, from),
        }
    }
}
