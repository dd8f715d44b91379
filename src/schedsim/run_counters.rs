//! The results of a run, recorded or simulated, for comparison.

use std::collections::HashMap;
use zsched_core::{Action, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, ReportStatus};
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};

/// Counters of a run.
#[derive(Default)]
pub(crate) struct RunCounters {
    /// Arrival time of each queued message.
    arrived: HashMap<u64, Timestamp>,
    /// Recipients delivered.
    pub delivered: u64,
    /// Recipients that failed permanently.
    pub failed: u64,
    /// Recipients that expired.
    pub expired: u64,
    /// Reports that deferred a recipient.
    pub deferred: u64,
    /// Agents started.
    pub agents: u64,
    alive: u64,
    /// Maximum number of agents at the same time.
    pub max_agents: u64,
    /// Jobs given to agents.
    pub jobs: u64,
    /// Time from arrival to delivery of each delivered recipient, in seconds.
    delays: Vec<f64>,
    /// Recipients left in the queue.
    pub left: u64,
}

impl RunCounters {
    /// Adds a message that is queued already.
    pub(crate) fn known(&mut self, number: u64, since: Timestamp) {
        self.arrived.entry(number).or_insert(since);
    }

    /// Returns the given percentile of the delivery delays, in seconds.
    pub(crate) fn delay(&self, percent: usize) -> Option<f64> {
        let mut delays = self.delays.clone();
        delays.sort_unstable_by(f64::total_cmp);
        let index = (delays.len() * percent).div_ceil(100).max(1) - 1;
        delays.get(index).copied()
    }

    /// Records the state at the end of the run.
    pub(crate) fn end(&mut self, core: &Scheduler) {
        self.left = core.totals().recipients;
    }
}

impl ReplayObserver for RunCounters {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        match event {
            Event::Arrived(arrival) if core.is_new(arrival.name.number()) => {
                self.arrived.insert(arrival.name.number(), told.time);
            }
            Event::AgentSaid { line, .. } => {
                let leaves_waiting = |status| {
                    use ReportStatus::{DeferAll, DeferBack, Deferred, RetryAt, Unknown};
                    matches!(status, Deferred | DeferBack | RetryAt | DeferAll | Unknown)
                };
                if let AgentLine::Report(report) = AgentLine::parse(line) {
                    self.deferred += u64::from(leaves_waiting(report.status));
                }
            }
            Event::AgentEnded { .. } => self.alive = self.alive.saturating_sub(1),
            _ => {}
        }
    }

    fn after(&mut self, told: &ReplayedEvent, decided: &[Action], _: &Scheduler) {
        for action in decided {
            match action {
                Action::StartAgent { .. } => {
                    self.agents += 1;
                    self.alive += 1;
                    self.max_agents = self.max_agents.max(self.alive);
                }
                Action::Feed { .. } => self.jobs += 1,
                Action::Statistics(end) => match end.state {
                    "expire" => self.expired += 1,
                    "error" | "error2" => self.failed += 1,
                    _ => {
                        self.delivered += 1;
                        let arrived = self.arrived.get(&end.spool_id.number);
                        let delay = arrived.map(|arrived| told.time.since(*arrived));
                        self.delays.extend(delay.map(|delay| delay.as_secs_f64()));
                    }
                },
                _ => {}
            }
        }
    }
}
