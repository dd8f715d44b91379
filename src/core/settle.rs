//! What holds between two events, and the one place that re-establishes it.
//!
//! Code that changes a thread, a window or a message does nothing else: mutable access marks it as
//! changed. A new state marks an agent, and [`Rings::mark`] a ring. At the end of each
//! event, [`Scheduler::settle`] brings up to date what depends on the marked ones. It takes each
//! kind in this order, and those of a kind in the order of their marks:
//!
//! 1. An agent gets the timer that it needs.
//! 2. A thread that is no longer used is removed. Any other gets the timer that it needs, and is
//!    ready for an agent, or not.
//! 3. A window makes as many of its threads ready as it has room for.
//! 4. A message that is complete leaves the spool.
//! 5. An agent that asked for work gets it.
//! 6. Rings on waitlists try again, if an agent or a limit was freed.
//! 7. A ring that is no longer used is removed. Any other gives agents to its ready threads.
//!
//! At the end, packets of bulk jobs are cut, and overrides that have changed are stored.
//!
//! A later step may mark again what belongs to an earlier one, which then comes first.

use crate::Scheduler;
#[cfg(doc)]
use crate::dispatch::Dispatch;
use crate::dispatch::Resource;
use crate::queue::RingId;
use crate::queue::ThreadId;

impl Scheduler {
    /// Brings everything up to date that depends on what an event has changed.
    pub(crate) fn settle(&mut self) {
        // In a new second, rings that had to wait for it come first.
        let mut is_new_second = self.dispatch.waitlists.lines.contains_key(&Resource::ForkRate)
            && self.dispatch.fork_rate.is_over(self.cx.now);
        loop {
            while let Some(agent) = self.dispatch.agents.next_changed() {
                self.dispatch.settle_agent(&mut self.queue, &mut self.cx, agent);
            }
            self.begin_window_rounds();
            self.settle_threads();
            while let Some(ring) = self.queue.next_ring_with_room() {
                self.admission.check_first_partial_of_ring(&self.queue, &mut self.cx, ring);
            }
            while let Some(message) = self.queue.next_changed_message() {
                self.settle_message(message);
            }
            let (queue, admission, cx) = (&mut self.queue, &mut self.admission, &mut self.cx);
            if let Some(agent) = self.dispatch.free_agent.take() {
                self.dispatch.give_other_work(queue, admission, cx, agent);
            } else if let Some(ring) = self.dispatch.next_ring.take() {
                self.dispatch.assign_agent(queue, admission, cx, ring);
            } else if let Some(pass) = self.dispatch.waitlist_pass.take() {
                self.dispatch.continue_waitlist_pass(queue, admission, cx, pass);
            } else if let Some(agent) = self.dispatch.hungry_agents.pop_front() {
                self.dispatch.give_work(queue, cx, agent);
            } else if std::mem::take(&mut self.dispatch.waitlists.has_news) {
                self.dispatch.retry_waitlists();
            } else if is_new_second && queue.rings().has_changed() {
                is_new_second = false;
                self.dispatch.retry_waitlists();
            } else if let Some(ring) = queue.next_changed_ring() {
                self.settle_ring(ring);
            } else {
                self.settle_jobs();
                self.orders.store_changed_overrides(&mut self.overrides, &mut self.cx);
                return self.orders.answer(&self.queue, &mut self.cx);
            }
        }
    }

    /// Brings the ready lists and the timers up to date.
    ///
    /// Called before a ready thread is chosen.
    pub(crate) fn settle_threads(&mut self) {
        loop {
            if let Some(thread) = self.queue.next_changed_thread() {
                self.settle_thread(thread);
            } else if let Some(window) = self.dispatch.windows.next_changed() {
                self.dispatch.admit(&mut self.queue, window);
            } else {
                return;
            }
        }
    }

    fn settle_thread(&mut self, thread: ThreadId) {
        if self.queue.thread(thread).is_unused() {
            return self.drop_thread(thread);
        }
        self.queue.settle_timer(&mut self.cx, thread);
        self.dispatch.update_readiness(&mut self.queue, &self.cx, thread);
        self.queue.thread_settled(thread);
    }

    /// Serves a ring, or removes it if it has neither threads nor agents.
    fn settle_ring(&mut self, ring: RingId) {
        let (queue, admission, cx) = (&mut self.queue, &mut self.admission, &mut self.cx);
        match queue.ring(ring).threads.is_empty() && self.dispatch.of_rings[ring].count == 0 {
            true => admission.drop_ring(queue, &mut self.dispatch, cx, ring),
            false => self.dispatch.assign_agent(queue, admission, cx, ring),
        }
    }
}
