//! How long a ring without agents waits for one under `maxta`, `maxchannel` and the fork rate. The
//! bound is that of `docs/scheduling.md`.
//!
//! All counts come from outside the core: from its actions, and from the rings that MAILQ shows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_config::Config;
use zsched_core::Refusal;
use zsched_core::view::{Ring, Thread};
use zsched_core::why::Reason;
use zsched_core::{Action, AgentId, Event, Order, Scheduler};
use zsched_format::time::Timestamp;
use zsched_simulation::observer::SimTime;

/// Time after which an agent gives way to a waiting ring.
///
/// It is also a step of priority.
const AGENT_TURN: Duration = Duration::from_secs(5);
/// Slack for the fork rate and for times in whole seconds.
///
/// A start that exceeds the fork rate waits for the next second.
const SLACK: Duration = Duration::from_secs(3);
/// Number of steps between the highest priority and the lowest.
const PRIORITY_STEPS: u32 = 9;

/// A ring: the pattern of its clause, its channel, and its host if its agents serve only that.
type RingName = (String, Box<[u8]>, Option<Box<[u8]>>);

/// Rings that wait for an agent, and how long agents take.
#[derive(Default)]
pub struct AgentWaitChecks {
    waiting: BTreeMap<RingName, Wait>,
    /// Agents with work, and the start of that work.
    at_work: BTreeMap<AgentId, Timestamp>,
    /// Agents among them that were told to be idle and have not answered.
    told_to_idle: BTreeSet<AgentId>,
    /// The longest time in which an agent started, ended its jobs, became idle, or exited.
    longest_work: Duration,
    /// Some configuration had a clause with a priority.
    has_priorities: bool,
    /// The longest wait of a ring.
    pub longest: Duration,
}

struct Wait {
    since: Timestamp,
    /// Maximum number of rings that waited at the same time.
    rings: u32,
}

impl AgentWaitChecks {
    /// Records an event before the core handles it.
    pub fn record_event(&mut self, at: SimTime, event: &Event<'_>) {
        match event {
            Event::AgentEnded { agent, .. } => self.ends_work(at.now, *agent),
            Event::AgentSaid { agent, .. } if self.told_to_idle.contains(agent) => {
                self.ends_work(at.now, *agent);
            }
            // All rings are new, or have new limits.
            Event::Configured(config) => self.configured(config),
            Event::Ordered { order: Order::Set { .. } | Order::Unset { .. }, .. } => {
                self.waiting.clear();
            }
            _ => {}
        }
    }

    /// Records a new configuration.
    pub fn configured(&mut self, config: &Config) {
        self.waiting.clear();
        let is_priority = |line: &str| line.trim_start().starts_with("mail-priority=");
        self.has_priorities |= config.show().lines().any(is_priority);
    }

    /// Records an action of the core.
    pub fn record_action(&mut self, at: SimTime, action: &Action) {
        match action {
            Action::StartAgent { agent, .. }
            | Action::Feed { agent, .. }
            | Action::StopAgent { agent, .. } => {
                self.ends_work(at.now, *agent);
                self.at_work.insert(*agent, at.now);
            }
            Action::SendIdle(agent) => {
                self.ends_work(at.now, *agent);
                self.at_work.insert(*agent, at.now);
                self.told_to_idle.insert(*agent);
            }
            _ => {}
        }
    }

    fn ends_work(&mut self, now: Timestamp, agent: AgentId) {
        self.told_to_idle.remove(&agent);
        if let Some(since) = self.at_work.remove(&agent) {
            self.longest_work = self.longest_work.max(now.since(since));
        }
    }

    /// Checks all rings. Panics if one has waited for too long.
    pub fn check_all(&mut self, at: SimTime, core: &Scheduler) {
        let mut waiting = Vec::new();
        for id in core.view().ring_ids() {
            let ring = core.view().ring(id).expect("a ring that is listed is there");
            let mut threads = ring.threads.iter().map(|id| core.view().thread(*id).expect("there"));
            if core.view().ring_agents(id).count == 0
                && let Some(thread) = threads.find(|thread| waits_for_place(core, thread))
            {
                waiting.push(name(ring, thread));
            }
        }
        let count = waiting.len() as u32;
        let mut former = std::mem::take(&mut self.waiting);
        for name in waiting {
            let wait = former.remove(&name);
            let mut wait = wait.unwrap_or(Wait { since: at.now, rings: 0 });
            wait.rings = wait.rings.max(count);
            self.waiting.insert(name, wait);
        }
        let work = self.at_work.values().map(|since| at.now.since(*since)).max();
        let work = work.unwrap_or_default().max(self.longest_work);
        let priorities =
            if self.has_priorities { AGENT_TURN * PRIORITY_STEPS } else { Duration::ZERO };
        for (name, wait) in &self.waiting {
            let waited = at.now.since(wait.since);
            self.longest = self.longest.max(waited);
            // An agent begins, works, and exits. So do those ahead of it, even if there is only one
            // agent.
            let bound = (AGENT_TURN + work * 3 + SLACK) * (wait.rings + 1) + priorities;
            assert!(
                waited <= bound,
                "{name:?} waits for an agent for {waited:?}, with {} others; the longest work is {work:?}",
                wait.rings - 1
            );
        }
    }
}

/// Returns true if due mail of a thread waits for an agent.
fn waits_for_place(core: &Scheduler, thread: &Thread) -> bool {
    matches!(
        core.view().pending_reason(thread),
        Some(Reason::Refused(
            Refusal::MaxAgents | Refusal::Claimed | Refusal::MaxChannel | Refusal::ForkRate
        ))
    )
}

fn name(ring: &Ring, thread: &Thread) -> RingName {
    let host = ring.host.is_some().then(|| thread.destination.host().into());
    (ring.pattern(), thread.destination.channel().into(), host)
}
