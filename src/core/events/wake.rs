//! Threads that wake: at their time, or on request.

use crate::Scheduler;
use crate::queue::ThreadId;

impl Scheduler {
    /// Processes a request for the mail of a thread, which becomes due.
    ///
    /// If agents of its ring cannot be started, one is tried now.
    pub(crate) fn wake_on_request(&mut self, thread: ThreadId) {
        let ring = self.queue.thread(thread).ring;
        self.dispatch.retry_start_now(&mut self.queue, &mut self.cx, ring);
        self.wake_thread(thread);
    }

    /// Ends the wait of a thread: all waiting vertices become due.
    pub(crate) fn wake_thread(&mut self, thread: ThreadId) {
        self.reassign_ring(thread);
        self.queue.wake_waiting(self.cx.now, thread);
        self.dispatch.end_unreachable(&mut self.queue, thread);
        self.wake_waves(thread);
    }

    /// Processes a wake-up of a thread or its destination.
    pub(crate) fn wake_waves(&mut self, thread: ThreadId) {
        self.cx.learned_revision += 1;
        let known = self.queue.thread(thread).retry.unreachable.as_deref();
        if known.is_some_and(|known| known.until <= self.cx.now) {
            self.dispatch.end_unreachable(&mut self.queue, thread);
        }
        self.queue.make_some_due(&self.cx, thread);
        self.queue.set_woken(thread);
    }

    /// Processes the timer of a thread: its wake-up, or a check for expiry.
    pub(crate) fn thread_timer(&mut self, thread: ThreadId) {
        self.queue.timer_expired(thread);
        self.reassign_ring(thread);
        let thread_ref = self.queue.thread(thread);
        let wakes = thread_ref.wakeup().is_some_and(|wakeup| wakeup <= self.cx.now);
        if thread_ref.expiry_check.is_some_and(|check| check <= self.cx.now) {
            self.expire_thread(thread);
        }
        if wakes {
            self.wake_waves(thread);
        }
    }
}
