//! Counters of a run: simulated, or recorded and replayed.

use crate::destination_results::{ResultsByDestination, index_of};
use crate::thread_samples::ThreadSampler;
use foldhash::HashMap;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use zsched_core::{Action, AgentId, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, ReportStatus};
use zsched_format::control_file::Tag;
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};
use zsched_simulation::disk::Disk;
use zsched_simulation::observer::{SimTime, SimulationObserver};
use zsched_spool::Arrival;
use zsched_spool::memory_file::MemoryFile;

/// All counters of a run.
#[derive(Default)]
pub(crate) struct Statistics {
    /// Start of the run.
    pub start: Timestamp,
    /// Messages that arrived.
    pub messages: u64,
    /// Reports that deferred a recipient.
    pub deferrals: u64,
    /// Agents started.
    pub agents_started: u64,
    /// Maximum number of agents at the same time.
    pub max_agents: usize,
    /// Jobs given to agents.
    pub jobs: u64,
    /// Results by destination.
    pub destinations: ResultsByDestination,
    /// Maximum number of recipients in the queue at the same time.
    pub max_queued: u64,
    /// Number of a paged-out message that is about to arrive again.
    returning: Option<u64>,
    agents: HashMap<AgentId, AgentJobs>,
    /// Arrival times of the messages in the spool.
    arrivals: HashMap<u64, Timestamp>,
    /// For each channel, the latest arrival time among the messages fed to its agents.
    latest: HashMap<Rc<[u8]>, Timestamp>,
    /// Queues and agents over time.
    pub samples: Vec<Sample>,
    threads: ThreadSampler,
}

/// An agent and its jobs.
struct AgentJobs {
    channel: Rc<[u8]>,
    host: Rc<[u8]>,
    /// Indexes of the destinations of its jobs. It is at work on the first.
    jobs: VecDeque<usize>,
    /// True if the host of its current job was not reached.
    host_lost: bool,
}

/// Queues and agents at a point in time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Time of the sample.
    pub time: Timestamp,
    /// All agents, including idle ones.
    pub agents: usize,
    /// Recipients in the queue.
    pub recipients: u64,
}

impl Statistics {
    /// Creates empty counters.
    pub(crate) fn new(start: Timestamp) -> Statistics {
        Statistics { start, ..Statistics::default() }
    }

    /// A message arrives that was not queued before.
    pub(crate) fn arrived(&mut self, now: Timestamp, number: u64) {
        self.messages += 1;
        self.arrivals.insert(number, now);
    }

    fn queued(&mut self, arrival: &Arrival) {
        for group in &arrival.groups {
            let index = index_of(&mut self.destinations, &group.channel, &group.host);
            self.destinations[index].recipients += group.offsets.len() as u64;
        }
    }

    /// Takes a sample of the queues.
    pub(crate) fn take_sample(&mut self, core: &Scheduler, time: Timestamp) {
        let number = self.samples.len() as u32;
        for (id, thread) in core.view().threads() {
            let found = (thread.recipients, thread.agents.len() as u32);
            let ended = self.threads.add(number, (id.index(), &thread.destination), found);
            if let Some((destination, sample)) = ended {
                self.destinations.entry(destination).or_default().samples.push(sample);
            }
        }
        let totals = core.view().totals();
        self.samples.push(Sample { time, agents: totals.agents, recipients: totals.recipients });
    }

    /// Takes what is queued at the end of the run.
    pub(crate) fn end(&mut self, core: &Scheduler) {
        for (_, thread) in core.view().threads() {
            let results = self.destinations.entry(thread.destination.clone()).or_default();
            results.queued = thread.recipients.into();
        }
        for (destination, sample) in self.threads.finish() {
            self.destinations.entry(destination).or_default().samples.push(sample);
        }
    }

    /// Arrival time of the oldest message in the spool.
    pub(crate) fn oldest_arrival(&self) -> Option<Timestamp> {
        self.arrivals.values().min().copied()
    }

    /// Takes the mail that is queued when a recording begins as arrivals at that time.
    pub(crate) fn begin(&mut self, core: &Scheduler) {
        for arrival in core.view().arrivals() {
            self.arrived(self.start, arrival.name.number());
            self.queued(&arrival);
        }
    }

    fn fed(&mut self, at: SimTime, agent: AgentId, job: &[u8]) {
        self.jobs += 1;
        let Some(agent) = self.agents.get_mut(&agent) else {
            return;
        };
        let Some((number, host)) = crate::parse_job(job) else {
            return;
        };
        let host = host.unwrap_or(&agent.host);
        let index = index_of(&mut self.destinations, &agent.channel, host);
        let results = &mut self.destinations[index];
        agent.jobs.push_back(index);
        if agent.jobs.len() == 1 {
            results.jobs.begin(at.now);
        }
        if let Some(arrival) = self.arrivals.get(&number).copied() {
            let latest = self.latest.entry(agent.channel.clone()).or_insert(arrival);
            *latest = arrival.max(*latest);
            results.overtaken = results.overtaken.max(latest.since(arrival));
        }
    }

    fn said(&mut self, at: SimTime, agent: AgentId, line: &[u8]) {
        let line = AgentLine::parse(line);
        if let AgentLine::Report(report) = &line {
            self.deferrals += u64::from(report.status.tag() == Tag::Pending);
        }
        let Some(agent) = self.agents.get_mut(&agent) else {
            return;
        };
        match line {
            AgentLine::Report(report) => agent.host_lost |= report.status == ReportStatus::DeferAll,
            AgentLine::Hungry => {
                let was_reached = !std::mem::take(&mut agent.host_lost);
                if let Some(ended) = agent.jobs.pop_front() {
                    self.destinations[ended].jobs.end(was_reached);
                }
                if let Some(next) = agent.jobs.front() {
                    self.destinations[*next].jobs.begin(at.now);
                }
            }
            _ => {}
        }
    }
}

impl SimulationObserver for Statistics {
    fn submitted(&mut self, at: SimTime, number: u64, _file: &MemoryFile) {
        self.arrived(at.wall, number);
    }

    fn event_sent(&mut self, at: SimTime, event: &Event<'_>) {
        match event {
            Event::Restored { number, .. } => self.returning = Some(*number),
            Event::Arrived(arrival) => {
                let is_back = self.returning.take() == Some(arrival.name.number());
                if !is_back {
                    self.queued(arrival);
                }
            }
            Event::AgentSaid { agent, line } => self.said(at, *agent, line),
            Event::AgentEnded { agent, .. } => {
                let agent = self.agents.remove(agent);
                if let Some(current) = agent.and_then(|mut agent| agent.jobs.pop_front()) {
                    self.destinations[current].jobs.end(true);
                }
            }
            _ => {}
        }
    }

    fn action_taken(&mut self, at: SimTime, action: &Action) {
        match action {
            Action::StartAgent { agent, channel, host, .. } => {
                self.agents_started += 1;
                let (channel, host) = (channel.clone(), host.clone());
                let known = AgentJobs { channel, host, jobs: VecDeque::new(), host_lost: false };
                self.agents.insert(*agent, known);
                self.max_agents = self.max_agents.max(self.agents.len());
            }
            Action::Feed { agent, job } => self.fed(at, *agent, job),
            Action::Remove { name, .. } => drop(self.arrivals.remove(&name.number())),
            Action::Statistics(end) => {
                let arrival = self.arrivals.get(&end.spool_id.number);
                let delay = arrival.map_or(Duration::ZERO, |arrival| at.wall.since(*arrival));
                let results = self.destinations.entry(end.destination.clone()).or_default();
                match end.state {
                    "expire" => results.expired += 1,
                    "error" | "error2" => results.failed += 1,
                    "delete" | "reroute" => results.removed += 1,
                    _ => results.deliver(delay, self.samples.len()),
                }
            }
            _ => {}
        }
    }

    fn step_over(&mut self, _: SimTime, core: Option<&Scheduler>, _: &Disk, _: bool) {
        self.max_queued = self.max_queued.max(core.map_or(0, |core| core.view().recipients()));
    }
}

impl ReplayObserver for Statistics {
    fn before(&mut self, replayed: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        if let Event::Arrived(arrival) = event {
            let number = arrival.name.number();
            if !core.view().is_new(number) {
                return;
            }
            if self.returning != Some(number) {
                self.arrived(replayed.time, number);
            }
        }
        self.event_sent(time_of(replayed), event);
    }

    fn after(&mut self, replayed: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        self.max_queued = self.max_queued.max(core.view().recipients());
        decided.iter().for_each(|action| self.action_taken(time_of(replayed), action));
    }
}

fn time_of(replayed: &ReplayedEvent) -> SimTime {
    SimTime { now: replayed.time, wall: replayed.time, step: replayed.number }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_core::Destination;
    use zsched_spool::SpoolId;

    #[test]
    fn recipient_deleted_by_operator_is_not_delivered() {
        let mut statistics = Statistics::default();
        let at = SimTime { now: Timestamp::default(), wall: Timestamp::default(), step: 1 };
        let destination = Destination::new(b"smtp", b"a.test");
        for state in ["delete", "reroute", "ok"] {
            let end = zsched_core::Statistics {
                spool_id: SpoolId { number: 1, modified: at.now },
                created: at.now,
                state,
                destination: destination.clone(),
            };
            statistics.action_taken(at, &Action::Statistics(end));
        }
        let results = &statistics.destinations[&destination];
        assert_eq!((results.removed, results.deliveries.len()), (2, 1));
    }
}
