//! A model of arrivals and agents, learned from a recording.
//!
//! It is the input of a run under another configuration. Each recipient has the outcomes it had in
//! the recording, in order, each with its duration. They are used attempt by attempt. For further
//! attempts the last outcome is repeated, and counted as made up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use zsched_core::{Action, AgentEnd, AgentId, Destination, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, ReportStatus};
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};
use zsched_spool::{Arrival, HashFolder, SpoolName};

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The agent reported this: notary data, status word and text.
    Report(Box<[u8]>),
    /// The agent died during the attempt.
    Death(AgentEnd),
}

/// An attempt: its outcome and duration.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The outcome.
    pub outcome: Outcome,
    /// The duration.
    pub took: Duration,
}

/// A message, with a number that is unique in the model.
pub(crate) struct RecordedMessage {
    /// When it arrived.
    pub time: Timestamp,
    /// The arrival.
    pub arrival: Arrival,
    /// Attempts by recipient.
    pub attempts: HashMap<u32, VecDeque<Attempt>>,
}

/// The model of a recording.
#[derive(Default)]
pub(crate) struct AgentModel {
    /// Messages in the order of arrival.
    pub mail: Vec<RecordedMessage>,
    /// Hosts whose mail was requested, with the time (ETRN).
    pub etrn_requests: Vec<(Timestamp, Box<[u8]>)>,
    /// Time from the start of an agent to its first `#hungry`.
    pub start: Mean,
    /// Time from an agent's last report on a job to its `#hungry`.
    pub between: Mean,
    /// Duration of an attempt.
    pub attempt: Mean,
    /// Index of the message that has a number at the moment.
    present: HashMap<u64, usize>,
    agents: BTreeMap<AgentId, Agent>,
}

/// A mean duration.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: Duration,
    count: u32,
}

impl Mean {
    fn add(&mut self, time: Duration) {
        self.sum += time;
        self.count += 1;
    }

    /// Returns the mean; zero if there are no values.
    pub(crate) fn value(self) -> Duration {
        self.sum.checked_div(self.count).unwrap_or_default()
    }
}

/// An agent of the recording.
struct Agent {
    /// When it began the work that it will report next.
    since: Timestamp,
    is_new: bool,
    /// Message and destination of its jobs; `None` stands for its start or `#idle`.
    owed: VecDeque<Option<(usize, Destination)>>,
}

impl AgentModel {
    /// Takes the mail that is queued when the recording begins as arrivals at that time.
    pub(crate) fn begin(&mut self, now: Timestamp, core: &Scheduler) {
        core.arrivals().for_each(|arrival| self.arrive(now, arrival));
    }

    fn arrive(&mut self, time: Timestamp, mut arrival: Arrival) {
        let index = self.mail.len();
        self.present.insert(arrival.name.number(), index);
        arrival.name = name_of(index);
        self.mail.push(RecordedMessage { time, arrival, attempts: HashMap::new() });
    }

    fn said(&mut self, now: Timestamp, agent: AgentId, line: &[u8]) {
        let agent = self.agents.entry(agent).or_insert_with(|| Agent::new(now));
        let took = now.since(std::mem::replace(&mut agent.since, now));
        match AgentLine::parse(line) {
            AgentLine::Hungry => {
                let mean = if agent.is_new { &mut self.start } else { &mut self.between };
                if std::mem::take(&mut agent.is_new) || matches!(agent.owed.front(), Some(Some(_)))
                {
                    mean.add(took);
                }
                agent.owed.pop_front();
            }
            AgentLine::Report(report) => {
                self.attempt.add(took);
                let Some(index) = self.present.get(&report.number) else { return };
                let mut text = report.notary.to_vec();
                text.push(b'\t');
                text.extend_from_slice(report.status.word().as_bytes());
                text.push(b' ');
                // An absolute time would mean another wait in the simulation.
                let seconds =
                    report.retry_seconds().filter(|_| report.status == ReportStatus::RetryAt);
                if let Some(seconds) = seconds.filter(|seconds| *seconds > 100_000) {
                    let wait = (seconds - now.seconds()).max(0);
                    text.extend_from_slice(format!("+{wait} ").as_bytes());
                    text.extend_from_slice(report.text());
                } else {
                    text.extend_from_slice(report.message);
                }
                let attempt = Attempt { outcome: Outcome::Report(text.into()), took };
                let attempts = &mut self.mail[*index].attempts;
                attempts.entry(report.offset).or_default().push_back(attempt);
            }
            _ => agent.since = now - took,
        }
    }

    fn ended(&mut self, now: Timestamp, agent: AgentId, end: &AgentEnd, core: &Scheduler) {
        let Some(agent) = self.agents.remove(&agent) else { return };
        let Some(Some((index, destination))) = agent.owed.front() else { return };
        let number = self.present.iter().find(|(_, present)| *present == index);
        let vertices = number.and_then(|(number, _)| core.inspect(*number)).unwrap_or_default();
        let of_job = vertices.iter().filter(|vertex| {
            (&*vertex.channel, &*vertex.host) == (destination.channel(), destination.host())
        });
        let took = now.since(agent.since);
        for offset in of_job.flat_map(|vertex| &vertex.offsets) {
            let attempt = Attempt { outcome: Outcome::Death(end.clone()), took };
            self.mail[*index].attempts.entry(*offset).or_default().push_back(attempt);
        }
    }

    fn fed(&mut self, now: Timestamp, id: AgentId, job: &[u8], core: &Scheduler) {
        let agent = self.agents.entry(id).or_insert_with(|| Agent::new(now));
        if agent.owed.is_empty() {
            agent.since = now;
        }
        let mut fields = job.trim_ascii_end().split(|byte| *byte == b'\t');
        let path = fields.next().unwrap_or_default();
        let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = SpoolName::new(HashFolder::TOP, base);
        let index = name.and_then(|name| self.present.get(&name.number()));
        let destination = core.destination_of_job(id, fields.next());
        agent.owed.push_back(index.copied().zip(destination));
    }
}

impl Agent {
    fn new(now: Timestamp) -> Agent {
        Agent { since: now, is_new: false, owed: VecDeque::new() }
    }
}

/// Returns the name of a message in a run.
///
/// It is unique, even if the spool used its number again.
fn name_of(index: usize) -> SpoolName {
    let number = (index + 1).to_string();
    SpoolName::new(HashFolder::TOP, number.as_bytes()).expect("a number is a name")
}

impl ReplayObserver for AgentModel {
    fn before(&mut self, told: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        let now = told.time;
        match event {
            Event::Arrived(arrival) if core.is_new(arrival.name.number()) => {
                self.arrive(now, arrival.clone());
            }
            Event::AgentSaid { agent, line } => self.said(now, *agent, line),
            Event::AgentEnded { agent, end } => self.ended(now, *agent, end, core),
            Event::Etrn(host) => self.etrn_requests.push((now, (*host).into())),
            _ => {}
        }
    }

    fn after(&mut self, told: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        let now = told.time;
        for action in decided {
            match action {
                Action::StartAgent { agent, .. } => {
                    let owed = VecDeque::from([None]);
                    self.agents.insert(*agent, Agent { since: now, is_new: true, owed });
                }
                Action::Feed { agent, job } => self.fed(now, *agent, job, core),
                Action::SendIdle(agent) => {
                    if let Some(agent) = self.agents.get_mut(agent) {
                        agent.owed.push_back(None);
                    }
                }
                _ => {}
            }
        }
    }
}
