//! Threads that begin, end, or come under another clause.

use crate::Scheduler;
use crate::queue::retry::{max_wait, seconds_of};
use crate::queue::{
    Destination, Retry, RetryPosition, RingId, ThreadId, Unreachable, UnreachableReason,
};
use std::rc::Rc;

impl Scheduler {
    /// Returns the thread of a destination, and creates it if necessary.
    pub(crate) fn thread_for(&mut self, channel: &[u8], host: &[u8]) -> ThreadId {
        if let Some(thread) = self.queue.threads().find(channel, host) {
            self.reassign_ring(thread);
            return thread;
        }
        let destination = Destination::new(channel, host);
        let ring = self.ring_for(channel, host);
        let thread = self.queue.add_thread(destination, ring);
        self.join_ring(thread, ring);
        self.admission.restore_thread(&mut self.queue, &mut self.dispatch, self.cx.now, thread);
        self.restore_thread(thread);
        // The restored state does not include a window that has died since.
        self.dispatch.wait_with_window(&mut self.queue, &mut self.cx, thread);
        thread
    }

    /// Returns the ring of a destination, and creates it if necessary.
    ///
    /// The ring is that of the present configuration.
    pub(crate) fn ring_for(&mut self, channel: &[u8], host: &[u8]) -> RingId {
        let clause = self.cx.config.select_or_default(channel, host);
        let (ring, is_new) = self.queue.find_or_add_ring(&clause, channel, host);
        if is_new {
            self.dispatch.add_ring(ring);
        }
        if is_new && !self.overrides.limits.is_empty() {
            self.queue.apply_limits_to_ring(&self.overrides, ring);
        }
        ring
    }

    pub(crate) fn join_ring(&mut self, thread: ThreadId, ring: RingId) {
        self.queue.join_ring(thread, ring);
        self.queue.enqueue_due(&self.cx, thread);
        self.queue.reapply_limits_to_ring(&self.overrides, ring);
        // Overrides are rare.
        if !self.overrides.is_empty() {
            self.queue.update_hold(&self.overrides, thread);
            self.queue.apply_limits_to_thread(&self.overrides, thread);
        }
        self.dispatch.join_window(&mut self.queue, &mut self.cx, thread);
    }

    /// Removes a thread that has neither vertices nor agents.
    pub(crate) fn drop_thread(&mut self, thread: ThreadId) {
        self.admission.keep_removed_thread(&mut self.queue, &self.dispatch, &mut self.cx, thread);
        self.queue.end_thread(&mut self.cx, thread);
        self.dispatch.leave_window(&mut self.queue, &mut self.cx, thread);
        self.dispatch.unready(&mut self.queue, thread);
        self.queue.remove_thread(thread);
    }

    /// Restores the state of a new thread, unless its wake-up is past.
    pub(crate) fn restore_thread(&mut self, thread: ThreadId) {
        let destination = &self.queue.thread(thread).destination;
        let Some(learned) = self.learned.take_thread(destination) else {
            return;
        };
        if let Some(relay) = &learned.relay {
            self.dispatch.set_relay(&mut self.queue, &mut self.cx, thread, relay.as_bytes());
        }
        if let Some(size) = learned.window {
            self.dispatch.restore_window(&self.queue, thread, size);
        }
        let clause = self.queue.clause(thread);
        let on_request = clause.is_etrn_only();
        let wakeup = learned.wakeup.filter(|wakeup| *wakeup > self.cx.now && !on_request);
        // The clock may have been wrong when this was written, or the clause may have changed.
        let wakeup = wakeup.map(|wakeup| wakeup.min(self.cx.now + max_wait(clause)));
        let is_dead = wakeup.is_none() && learned.reason == Some(UnreachableReason::Dead);
        let until = wakeup.or(is_dead.then_some(self.cx.now));
        let steps = RetryPosition {
            index: u8::try_from(learned.index).unwrap_or(u8::MAX),
            planned: wakeup.map_or(0, seconds_of),
        };
        let unreachable = until.map(|until| {
            // Files of an earlier version do not say how it was known.
            let reason = learned.reason.unwrap_or(UnreachableReason::AllDeferred);
            let cause = learned.cause.as_ref().map(|cause| Rc::new(cause.to_report()));
            Box::new(Unreachable { until, reason, cause })
        });
        self.queue.set_retry(thread, Retry { steps, unreachable, ..Retry::default() });
        if is_dead {
            self.dispatch.probe_dead_window(&self.queue, thread);
            self.queue.forget_unreachable(thread);
        }
    }

    /// Applies the present configuration and clock to a thread.
    ///
    /// Does nothing if that was done before.
    pub(crate) fn reassign_ring(&mut self, thread: ThreadId) {
        self.queue.apply_clock_step(&mut self.cx, thread);
        let old = self.queue.thread(thread).ring;
        if !self.queue.ring(old).is_retired {
            return;
        }
        let destination = self.queue.thread(thread).destination.clone();
        let new = self.ring_for(destination.channel(), destination.host());
        self.dispatch.unready(&mut self.queue, thread);
        self.queue.leave_ring(thread);
        self.join_ring(thread, new);
        self.queue.apply_clause(&mut self.cx, thread, old);
    }
}
