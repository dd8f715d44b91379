//! Unit tests of the core in a world without processes, files or real clocks.

mod agents;
mod clock_step;
mod etrn;
mod fair_share;
mod feeding;
mod jobs;
mod learned;
mod lifecycle;
mod limits;
mod orders;
mod outcomes;
mod paged_threads;
mod paging;
mod partial;
mod preemption_reserve;
mod reload;
mod status;
mod windows;

use super::*;
use crate::query::why::Reason;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use zsched_config::{Clause, ConfigContext, Zenv};
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

/// The clause that results from settings.
pub fn clause(settings: &str) -> Clause {
    let config = config(&format!("c/*\n\t{settings}\n\tcommand=x\n"));
    Clause::clone(&config.select(b"c", b"h").expect("c/* matches"))
}

pub fn config(text: &str) -> Config {
    let context = ConfigContext::unprivileged(Zenv::default());
    let loaded = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    loaded.unwrap_or_else(|errors| panic!("{errors:?}")).config
}

/// A core and the actions it has emitted.
pub struct World {
    pub core: Scheduler,
    pub now: Timestamp,
    /// What was sent to each agent and not read yet: job lines, `#idle`, `(retire)` and so on.
    said: BTreeMap<AgentId, Vec<String>>,
    /// Agents that were started, oldest first.
    pub started: Vec<AgentId>,
    /// All other actions, in order.
    pub done: Vec<Action>,
    /// Check the invariants after each event; with many threads this takes too long.
    pub is_checked: bool,
}

pub const START: Timestamp = Timestamp::from_seconds(1_795_255_200);

impl World {
    pub fn new(config_text: &str) -> World {
        World::with(Settings { seed: 1, ..Settings::default() }, config_text)
    }

    pub fn with(settings: Settings, config_text: &str) -> World {
        World {
            core: Scheduler::new(settings, Rc::new(config(config_text))),
            now: START,
            said: BTreeMap::new(),
            started: Vec::new(),
            done: Vec::new(),
            is_checked: true,
        }
    }

    pub fn tell(&mut self, event: Event<'_>) {
        self.core.handle(self.now, event);
        self.collect();
    }

    fn collect(&mut self) {
        if self.is_checked {
            self.core.check_invariants();
        }
        while let Some(action) = self.core.poll() {
            match action {
                Action::StartAgent { agent, .. } => {
                    self.started.push(agent);
                    self.said.insert(agent, Vec::new());
                    let pid = 1000 + agent.0 as u32;
                    self.core.handle(self.now, Event::AgentStarted { agent, pid });
                }
                Action::Feed { agent, job } => {
                    let job = String::from_utf8(job.into()).expect("test names are text");
                    self.said.entry(agent).or_default().push(job.trim_end().to_string());
                }
                Action::SendIdle(agent) => {
                    self.said.entry(agent).or_default().push("#idle".to_string());
                }
                Action::StopAgent { agent, manner } => {
                    let word = format!("({manner:?})").to_lowercase();
                    self.said.entry(agent).or_default().push(word);
                }
                Action::Log(..) => {}
                other => self.done.push(other),
            }
        }
        if self.is_checked {
            self.core.check_invariants();
        }
    }

    /// Adds a message with one recipient for each destination, at offsets 100, 200 and so on.
    pub fn message(&mut self, number: u64, destinations: &[&str]) {
        self.message_of_age(number, destinations, Duration::ZERO);
    }

    pub fn message_of_age(&mut self, number: u64, destinations: &[&str], age: Duration) {
        let groups = destinations.iter().enumerate().map(|(index, destination)| {
            let (channel, host) = destination.split_once('/').expect("channel/host");
            let offsets = vec![100 * (index as u32 + 1)];
            Group { channel: channel.as_bytes().into(), host: host.as_bytes().into(), offsets }
        });
        let arrival = arrival(number, groups.collect(), self.now - age, self.now);
        self.tell(Event::Arrived(arrival));
    }

    /// Adds messages with these numbers, each with one recipient for the same destination.
    pub fn messages(&mut self, numbers: std::ops::RangeInclusive<u64>, destination: &str) {
        numbers.for_each(|number| self.message(number, &[destination]));
    }

    pub fn says(&mut self, agent: AgentId, line: &str) {
        self.tell(Event::AgentSaid { agent, line: line.as_bytes() });
    }

    pub fn hungry(&mut self, agent: AgentId) {
        self.says(agent, "#hungry");
    }

    /// Lines that were sent to an agent since the last call.
    pub fn heard_by(&mut self, agent: AgentId) -> Vec<String> {
        self.said.get_mut(&agent).map(std::mem::take).unwrap_or_default()
    }

    /// Sends `#hungry` of the agent that was started last. Returns it and the lines sent to it.
    pub fn newborn(&mut self) -> (AgentId, Vec<String>) {
        let agent = *self.started.last().expect("an agent was started");
        self.hungry(agent);
        (agent, self.heard_by(agent))
    }

    /// Ends the jobs of an agent one by one with this answer for offset 100 of each.
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
                self.says(agent, &format!("{number}/100\t\t{answer}"));
                self.hungry(agent);
            }
            bursts.push(std::mem::replace(&mut jobs, self.heard_by(agent)));
        }
        if !jobs.is_empty() {
            bursts.push(jobs);
        }
        bursts
    }

    pub fn dies(&mut self, agent: AgentId, end: AgentEnd) {
        self.tell(Event::AgentEnded { agent, end });
    }

    /// Advances the time, with a tick at each wake-up of the core.
    pub fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(wakeup) = self.core.next_wakeup().filter(|wakeup| *wakeup <= until) {
            self.now = self.now.max(wakeup);
            self.tell(Event::Tick);
        }
        self.now = until;
        self.tell(Event::Tick);
    }

    pub fn pass_seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    /// The vertices of a message as MAILQ shows them: state, tries, text.
    pub fn shows(&self, number: u64) -> Vec<String> {
        let Some((_, vertices)) =
            self.core.message_at_or_after(self.now, number).filter(|(found, _)| *found == number)
        else {
            return Vec::new();
        };
        let text =
            |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        vertices
            .iter()
            .map(|vertex| {
                let reason = match vertex.reason {
                    Reason::Retry(at) => format!("Retry({})", at.seconds_since(self.now).max(0)),
                    other => format!("{other:?}"),
                };
                let (to, tries) = (vertex.destination, vertex.tries);
                format!("{to} {reason} tries={tries} {}", text(vertex.text))
            })
            .collect()
    }

    /// Confirms removals. Returns the numbers of the messages removed since the last call.
    ///
    /// An asterisk marks messages that were moved to `postman/`.
    pub fn removed(&mut self) -> Vec<String> {
        let mut removed = Vec::new();
        for action in std::mem::take(&mut self.done) {
            match action {
                Action::Remove { name, aside } => {
                    removed.push(format!("{name}{}", if aside { "*" } else { "" }));
                    let number = name.number();
                    self.tell(Event::Removed { number, outcome: Ok(()) });
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
    Arrival {
        name: name(number),
        modified,
        created,
        priority: 5,
        report_due: false,
        first_undeliverable: None,
        etrn_hosts: Vec::new(),
        recipients: groups.iter().map(|group| group.offsets.len() as u32).sum(),
        failed: 0,
        groups,
        locked: Vec::new(),
        next_offset: None,
        max_unread: 0,
        is_chunk: false,
    }
}
