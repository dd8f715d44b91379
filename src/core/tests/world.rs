//! The core in a world that the test plays: it has agents that do nothing by themselves.
//!
//! `tests/compat/` shares this file.

use super::zsched_core::why::Reason;
use super::zsched_core::{Action, AgentEnd, AgentId, Event, Scheduler, Settings};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_format::time::Timestamp;
use zsched_spool::report::UnreportedRest;
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

pub fn config(text: &str) -> Config {
    let context = ConfigContext::unprivileged(Zenv::default());
    let loaded = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    loaded.unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).config
}

/// A core and the actions it has emitted.
pub struct World {
    pub core: Scheduler,
    config: Rc<Config>,
    pub now: Timestamp,
    /// The agents that run.
    pub agents: BTreeMap<AgentId, RunningAgent>,
    /// Agents that were started, oldest first.
    pub started: Vec<AgentId>,
    /// Lines of the log.
    pub log: Vec<String>,
    /// All other actions, in order.
    pub done: Vec<Action>,
    /// Check the invariants after each event; with many threads this takes too long.
    pub is_checked: bool,
    /// The pid of the agent with id 0; the next one has the next number.
    pub first_pid: u32,
    /// Agents cannot be started at present, so arriving mail waits.
    pub cannot_start_agents: bool,
    /// Notes, removals and overrides are on disk at once.
    pub has_disk: bool,
}

/// An agent that runs.
pub struct RunningAgent {
    pub channel: String,
    /// What was sent to it and not read yet: job lines, `#idle`, `(retire)` and so on.
    pub input: Vec<String>,
}

pub const START: Timestamp = Timestamp::from_seconds(1_795_255_200);

impl World {
    pub fn new(config_text: &str) -> World {
        World::with(Settings { seed: 1, ..Settings::default() }, config_text)
    }

    pub fn with(settings: Settings, config_text: &str) -> World {
        let config = Rc::new(config(config_text));
        World {
            core: Scheduler::new(settings, config.clone()),
            config,
            now: START,
            agents: BTreeMap::new(),
            started: Vec::new(),
            log: Vec::new(),
            done: Vec::new(),
            is_checked: true,
            first_pid: 1000,
            cannot_start_agents: false,
            has_disk: false,
        }
    }

    pub fn handle(&mut self, event: Event<'_>) {
        self.core.handle(self.now, event);
        self.collect();
    }

    fn collect(&mut self) {
        if self.is_checked {
            self.core.check_invariants();
        }
        while let Some(action) = self.core.poll() {
            match action {
                Action::StartAgent { agent, .. } if self.cannot_start_agents => {
                    let end = AgentEnd::NotStarted("not yet".to_string());
                    self.core.handle(self.now, Event::AgentEnded { agent, end });
                    // It ends the suspension of the ring: agents can be started later.
                    self.core.handle(self.now, Event::Configured(self.config.clone()));
                }
                Action::StartAgent { agent, channel, .. } => {
                    self.started.push(agent);
                    let channel = String::from_utf8_lossy(&channel).into_owned();
                    self.agents.insert(agent, RunningAgent { channel, input: Vec::new() });
                    let pid = self.first_pid + agent.0 as u32;
                    self.core.handle(self.now, Event::AgentStarted { agent, pid });
                }
                Action::Feed { agent, job } => {
                    let job = String::from_utf8(job).expect("test names are text");
                    self.send_to_agent(agent, job.trim_end());
                }
                Action::SendIdle(agent) => self.send_to_agent(agent, "#idle"),
                Action::StopAgent { agent, manner } => {
                    self.send_to_agent(agent, &format!("({manner:?})").to_lowercase());
                }
                Action::Log(_, text) => self.log.push(text),
                other => {
                    if self.has_disk {
                        self.confirm(&other);
                    }
                    self.done.push(other);
                }
            }
        }
        if self.is_checked {
            self.core.check_invariants();
        }
    }

    fn send_to_agent(&mut self, agent: AgentId, line: &str) {
        self.agents.get_mut(&agent).expect("it runs").input.push(line.to_string());
    }

    /// Answers a request to the disk.
    fn confirm(&mut self, action: &Action) {
        let event = match action {
            Action::Note(note) => Event::Noted { ticket: note.ticket, outcome: Ok(true) },
            Action::Report { ticket, .. } => {
                Event::Reported { ticket: *ticket, outcome: Ok(UnreportedRest::default()) }
            }
            Action::Remove { name, .. } => {
                Event::Removed { number: name.number(), outcome: Ok(()) }
            }
            Action::StoreOverrides { ticket, .. } => {
                Event::OverridesStored { ticket: *ticket, outcome: Ok(()) }
            }
            _ => return,
        };
        self.core.handle(self.now, event);
    }

    /// Adds a message with one recipient for each destination, at offsets 100, 200 and so on.
    pub fn message(&mut self, number: u64, destinations: &[&str]) {
        self.message_of_age(number, destinations, Duration::ZERO);
    }

    pub fn message_of_age(&mut self, number: u64, destinations: &[&str], age: Duration) {
        let groups = destinations.iter().enumerate().map(|(index, destination)| {
            let (channel, host) = destination.split_once('/').expect("channel/host");
            Group::new(channel.as_bytes(), host.as_bytes(), &[100 * (index as u32 + 1)])
        });
        let arrival = arrival(number, groups.collect(), self.now - age, self.now);
        self.handle(Event::Arrived(Box::new(arrival)));
    }

    /// Adds messages with these numbers, each with one recipient for the same destination.
    pub fn messages(&mut self, numbers: std::ops::RangeInclusive<u64>, destination: &str) {
        numbers.for_each(|number| self.message(number, &[destination]));
    }

    pub fn agent_line(&mut self, agent: AgentId, line: &str) {
        self.handle(Event::AgentSaid { agent, line: line.as_bytes() });
    }

    pub fn hungry(&mut self, agent: AgentId) {
        self.agent_line(agent, "#hungry");
    }

    /// Lines that were sent to an agent since the last call.
    pub fn take_lines(&mut self, agent: AgentId) -> Vec<String> {
        self.agents
            .get_mut(&agent)
            .map(|agent| std::mem::take(&mut agent.input))
            .unwrap_or_default()
    }

    /// Sends `#hungry` of the agent that was started last. Returns it and the lines sent to it.
    pub fn hungry_new_agent(&mut self) -> (AgentId, Vec<String>) {
        let agent = *self.started.last().expect("an agent was started");
        self.hungry(agent);
        (agent, self.take_lines(agent))
    }

    /// Delivers message 1 to a destination. Returns the agent, which is idle then.
    pub fn idle_agent(&mut self, destination: &str) -> AgentId {
        self.message(1, &[destination]);
        let (agent, jobs) = self.hungry_new_agent();
        self.works(agent, jobs, "ok3");
        self.hungry(agent);
        agent
    }

    /// Ends the jobs of an agent one by one.
    ///
    /// Offset 100 of each gets this answer.
    ///
    /// Stops when it gets no more lines or one that is no job. Returns the bursts that it got.
    pub fn works(
        &mut self,
        agent: AgentId,
        mut jobs: Vec<String>,
        answer: &str,
    ) -> Vec<Vec<String>> {
        let mut bursts = Vec::new();
        while !jobs.is_empty() && jobs.iter().all(|job| !job.starts_with(['#', '('])) {
            for job in &jobs {
                let number = job.split('\t').next().unwrap_or_default();
                self.agent_line(agent, &format!("{number}/100\t\t{answer}"));
                self.hungry(agent);
            }
            bursts.push(std::mem::replace(&mut jobs, self.take_lines(agent)));
        }
        if !jobs.is_empty() {
            bursts.push(jobs);
        }
        bursts
    }

    pub fn dies(&mut self, agent: AgentId, end: AgentEnd) {
        self.agents.remove(&agent);
        self.handle(Event::AgentEnded { agent, end });
    }

    /// Advances the time, with a tick at each wake-up of the core.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(wakeup) = self.core.next_wakeup().filter(|wakeup| *wakeup <= until) {
            self.now = self.now.max(wakeup);
            self.handle(Event::Tick);
        }
        self.now = until;
        self.handle(Event::Tick);
    }

    pub fn pass_seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    /// The vertices of a message as MAILQ shows them: state, tries, text.
    pub fn shows(&self, number: u64) -> Vec<String> {
        let Some(message) = self.core.view().message(number) else {
            return Vec::new();
        };
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        self.core
            .view()
            .vertices_of(message)
            .map(|queued| {
                let reason = match self.core.view().reason_of(queued.id) {
                    Reason::Retry(at) => format!("Retry({})", at.seconds_since(self.now).max(0)),
                    other => format!("{other:?}"),
                };
                let (to, tries) = (&queued.thread.destination, queued.vertex.attempts);
                format!("{to} {reason} tries={tries} {}", text(queued.text()))
            })
            .collect()
    }

    /// Answers the report with a ticket: the router has it.
    pub fn answer_report(&mut self, ticket: u64) {
        let is_it =
            |action: &Action| matches!(action, Action::Report { ticket: of, .. } if *of == ticket);
        assert!(self.done.iter().any(is_it), "no report {ticket} was requested");
        self.handle(Event::Reported { ticket, outcome: Ok(UnreportedRest::default()) });
    }

    /// Confirms removals. Returns the numbers of the messages removed since the last call.
    ///
    /// An asterisk marks messages that were moved to `postman/`.
    pub fn removed(&mut self) -> Vec<String> {
        let mut removed = Vec::new();
        for action in std::mem::take(&mut self.done) {
            match action {
                Action::Remove { name, aside, .. } => {
                    removed.push(format!("{name}{}", if aside { "*" } else { "" }));
                    let number = name.number();
                    if !self.has_disk {
                        self.handle(Event::Removed { number, outcome: Ok(()) });
                    }
                }
                other => self.done.push(other),
            }
        }
        removed
    }
}

pub fn name(number: u64) -> SpoolName {
    SpoolName::new(HashFolder::TOP, number.to_string().as_bytes()).expect("a number is a name")
}

pub fn arrival(
    number: u64,
    groups: Vec<Group>,
    modified: Timestamp,
    created: Timestamp,
) -> Arrival {
    Arrival::of_groups(name(number), modified, created, groups)
}
