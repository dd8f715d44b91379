//! Messages whose times of delivery begin or end ([`crate::queue::schedule`]).

use crate::Scheduler;
use crate::queue::{MessageFlag, MessageId, VertexState};

impl Scheduler {
    /// Applies the times of the next message to the present time.
    pub(crate) fn schedule_step(&mut self, budget: usize) -> usize {
        let Some(message) = self.queue.next_schedule_check(self.cx.now) else { return budget };
        let cost = 1 + self.queue.message(message).vertices.iter(self.queue.vertices()).count();
        self.apply_schedule(message);
        budget.saturating_sub(cost)
    }

    fn apply_schedule(&mut self, message: MessageId) {
        let was_scheduled = self.queue.message(message).is(MessageFlag::Scheduled);
        let was_kept = self.queue.message(message).is_kept();
        self.queue.update_schedule(self.cx.now, message);
        match (was_scheduled, self.queue.message(message).is(MessageFlag::Scheduled)) {
            (true, false) => {
                self.queue.let_go(&mut self.cx, message);
            }
            (false, true) if !was_kept => {
                self.queue.keep_back(self.cx.now, message);
            }
            _ => {}
        }
        if self.queue.message(message).is(MessageFlag::Scheduled) {
            self.apply_deadline(message);
        }
    }

    /// Applies the deadline of the sender to a message that waits for its time.
    fn apply_deadline(&mut self, message: MessageId) {
        if self.queue.message(message).is(MessageFlag::Held)
            || !self.queue.has_passed_deadline(self.cx.now, message)
        {
            return;
        }
        for vertex in self.queue.vertices_of(message) {
            if self.queue.vertex(vertex).state == VertexState::Held {
                self.has_expired(vertex);
            }
        }
    }
}
