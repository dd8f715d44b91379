//! Limits that operators set at run time.
//!
//! A limit replaces that of the configuration until a time, or until an operator resets it.

use crate::Scheduler;
use crate::dispatch::Dispatch;
use crate::dispatch::ring::RingId;
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::override_changes::Change;
use crate::operator::overrides::{
    Author, LimitName, LimitOverride, MAX_OVERRIDES, Overrides, Scope,
};
use crate::queue::thread::{Thread, ThreadId};
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
        now: Timestamp,
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
        let is_over = until.is_some_and(|until| until <= now);
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
        self.overrides.change(Change::Limit(set));
        self.reapply_limits(now);
        Effect::default()
    }

    pub(crate) fn unset_limit(
        &mut self,
        now: Timestamp,
        scope: &Scope,
        limit: LimitName,
    ) -> Effect {
        let is_it = |set: &LimitOverride| set.scope == *scope && set.limit == limit;
        if !self.overrides.limits.iter().any(is_it) {
            return Effect::refused(OrderRefusal::NotFound);
        }
        self.overrides.change(Change::Unset { scope: scope.clone(), limit });
        self.reapply_limits(now);
        Effect::default()
    }

    /// Resets the limits whose time is over.
    pub(crate) fn limits_timer(&mut self, now: Timestamp) {
        let is_over = |set: &LimitOverride| set.until.is_some_and(|until| until <= now);
        let over: Vec<LimitOverride> =
            self.overrides.limits.iter().filter(|set| is_over(set)).cloned().collect();
        if over.is_empty() {
            return;
        }
        for set in over {
            self.overrides.change(Change::Unset { scope: set.scope.clone(), limit: set.limit });
            let (scope, keyword) = (&set.scope, set.limit.keyword());
            let text = format!("{scope}: {keyword} is again what the configuration says");
            self.log(log::Level::Info, text);
        }
        self.reapply_limits(now);
    }

    /// Starts to reapply the limits to all rings and threads.
    ///
    /// The agent waitlist reflects the former limits, so all rings are tried again.
    fn reapply_limits(&mut self, now: Timestamp) {
        self.overrides.limits_version = self.overrides.limits_version.wrapping_add(1);
        self.dispatch.clear_waitlists();
        self.sweep_overrides(now);
    }

    /// Applies the limits in force to a ring.
    pub(crate) fn apply_limits_to_ring(&mut self, ring: RingId) {
        let ring_ref = &self.dispatch.rings[ring];
        let limited = limited(&self.overrides, ring_ref, &ring_ref.configured);
        self.dispatch.rings[ring].clause = limited;
        self.dispatch.rings[ring].limits_seen = self.overrides.limits_version;
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
        let is_its = |set: &&LimitOverride| matches!(&set.scope, Scope::Destinations(all) if all.matches(destination));
        let max_agents = self.overrides.limits.iter().rev().find(is_its).map(|set| set.value);
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
    pub fn limit_of<'s>(
        &'s self,
        ring: &crate::dispatch::ring::Ring,
        limit: LimitName,
    ) -> Option<&'s LimitOverride> {
        let is_it = |set: &&LimitOverride| {
            let is_its = matches!(&set.scope, Scope::Ring(pattern) if ring.has_pattern(pattern));
            set.limit == limit && is_its
        };
        self.limits.iter().rev().find(is_it)
    }
}

/// Returns the clause of a ring with the limits in force.
fn limited(
    standing: &Overrides,
    ring: &crate::dispatch::ring::Ring,
    configured: &Rc<Clause>,
) -> Rc<Clause> {
    let set = |limit: LimitName| standing.limit_of(ring, limit).map(|set| set.value);
    let all = [
        set(LimitName::MaxTa),
        set(LimitName::MaxChannel),
        set(LimitName::MaxRing),
        set(LimitName::MaxThr),
        set(LimitName::Overfeed),
    ];
    if all.iter().all(Option::is_none) {
        return configured.clone();
    }
    let [max_agents, max_channel, max_ring, max_thread, overfeed] = all;
    let mut clause = (**configured).clone();
    clause.max_agents = max_agents.or(clause.max_agents);
    clause.max_channel = max_channel.or(clause.max_channel);
    clause.max_ring = max_ring.or(clause.max_ring);
    clause.max_thread = max_thread.unwrap_or(clause.max_thread);
    clause.overfeed = overfeed.unwrap_or(clause.overfeed);
    Rc::new(clause)
}
