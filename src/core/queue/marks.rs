//! What has changed in the queue, for [`crate::settle`].

use crate::context::Context;
use crate::queue::{MessageId, Queue, RingId, ThreadId};

impl Queue {
    /// The next thread that is marked as changed.
    pub fn next_changed_thread(&mut self) -> Option<ThreadId> {
        self.threads.next_changed()
    }

    /// The next message that is marked as changed.
    pub fn next_changed_message(&mut self) -> Option<MessageId> {
        self.messages.next_changed()
    }

    /// The next ring that is marked as changed.
    pub fn next_changed_ring(&mut self) -> Option<RingId> {
        self.rings.next_changed()
    }

    /// Returns true if rings are marked as changed.
    pub fn has_changed_rings(&self) -> bool {
        self.rings.has_changed()
    }

    /// The next ring that has room for recipients of a partial message.
    pub fn next_ring_with_room(&mut self) -> Option<RingId> {
        self.rings.next_with_room()
    }

    /// Marks a thread: something outside it has changed that it depends on.
    pub fn mark_thread(&mut self, id: ThreadId) {
        self.threads.mark(id);
    }

    /// Marks a message: something outside it has changed that it depends on.
    pub fn mark_message(&mut self, id: MessageId) {
        self.messages.mark(id);
    }

    /// Marks a ring: a thread of it may get an agent, or it may be unused.
    pub fn mark_ring(&mut self, id: RingId) {
        self.rings.mark(id);
    }

    /// Marks all rings.
    pub fn mark_all_rings(&mut self) {
        self.rings.mark_all();
    }

    /// Sets the timer of a thread to the next time at which it needs work.
    pub fn settle_timer(&mut self, cx: &mut Context, id: ThreadId) {
        let thread = &self.threads[id];
        let (timer, wanted) = (thread.timer, thread.next_timer());
        if timer != wanted {
            let is_shifted = self.is_shifted(id);
            self.threads[id].timer = wanted;
            cx.timers.change_thread(id, is_shifted, [timer, wanted]);
        }
    }

    /// Records that the timer of a thread has expired.
    pub fn timer_expired(&mut self, id: ThreadId) {
        self.threads[id].timer = None;
    }

    /// Removes the mark of a thread that is up to date.
    pub fn thread_settled(&mut self, id: ThreadId) {
        self.threads.settled(id);
    }
}
