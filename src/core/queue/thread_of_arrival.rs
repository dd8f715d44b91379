//! The thread and the ring of a destination.

use crate::Scheduler;
use crate::context::Context;
use crate::queue::{Destination, Queue, RingId, Thread, ThreadId};
use zsched_config::Clause;

impl Scheduler {
    /// Returns the thread of a destination, and creates it if necessary.
    pub(crate) fn thread_for(&mut self, channel: &[u8], host: &[u8]) -> ThreadId {
        if let Some(thread) = self.queue.threads.find(channel, host) {
            self.reassign_ring(thread);
            return thread;
        }
        let destination = Destination::new(channel, host);
        let ring = self.ring_for(channel, host);
        let last_step = self.queue.clock.number;
        let thread = self.queue.threads.insert(Thread::new(destination, ring, last_step));
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
        let (ring, is_new) = self.queue.rings.find_or_insert(&clause, channel, host);
        if is_new {
            self.dispatch.add_ring(ring);
        }
        if is_new && !self.overrides.limits.is_empty() {
            self.queue.apply_limits_to_ring(&self.overrides, ring);
        }
        ring
    }

    pub(crate) fn join_ring(&mut self, thread: ThreadId, ring: RingId) {
        let threads = &mut self.queue.rings[ring].threads;
        self.queue.threads[thread].ring = ring;
        self.queue.threads[thread].ring_slot = threads.len();
        threads.push(thread);
        self.queue.rings[ring].recipients += u64::from(self.queue.threads[thread].recipients);
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
        let thread_ref = &mut self.queue.threads[thread];
        self.cx.learned_revision += u64::from(thread_ref.retry.unreachable.is_some());
        let timer = thread_ref.timer.take();
        let is_shifted = self.queue.is_shifted(thread);
        self.cx.timers.change_thread(thread, is_shifted, [timer, None]);
        self.queue.deferrals.remove(&thread);
        self.queue.expiry_checks.remove(&thread);
        self.dispatch.leave_window(&mut self.queue, &mut self.cx, thread);
        self.dispatch.unready(&mut self.queue, thread);
        self.queue.leave_ring(thread);
        self.queue.threads.remove(thread);
    }
}

impl Queue {
    /// Retires all rings, for those of a new configuration.
    pub(crate) fn retire_rings(&mut self) {
        self.rings.retire_all();
        // Vertices still to be enqueued in jobs are enqueued in those of the new rings.
        self.backfill.clear();
    }

    /// Applies the clause of its new ring to a thread.
    pub(crate) fn apply_clause(&mut self, cx: &mut Context, thread: ThreadId, old: RingId) {
        let old = self.rings[old].clause.clone();
        let clause = self.clause(thread);
        let is_etrn_only = clause.is_etrn_only();
        if has_other_ages(&old, clause) {
            self.threads[thread].expiry_check = Some(cx.now);
        }
        if old.is_etrn_only() != is_etrn_only {
            self.deferrals.remove(&thread);
        }
        if is_etrn_only {
            self.threads[thread].retry.unreachable = None;
            self.threads[thread].waiting.set_all(None);
        } else if old.is_etrn_only() {
            let next = self.next_try_of_host(cx, thread);
            self.threads[thread].waiting.set_all(Some(next));
            self.threads[thread].waiting.wake_for_destination(cx.now);
        }
    }

    /// Removes a thread, which is not ready, from its ring.
    pub(crate) fn leave_ring(&mut self, thread: ThreadId) {
        self.drop_entries(thread);
        let (ring, slot) = (self.threads[thread].ring, self.threads[thread].ring_slot);
        self.rings[ring].recipients -= u64::from(self.threads[thread].recipients);
        let threads = &mut self.rings[ring].threads;
        threads.swap_remove(slot);
        if let Some(moved) = threads.get(slot) {
            self.threads.pool_mut()[*moved].ring_slot = slot;
        }
        // If it was the last one, the ring is removed.
        self.rings.mark(ring);
    }

    /// Changes the number of recipients of a thread and its ring.
    pub(crate) fn adjust_recipients(&mut self, thread: ThreadId, more: i64) {
        let thread = &mut self.threads[thread];
        thread.recipients = (i64::from(thread.recipients) + more) as u32;
        let ring = &mut self.rings[thread.ring];
        ring.recipients = (ring.recipients as i64 + more) as u64;
    }
}

/// Returns true if the ages that matter for a recipient differ between the clauses.
fn has_other_ages(old: &Clause, new: &Clause) -> bool {
    (old.expiry, old.expiry2, &old.report_times) != (new.expiry, new.expiry2, &new.report_times)
}
