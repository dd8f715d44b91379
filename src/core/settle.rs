//! What holds between two events, and the one place that re-establishes it.
//!
//! Code that changes a thread, a window or a message does nothing else: mutable access marks it as
//! changed. A new state marks an agent or a vertex, and [`Rings::mark`] a ring. At the end of each
//! event, [`Scheduler::settle`] brings up to date what depends on the marked ones. It takes each
//! kind in this order, and those of a kind in the order of their marks:
//!
//! 1. A vertex that no agent has ends if the removal of its message was ordered, and expires if it
//!    is too old; else its age is watched. A packet of a bulk job is kept back if the job has its
//!    share of agents.
//! 2. An agent gets the timer that it needs.
//! 3. A thread that is no longer used is removed. Any other gets the timer that it needs, and is
//!    ready for an agent, or not.
//! 4. A window makes as many of its threads ready as it has room for.
//! 5. A message that is complete leaves the spool.
//! 6. An agent that asked for work gets it.
//! 7. Rings on waitlists try again, if an agent or a limit was freed.
//! 8. A ring that is no longer used is removed. Any other gives agents to its ready threads.
//!
//! When nothing else is left, jobs decide which packets are cut. At the end, overrides that have
//! changed are stored.
//!
//! A later step may mark again what belongs to an earlier one, which then comes first.

use crate::Scheduler;
#[cfg(doc)]
use crate::dispatch::Dispatch;
#[cfg(doc)]
use crate::queue::Rings;
use crate::queue::ThreadId;

impl Scheduler {
    /// Brings everything up to date that depends on what an event has changed.
    pub(crate) fn settle(&mut self) {
        self.dispatch.begin_event(self.cx.now);
        loop {
            self.settle_vertices();
            self.dispatch.settle_agents(&mut self.queue, &mut self.cx);
            self.begin_window_rounds();
            self.settle_threads();
            while let Some(ring) = self.queue.next_ring_with_room() {
                self.admission.check_first_partial_of_ring(&self.queue, self.cx.now, ring);
            }
            while let Some(message) = self.queue.next_changed_message() {
                self.settle_message(message);
            }
            if self.dispatch.decide_next(&mut self.queue, &mut self.admission, &mut self.cx)
                || self.queue.has_changed_vertices()
            {
                continue;
            }
            if self.bulk.has_changed() {
                while let Some(job) = self.bulk.next_changed() {
                    let (dispatch, admission) = (&self.dispatch, &mut self.admission);
                    self.bulk.settle(&mut self.queue, dispatch, admission, &mut self.cx, job);
                }
            } else {
                self.orders.store_changed_overrides(&mut self.overrides, &mut self.cx);
                return self.orders.answer(&self.queue, &mut self.cx);
            }
        }
    }

    /// Applies removals, age and shares to the vertices that agents might get next.
    fn settle_vertices(&mut self) {
        let mut count = 0;
        while let Some(vertex) = self.queue.next_changed_vertex() {
            let message = self.queue.vertex(vertex).message;
            if self.is_to_end(message) {
                self.end_free_vertices(message);
            } else {
                self.expire_or_watch(vertex, count);
                self.bulk.apply_share(&mut self.queue, &self.dispatch, self.cx.now, vertex);
            }
            count += 1;
        }
    }

    /// Brings the ready lists and the timers up to date.
    ///
    /// Called before a ready thread is chosen.
    pub(crate) fn settle_threads(&mut self) {
        loop {
            if let Some(thread) = self.queue.next_changed_thread() {
                self.settle_thread(thread);
            } else if let Some(window) = self.dispatch.next_changed_window() {
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
}
