//! Limits that operators set at run time.
//!
//! A limit replaces that of the configuration until a time, or until an operator resets it.

use crate::Scheduler;
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::overrides::{
    Author, LimitName, LimitOverride, MAX_OVERRIDES, OverrideChange, Overrides, Scope,
};
use crate::query::view::View;
use crate::queue::{Destination, Ring};
use crate::timers::Timer;
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
        let is_over = until.is_some_and(|until| until <= self.cx.now);
        let refusal = is_over.then_some(OrderRefusal::BadValue);
        if let Some(refusal) = refusal.or(self.view().refusal_of_limit(&scope, limit, value)) {
            return Effect::refused(refusal);
        }
        if let Some(until) = until {
            self.cx.timers.add(until, Timer::Limits);
        }
        let set = LimitOverride { scope, limit, value, until, author };
        self.overrides.change(OverrideChange::Limit(set));
        self.reapply_limits();
        Effect::default()
    }

    pub(crate) fn unset_limit(&mut self, scope: &Scope, limit: LimitName) -> Effect {
        let is_same = |set: &LimitOverride| set.scope == *scope && set.limit == limit;
        if !self.overrides.limits.iter().any(is_same) {
            return Effect::refused(OrderRefusal::NotFound);
        }
        self.overrides.change(OverrideChange::Unset { scope: scope.clone(), limit });
        self.reapply_limits();
        Effect::default()
    }

    /// Resets the limits whose time is over.
    pub(crate) fn limits_timer(&mut self) {
        let is_over = |set: &LimitOverride| set.until.is_some_and(|until| until <= self.cx.now);
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
            self.cx.log(log::Level::Info, text);
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

impl<'s> View<'s> {
    /// Why a limit cannot be set to a value; `None` if it can.
    pub fn refusal_of_limit(
        self,
        scope: &Scope,
        limit: LimitName,
        value: u32,
    ) -> Option<OrderRefusal> {
        // A limit of no agents would be a hold, which is an order of its own.
        let range = match limit {
            LimitName::Overfeed => 0..=MAX_OVERFEED,
            _ => 1..=MAX_AGENTS,
        };
        let is_same = |set: &LimitOverride| set.scope == *scope && set.limit == limit;
        let others = self.core.overrides.limits.iter().filter(|set| !is_same(set)).count();
        match scope {
            Scope::Message(_) => Some(OrderRefusal::NotFound),
            Scope::Destinations(_) if limit != LimitName::MaxThr => Some(OrderRefusal::OfRings),
            _ if !range.contains(&value) => Some(OrderRefusal::BadValue),
            _ => (others >= MAX_OVERRIDES).then_some(OrderRefusal::TooMany),
        }
    }

    /// The limit in force for a scope, then that of the configuration; `None` is no limit.
    ///
    /// For a pattern of destinations the latter is that of a destination without a clause of its
    /// own.
    pub fn limit_of_scope(self, scope: &Scope, limit: LimitName) -> (Option<u32>, Option<u32>) {
        let pattern = match scope {
            Scope::Ring(pattern) => pattern,
            Scope::Destinations(destinations) => destinations.text(),
            Scope::Message(_) => return (None, None),
        };
        let (channel, host) = pattern.split_once('/').unwrap_or((pattern, "*"));
        let (channel, host) = (channel.as_bytes(), host.as_bytes());
        let mut rings = self.core.queue.rings().iter().map(|(_, ring)| ring);
        let ring = rings.find(|ring| ring.has_pattern(pattern));
        let clause = ring.map(|ring| ring.configured.clone());
        let clause = clause.unwrap_or_else(|| self.core.cx.config.select_or_default(channel, host));
        let configured = limit.of(&clause);
        let is_same = |set: &&LimitOverride| set.scope == *scope && set.limit == limit;
        let set = self.core.overrides.limits.iter().rev().find(is_same).map(|set| set.value);
        let thread = self.thread_id(channel, host).and_then(|thread| self.thread(thread));
        let is_of_thread = matches!(scope, Scope::Destinations(_)) && limit == LimitName::MaxThr;
        let thread = thread.filter(|_| is_of_thread);
        let of_thread = thread.map(|thread| self.max_agents_of(thread));
        (set.or(of_thread).or(configured), configured)
    }

    /// The limit in force for a scope once its own is reset; `None` is no limit.
    ///
    /// Limits of destinations and rings may cover a destination besides its own.
    pub fn limit_after_reset(self, scope: &Scope, limit: LimitName) -> Option<u32> {
        let configured = self.limit_of_scope(scope, limit).1;
        let Scope::Destinations(destinations) = scope else {
            return configured;
        };
        let (channel, host) = destinations.text().split_once('/').unwrap_or(("*", "*"));
        let destination = Destination::new(channel.as_bytes(), host.as_bytes());
        let covers = |set: &&LimitOverride| {
            let is_other = set.limit == limit && set.scope != *scope;
            is_other && matches!(&set.scope, Scope::Destinations(all) if all.matches(&destination))
        };
        let other = self.core.overrides.limits.iter().rev().find(covers).map(|set| set.value);
        let clause = self.core.cx.config.select_or_default(channel.as_bytes(), host.as_bytes());
        let pattern = format!("{}/{}", clause.channel_pattern, clause.host_pattern);
        let is_of_ring = |set: &&LimitOverride| {
            set.limit == limit && matches!(&set.scope, Scope::Ring(ring) if *ring == pattern)
        };
        let of_ring = self.core.overrides.limits.iter().rev().find(is_of_ring).map(|set| set.value);
        other.or(of_ring).or(configured)
    }
}

impl LimitOverride {
    pub(crate) fn is_of_ring(&self, ring: &Ring) -> bool {
        matches!(&self.scope, Scope::Ring(pattern) if ring.has_pattern(pattern))
    }
}

impl LimitName {
    /// The limit in a clause; `None` is no limit.
    fn of(self, clause: &Clause) -> Option<u32> {
        match self {
            LimitName::MaxTa => clause.max_agents,
            LimitName::MaxChannel => clause.max_channel,
            LimitName::MaxRing => clause.max_ring,
            LimitName::MaxThr => Some(clause.max_thread),
            LimitName::Overfeed => Some(clause.overfeed),
        }
    }
}
