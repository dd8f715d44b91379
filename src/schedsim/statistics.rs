//! Counters of a run: simulated, or recorded and replayed.

use foldhash::HashMap;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use zsched_core::{Action, AgentId, Destination, Event, Scheduler};
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
    pub destinations: HashMap<Destination, DestinationResults>,
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
}

/// Results of the recipients of one destination.
#[derive(Clone, Debug, Default)]
pub(crate) struct DestinationResults {
    /// Recipients that arrived.
    pub recipients: u64,
    /// Recipients that failed permanently.
    pub failed: u64,
    /// Recipients that expired.
    pub expired: u64,
    /// Recipients that an operator deleted or rerouted.
    pub removed: u64,
    /// Recipients in the queue at the end.
    pub queued: u64,
    /// The delivered recipients.
    pub deliveries: Vec<Delivery>,
    /// Maximum time by which a message was overtaken.
    ///
    /// That is how much later another message of the channel arrived that was fed to an agent
    /// earlier.
    pub overtaken: Duration,
    /// Jobs that agents have begun.
    pub jobs: Jobs,
    /// Its thread over time. Samples of other times found none.
    pub samples: Vec<ThreadSample>,
}

/// A delivery to a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Number of samples before it.
    pub samples: u32,
    /// Time from arrival to delivery, in milliseconds.
    pub delay: u32,
}

/// Jobs of one destination.
///
/// A job begins when its agent comes to it: an agent may have further jobs that wait (`overfeed`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    /// Number of jobs.
    pub count: u64,
    /// Jobs that ended with the host not reached.
    pub not_reached: u64,
    /// Agents that are at work on a job now.
    at_work: u64,
    /// Agents at work at the start of each job.
    ///
    /// Those before the end of the first job are dropped then.
    concurrency: Vec<u32>,
    /// True if a job had ended when the last one began.
    is_steady: bool,
    /// When the last job began.
    last: Option<Timestamp>,
    /// Shortest and longest time between the starts of consecutive jobs.
    pub gaps: Option<(Duration, Duration)>,
}

impl DestinationResults {
    /// Counts a delivery after this number of samples.
    fn deliver(&mut self, delay: Duration, samples: usize) {
        let limited = |count: u128| u32::try_from(count).unwrap_or(u32::MAX);
        self.deliveries.push(Delivery {
            samples: limited(samples as u128),
            delay: limited(delay.as_millis()),
        });
    }
}

impl Jobs {
    fn begin(&mut self, now: Timestamp) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last);
            let (shortest, longest) = self.gaps.unwrap_or((gap, gap));
            self.gaps = Some((shortest.min(gap), longest.max(gap)));
        }
        // Until the first job ends, the number only grows by one per job, whatever the window is.
        if !self.is_steady && self.at_work < self.count {
            self.is_steady = true;
            self.concurrency.clear();
        }
        self.count += 1;
        self.at_work += 1;
        self.concurrency.push(self.at_work as u32);
    }

    fn end(&mut self, was_reached: bool) {
        self.at_work -= 1;
        self.not_reached += u64::from(!was_reached);
    }

    /// Mean and standard deviation of the agents at work at the start of a job.
    ///
    /// The job itself is included. Counts the jobs that began after one had ended, or all jobs if
    /// none did.
    pub(crate) fn concurrency(&self) -> (f64, f64) {
        let count = self.concurrency.len().max(1) as f64;
        let sum = |power| self.concurrency.iter().map(|n| f64::from(*n).powi(power)).sum::<f64>();
        let mean = sum(1) / count;
        (mean, (sum(2) / count - mean * mean).max(0.0).sqrt())
    }
}

/// An agent and its jobs.
struct AgentJobs {
    channel: Rc<[u8]>,
    host: Rc<[u8]>,
    /// Destinations of its jobs. It is at work on the first.
    jobs: VecDeque<Destination>,
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

/// A thread at the time of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadSample {
    /// Number of samples before it.
    pub samples: u32,
    /// Recipients in the queue.
    pub recipients: u32,
    /// Agents at work.
    pub agents: u32,
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
            let destination = Destination::new(&group.channel, &group.host);
            self.destinations.entry(destination).or_default().recipients +=
                group.offsets.len() as u64;
        }
    }

    /// Takes a sample of the queues.
    pub(crate) fn take_sample(&mut self, core: &Scheduler, time: Timestamp) {
        let samples = self.samples.len() as u32;
        for thread in core.view().threads() {
            let (recipients, agents) = (thread.recipients, thread.agents.len() as u32);
            let sample = ThreadSample { samples, recipients, agents };
            self.destinations.entry(thread.destination.clone()).or_default().samples.push(sample);
        }
        let totals = core.view().totals();
        self.samples.push(Sample { time, agents: totals.agents, recipients: totals.recipients });
    }

    /// Takes what is queued at the end of the run.
    pub(crate) fn end(&mut self, core: &Scheduler) {
        for thread in core.view().threads() {
            let results = self.destinations.entry(thread.destination.clone()).or_default();
            results.queued = thread.recipients.into();
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
        let destination = Destination::new(&agent.channel, host.unwrap_or(&agent.host));
        agent.jobs.push_back(destination.clone());
        let is_begun = agent.jobs.len() == 1;
        let channel = agent.channel.clone();
        let overtaken = self.arrivals.get(&number).copied().map(|arrival| {
            let latest = self.latest.entry(channel).or_insert(arrival);
            *latest = arrival.max(*latest);
            latest.since(arrival)
        });
        let results = self.destinations.entry(destination).or_default();
        results.overtaken = results.overtaken.max(overtaken.unwrap_or_default());
        if is_begun {
            results.jobs.begin(at.now);
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
                if let Some(destination) = agent.jobs.pop_front() {
                    self.destinations.entry(destination).or_default().jobs.end(was_reached);
                }
                if let Some(next) = agent.jobs.front() {
                    self.destinations.entry(next.clone()).or_default().jobs.begin(at.now);
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
                if let Some(destination) = agent.and_then(|mut agent| agent.jobs.pop_front()) {
                    self.destinations.entry(destination).or_default().jobs.end(true);
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
    use zsched_spool::SpoolId;

    #[test]
    fn concurrency_excludes_jobs_before_the_first_end() {
        let mut jobs = Jobs::default();
        (0..4).for_each(|second| jobs.begin(Timestamp::from_seconds(second)));
        assert_eq!(jobs.concurrency().0, 2.5, "nothing else is known");
        jobs.end(true);
        jobs.begin(Timestamp::from_seconds(5));
        jobs.end(false);
        jobs.end(true);
        jobs.begin(Timestamp::from_seconds(6));
        assert_eq!(jobs.concurrency(), (3.5, 0.5));
        assert_eq!((jobs.count, jobs.not_reached), (6, 1));
    }

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
