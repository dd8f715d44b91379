//! The thread and the ring of a destination.

use crate::context::Context;
use crate::queue::{Destination, Queue, RingId, Thread, ThreadId};
use std::rc::Rc;
use zsched_config::Clause;

impl Queue {
    /// Adds a thread without vertices, which is to join a ring.
    pub(crate) fn add_thread(&mut self, destination: Destination, ring: RingId) -> ThreadId {
        self.threads.insert(Thread::new(destination, ring, self.clock.number))
    }

    /// Finds or adds the ring of a clause. Returns true with a ring that is new.
    pub(crate) fn find_or_add_ring(
        &mut self,
        clause: &Rc<Clause>,
        channel: &[u8],
        host: &[u8],
    ) -> (RingId, bool) {
        self.rings.find_or_insert(clause, channel, host)
    }

    /// Adds a thread to a ring.
    pub(crate) fn join_ring(&mut self, thread: ThreadId, ring: RingId) {
        let ring_ref = &mut self.rings[ring];
        let thread_ref = &mut self.threads[thread];
        (thread_ref.ring, thread_ref.ring_slot) = (ring, ring_ref.threads.len());
        ring_ref.threads.push(thread);
        ring_ref.recipients += u64::from(thread_ref.recipients);
    }

    /// Ends what is planned for a thread that has neither vertices nor agents.
    pub(crate) fn end_thread(&mut self, cx: &mut Context, thread: ThreadId) {
        let thread_ref = &mut self.threads[thread];
        cx.learned_revision += u64::from(thread_ref.retry.unreachable.is_some());
        let timer = thread_ref.timer.take();
        let is_shifted = self.is_shifted(thread);
        cx.timers.change_thread(thread, is_shifted, [timer, None]);
        self.deferrals.remove(&thread);
        self.expiry_checks.remove(&thread);
    }

    /// Removes a thread that has ended.
    pub(crate) fn remove_thread(&mut self, thread: ThreadId) {
        self.leave_ring(thread);
        self.threads.remove(thread);
    }

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
