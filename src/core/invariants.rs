//! Invariants between any two events, checked by tests and simulations.
//!
//! Each part checks its own. Here is what holds between them.

use crate::Scheduler;
use crate::queue::ThreadId;
use crate::sweep::SweptChange;

impl Scheduler {
    /// Panics if the state contradicts itself.
    ///
    /// Examples are a count that is not the length of its list, a vertex in no thread, a thread in
    /// no ring, and something that waits for nothing.
    pub fn check_invariants(&self) {
        self.queue.check();
        self.dispatch.check(&self.queue, &self.cx.timers, self.sweep.applies_overrides());
        self.overrides.check();
        self.orders.check(&self.notes, &self.sweep);
        self.admission.check(&self.queue);
        self.bulk.check(&self.queue);
        self.notes.check(&self.queue);
        self.sender_reports.check(&self.queue);
        self.learned.check();
        self.cx.timers.check(&self.queue);
        self.queue.threads().iter().for_each(|(thread, _)| self.check_wait(thread));
        let pending = self.queue.messages().iter().map(|(_, message)| u64::from(message.pending));
        assert_eq!(
            self.view().recipients(),
            pending.sum::<u64>(),
            "recipients loaded, less those finished and paged out"
        );
        let vertices: usize = self.queue.threads().iter().map(|(_, thread)| thread.len()).sum();
        assert_eq!(self.view().totals().vertices, vertices, "vertices in threads");
        let is_within_limit = self.dispatch.agents().len() <= self.cx.settings.max_agents;
        assert!(is_within_limit, "more agents than descriptors");
    }

    /// Checks that all that waits has a time or condition to end.
    fn check_wait(&self, id: ThreadId) {
        let thread = self.queue.thread(id);
        let ring = self.queue.ring(thread.ring);
        let is_old = ring.is_retired;
        assert!(
            !is_old || self.sweep.applies(SweptChange::Configuration),
            "{} is in a retired ring",
            thread.destination
        );
        assert!(!is_old || thread.agents.is_empty(), "{} got an agent", thread.destination);
        assert_eq!(ring.threads.get(thread.ring_slot), Some(&id));
        for vertex in thread.waiting.iter(self.queue.vertices()) {
            let wave = self.queue.vertex(vertex).wave;
            let wakes = thread.waiting.wakeup(wave).is_some() || ring.clause.is_etrn_only();
            assert!(wakes, "{} waits for nothing", thread.destination);
            let known = thread.retry.unreachable.as_ref();
            let waits_for_nothing = known.is_none()
                && thread.waiting.is_for_destination(wave)
                && thread
                    .waiting
                    .wakeup(wave)
                    .map(|time| self.queue.to_present_clock(thread, time))
                    > Some(self.cx.now);
            assert!(!waits_for_nothing, "{}: waits, but can be reached", thread.destination);
        }
        // The timer may be too early, if what it was set for is gone.
        if let Some(wanted) = thread.wakeup().into_iter().chain(thread.expiry_check).min() {
            let is_in_time = thread.timer.is_some_and(|timer| timer <= wanted);
            assert!(is_in_time, "{}: timer", thread.destination);
        }
        self.queue.check_age(self.cx.now, id);
        let held = self.overrides.hold_of(&thread.destination, ring).is_some();
        let is_known = !is_old && !self.sweep.applies_overrides();
        assert!(!is_known || thread.held == held, "{}: held or not", thread.destination);
        assert!(!thread.held || !thread.is_ready, "{} is held, and in line", thread.destination);
        // If something is due and no agent is at work, the thread must be in line for an agent,
        // waiting for its window, excluded by -p, or held.
        let idle = self.queue.due_for_agents(id) > 0 && thread.agents.is_empty();
        let waits_for_window = self.dispatch.waits_for_window(&self.queue, id);
        assert!(
            !waits_for_window || !thread.due.is_empty(),
            "waits for its window with nothing due"
        );
        let selected =
            self.cx.settings.is_selected(thread.destination.channel(), thread.destination.host());
        assert!(
            !idle || thread.is_ready || !selected || thread.held || waits_for_window,
            "{} is not in line",
            thread.destination
        );
    }
}
