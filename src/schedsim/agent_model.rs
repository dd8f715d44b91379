//! A model of arrivals and agents, learned from a recording.
//!
//! It is the input of a run under another configuration. Each recipient has the outcomes it had in
//! the recording, in order, each with its duration. They are used attempt by attempt. For further
//! attempts the last outcome is repeated, and counted as made up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use zsched_core::{Action, AgentEnd, AgentId, Destination, Event, Scheduler};
use zsched_format::agent_protocol::{AgentLine, ReportStatus};
use zsched_format::time::Timestamp;
use zsched_recorder::{ReplayObserver, ReplayedEvent};
use zsched_simulation::recorded::{RecordedAttempt, RecordedAttempts, RecordedOutcome};
use zsched_spool::Arrival;

/// The model of a recording.
#[derive(Default)]
pub(crate) struct AgentModel {
    /// Messages in the order of arrival, with the time. Their numbers in a run count from 1.
    pub mail: Vec<(Timestamp, Arrival)>,
    /// Hosts whose mail was requested, with the time (ETRN).
    pub etrn_requests: Vec<(Timestamp, Box<[u8]>)>,
    /// The attempts of agents.
    pub attempts: RecordedAttempts,
    /// Number in a run of the message that has a number at the moment.
    present: HashMap<u64, u64>,
    agents: BTreeMap<AgentId, RecordedAgent>,
}

/// An agent of the recording.
struct RecordedAgent {
    /// When it began the work that it will report next.
    since: Timestamp,
    is_new: bool,
    /// Message and destination of its jobs; `None` stands for its start or `#idle`.
    owed: VecDeque<Option<(u64, Destination)>>,
}

impl AgentModel {
    /// Takes the mail that is queued when the recording begins as arrivals at that time.
    pub(crate) fn begin(&mut self, now: Timestamp, core: &Scheduler) {
        core.view().arrivals().for_each(|arrival| self.arrive(now, arrival));
    }

    fn arrive(&mut self, time: Timestamp, arrival: Arrival) {
        self.present.insert(arrival.name.number(), self.mail.len() as u64 + 1);
        self.mail.push((time, arrival));
    }

    fn said(&mut self, now: Timestamp, agent: AgentId, line: &[u8]) {
        let agent = self.agents.entry(agent).or_insert_with(|| RecordedAgent::new(now));
        let took = now.since(std::mem::replace(&mut agent.since, now));
        match AgentLine::parse(line) {
            AgentLine::Hungry => {
                let RecordedAttempts { start, after_job, .. } = &mut self.attempts;
                let mean = if agent.is_new { start } else { after_job };
                if std::mem::take(&mut agent.is_new) || matches!(agent.owed.front(), Some(Some(_)))
                {
                    mean.add(took);
                }
                agent.owed.pop_front();
            }
            AgentLine::Report(report) => {
                self.attempts.duration.add(took);
                let Some(number) = self.present.get(&report.number) else { return };
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
                let outcome = RecordedOutcome::Report(text.into());
                self.attempts.add(*number, report.offset, RecordedAttempt { outcome, took });
            }
            _ => agent.since = now - took,
        }
    }

    fn ended(&mut self, now: Timestamp, agent: AgentId, end: &AgentEnd, core: &Scheduler) {
        let Some(agent) = self.agents.remove(&agent) else { return };
        let Some(Some((in_run, destination))) = agent.owed.front() else { return };
        let number = self.present.iter().find(|(_, present)| *present == in_run);
        let Some(message) = number.and_then(|(number, _)| core.view().message(*number)) else {
            return;
        };
        let of_job = core
            .view()
            .vertices_of(message)
            .filter(|queued| queued.thread.destination == *destination);
        let took = now.since(agent.since);
        for offset in of_job.flat_map(|queued| queued.vertex.pending_offsets()) {
            let outcome = RecordedOutcome::Death(end.clone());
            self.attempts.add(*in_run, offset, RecordedAttempt { outcome, took });
        }
    }

    fn fed(&mut self, now: Timestamp, id: AgentId, job: &[u8], core: &Scheduler) {
        let agent = self.agents.entry(id).or_insert_with(|| RecordedAgent::new(now));
        if agent.owed.is_empty() {
            agent.since = now;
        }
        let owed = super::parse_job(job).and_then(|(number, host)| {
            Some((*self.present.get(&number)?, core.view().destination_of_job(id, host)?))
        });
        agent.owed.push_back(owed);
    }
}

impl RecordedAgent {
    fn new(now: Timestamp) -> RecordedAgent {
        RecordedAgent { since: now, is_new: false, owed: VecDeque::new() }
    }
}

impl ReplayObserver for AgentModel {
    fn before(&mut self, replayed: &ReplayedEvent, event: &Event<'_>, core: &Scheduler) {
        let now = replayed.time;
        match event {
            Event::Arrived(arrival) if core.view().is_new(arrival.name.number()) => {
                self.arrive(now, Arrival::clone(arrival));
            }
            Event::AgentSaid { agent, line } => self.said(now, *agent, line),
            Event::AgentEnded { agent, end } => self.ended(now, *agent, end, core),
            Event::Etrn(host) => self.etrn_requests.push((now, (*host).into())),
            _ => {}
        }
    }

    fn after(&mut self, replayed: &ReplayedEvent, decided: &[Action], core: &Scheduler) {
        let now = replayed.time;
        for action in decided {
            match action {
                Action::StartAgent { agent, .. } => {
                    let owed = VecDeque::from([None]);
                    self.agents.insert(*agent, RecordedAgent { since: now, is_new: true, owed });
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
