//! Limits that operators set at run time.
//!
//! A limit replaces that of the configuration until a time, or until an operator resets it.

use crate::Scheduler;
use crate::dispatch::{Dispatch, Ring, RingId};
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::overrides::{
    Author, LimitName, LimitOverride, MAX_OVERRIDES, OverrideChange, Overrides, Scope,
};
use crate::queue::{Destination, Thread, ThreadId};
use crate::timers::Timer;
use std::rc::Rc;
use zsched_config::Clause;
use zsched_format::time::Timestamp;

/// Maximum value of a limit on agents.
const MAX_AGENTS: u32 = 1_000_000;
/// Maximum value of `overfeed`, as in the configuration.
const MAX_OVERFEED: u32 = 10_000;

impl Scheduler {
    pub(crate) fn set_limit(
        &mut self,
        scope: Scope,
        limit: LimitName,
        value: u32,
        until: Option<Timestamp>,
        author: Author,
    ) -> Effect {
        match scope {
            Scope::Message(_) => return Effect::refused(OrderRefusal::NotFound),
            Scope::Destinations(_) if limit != LimitName::MaxThr => {
                return Effect::refused(OrderRefusal::OfRings);
            }
            _ => {}
        }
        // A limit of no agents would be a hold, which is an order of its own.
        let range = match limit {
            LimitName::Overfeed => 0..=MAX_OVERFEED,
            _ => 1..=MAX_AGENTS,
        };
        let is_over = until.is_some_and(|until| until <= self.now);
        if !range.contains(&value) || is_over {
            return Effect::refused(OrderRefusal::BadValue);
        }
        let is_same = |set: &LimitOverride| set.scope == scope && set.limit == limit;
        let others = self.overrides.limits.iter().filter(|set| !is_same(set)).count();
        if others >= MAX_OVERRIDES {
            return Effect::refused(OrderRefusal::TooMany);
        }
        if let Some(until) = until {
            self.timers.add(until, Timer::Limits);
        }
        let set = LimitOverride { scope, limit, value, until, author };
        self.overrides.change(OverrideChange::Limit(set));
        self.reapply_limits();
        Effect::default()
    }

    pub(crate) fn unset_limit(&mut self, scope: &Scope, limit: LimitName) -> Effect {
        let is_it = |set: &LimitOverride| set.scope == *scope && set.limit == limit;
        if !self.overrides.limits.iter().any(is_it) {
            return Effect::refused(OrderRefusal::NotFound);
        }
        self.overrides.change(OverrideChange::Unset { scope: scope.clone(), limit });
        self.reapply_limits();
        Effect::default()
    }

    /// Resets the limits whose time is over.
    pub(crate) fn limits_timer(&mut self) {
        let is_over = |set: &LimitOverride| set.until.is_some_and(|until| until <= self.now);
        let over: Vec<LimitOverride> =
            self.overrides.limits.iter().filter(|set| is_over(set)).cloned().collect();
        if over.is_empty() {
            return;
        }
        for set in over {
            self.overrides
                .change(OverrideChange::Unset { scope: set.scope.clone(), limit: set.limit });
            let (scope, keyword) = (&set.scope, set.limit.keyword());
            let text = format!("{scope}: {keyword} is again what the configuration says");
            self.log(log::Level::Info, text);
        }
        self.reapply_limits();
    }

    /// Starts to reapply the limits to all rings and threads.
    ///
    /// The agent waitlist reflects the former limits, so all rings are tried again.
    fn reapply_limits(&mut self) {
        self.overrides.limits_version = self.overrides.limits_version.wrapping_add(1);
        self.dispatch.clear_waitlists();
        self.sweep_overrides();
    }

    /// Applies the limits in force to a ring.
    pub(crate) fn apply_limits_to_ring(&mut self, ring: RingId) {
        let ring = &mut self.dispatch.rings[ring];
        ring.clause = limited(&self.overrides, ring);
        ring.limits_seen = self.overrides.limits_version;
    }

    /// Applies the limits to a ring, if they have changed since.
    pub(crate) fn reapply_limits_to_ring(&mut self, ring: RingId) {
        if self.dispatch.rings[ring].limits_seen != self.overrides.limits_version {
            self.apply_limits_to_ring(ring);
            self.dispatch.serve_later(ring);
        }
    }

    /// Applies the limit in force to a thread. Returns true on change.
    pub(crate) fn apply_limits_to_thread(&mut self, thread: ThreadId) -> bool {
        let destination = &self.queue.threads[thread].destination;
        let max_agents = self.overrides.limit_of_thread(destination).map(|set| set.value);
        std::mem::replace(&mut self.queue.threads[thread].max_agents, max_agents) != max_agents
    }
}

impl Dispatch {
    /// Maximum number of agents that may work on a thread.
    pub(crate) fn max_thread(&self, thread: &Thread) -> u32 {
        thread.max_agents.unwrap_or(self.rings[thread.ring].clause.max_thread)
    }
}

impl Overrides {
    /// Returns the limit of a ring that an operator has set.
    pub fn limit_of(&self, ring: &Ring, limit: LimitName) -> Option<&LimitOverride> {
        self.limits.iter().rev().find(|set| set.limit == limit && set.is_of_ring(ring))
    }

    /// Returns the limit of a thread that an operator has set.
    pub fn limit_of_thread(&self, destination: &Destination) -> Option<&LimitOverride> {
        let is_its = |set: &&LimitOverride| matches!(&set.scope, Scope::Destinations(all) if all.matches(destination));
        self.limits.iter().rev().find(is_its)
    }
}

impl LimitOverride {
    fn is_of_ring(&self, ring: &Ring) -> bool {
        matches!(&self.scope, Scope::Ring(pattern) if ring.has_pattern(pattern))
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
