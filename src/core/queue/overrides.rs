//! Overrides of operators, applied to rings and threads.

use crate::operator::order::Effect;
use crate::operator::overrides::{LimitName, Overrides};
use crate::queue::{Queue, Ring, RingId, Thread, ThreadId};
use std::rc::Rc;
use zsched_config::Clause;

impl Queue {
    /// Applies the limit in force to a thread. Returns true on change.
    pub(crate) fn apply_limits_to_thread(
        &mut self,
        overrides: &Overrides,
        thread: ThreadId,
    ) -> bool {
        let destination = &self.threads[thread].destination;
        let max_agents = overrides.limit_of_thread(destination).map(|set| set.value);
        std::mem::replace(&mut self.threads[thread].max_agents, max_agents) != max_agents
    }

    /// Applies the limits in force to a ring.
    pub(crate) fn apply_limits_to_ring(&mut self, overrides: &Overrides, ring: RingId) {
        let ring = &mut self.rings[ring];
        ring.clause = limited(overrides, ring);
        ring.limits_seen = overrides.limits_version;
    }

    /// Applies the limits to a ring, if they have changed since.
    pub(crate) fn reapply_limits_to_ring(&mut self, overrides: &Overrides, ring: RingId) {
        if self.rings[ring].limits_seen != overrides.limits_version {
            self.apply_limits_to_ring(overrides, ring);
            self.rings.mark(ring);
        }
    }

    /// Maximum number of agents that may work on a thread.
    pub(crate) fn max_thread(&self, thread: &Thread) -> u32 {
        thread.max_agents.unwrap_or(self.rings[thread.ring].clause.max_thread)
    }

    /// Applies the overrides to a thread. Returns what that has changed.
    pub(crate) fn apply_overrides(&mut self, overrides: &Overrides, thread: ThreadId) -> Effect {
        let mut effect = Effect::default();
        self.reapply_limits_to_ring(overrides, self.threads[thread].ring);
        if self.apply_limits_to_thread(overrides, thread) {
            effect.threads = 1;
        }
        if self.update_hold(overrides, thread) {
            // A thread that was released is served at once, even with `wakeuprestartonly`.
            self.threads[thread].is_woken = true;
            let thread_ref = &self.threads[thread];
            effect.threads = 1;
            effect.recipients = thread_ref.recipients;
            let fed = thread_ref.fed.iter(&self.vertices);
            effect.busy = fed.map(|vertex| self.vertices[vertex].pending()).sum();
        }
        // The limit of the ring may have changed, too.
        self.threads.mark(thread);
        effect
    }
}

/// Returns the clause of a ring with the limits in force.
fn limited(overrides: &Overrides, ring: &Ring) -> Rc<Clause> {
    let mut clause = ring.configured.clone();
    for set in overrides.limits.iter().filter(|set| set.is_of_ring(ring)) {
        let clause = Rc::make_mut(&mut clause);
        match set.limit {
            LimitName::MaxTa => clause.max_agents = Some(set.value),
            LimitName::MaxChannel => clause.max_channel = Some(set.value),
            LimitName::MaxRing => clause.max_ring = Some(set.value),
            LimitName::MaxThr => clause.max_thread = set.value,
            LimitName::Overfeed => clause.overfeed = set.value,
        }
    }
    clause
}
