//! The core with agents that report at once. Benchmarks without processes and files share this.

// Not every benchmark uses all of it.
#![allow(dead_code)]

use cpu_time::ThreadTime;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_config::{Config, ConfigContext, Zenv};
use zsched_core::{Action, AgentId, Event, Scheduler, Settings};
use zsched_format::time::Timestamp;
use zsched_spool::{Arrival, Group, HashFolder, SpoolName};

pub const START: Timestamp = Timestamp::from_seconds(1_795_255_200);
/// Report of a delivery: notary data, and the rest of the line.
pub const DELIVERED: &str = "n\x01relayed\x012.0.0\x01x\tok3 250 OK";
/// Report when the host cannot be reached.
pub const NOT_REACHED: &str = "\tdeferall 421 too many connections";
/// Offset of the first recipient line.
const OFFSET: u32 = 100;

/// A pending event.
pub enum PendingEvent {
    Line(AgentId, Vec<u8>),
    Removed(u64),
}

/// A core, perhaps with something around it.
pub trait EventSink {
    fn handle(&mut self, now: Timestamp, event: Event<'_>);
    fn poll(&mut self) -> Option<Action>;
    fn end_turn(&mut self, _now: Timestamp) {}
}

impl EventSink for Scheduler {
    fn handle(&mut self, now: Timestamp, event: Event<'_>) {
        Scheduler::handle(self, now, event);
    }

    fn poll(&mut self) -> Option<Action> {
        Scheduler::poll(self)
    }
}

pub struct World<C = Scheduler> {
    pub core: C,
    pub now: Timestamp,
    pub pending: Vec<PendingEvent>,
    /// The agents' report about each delivery.
    pub answer: &'static str,
}

/// Parses a configuration.
pub fn config(text: &str) -> Rc<Config> {
    let context = ConfigContext::unprivileged(Zenv::default());
    let config = Config::parse(Path::new("scheduler.cf"), text.as_bytes(), &context);
    Rc::new(config.expect("a good configuration").config)
}

impl World {
    pub fn new(configuration: &str) -> World {
        let settings = Settings { seed: 1, fork_rate: 1000, ..Settings::default() };
        World::of(Scheduler::new(settings, config(configuration)))
    }

    /// Advances the time to the core's next wake-up.
    pub fn wait(&mut self) {
        if let Some(wakeup) = self.core.next_wakeup() {
            self.now = self.now.max(wakeup);
        }
    }
}

impl<C: EventSink> World<C> {
    /// Creates a world around a core.
    pub fn of(core: C) -> World<C> {
        World { core, now: START, pending: Vec::new(), answer: DELIVERED }
    }

    /// Makes messages arrive. Returns the core's processor time.
    pub fn arrive(&mut self, batch: Vec<Arrival>) -> Duration {
        let started = ThreadTime::now();
        for arrival in batch {
            self.core.handle(self.now, Event::Arrived(Box::new(arrival)));
        }
        let actions = self.actions();
        let took = started.elapsed();
        self.perform(actions);
        took
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.core.poll()).collect()
    }

    fn perform(&mut self, actions: Vec<Action>) {
        let hungry = |agent| PendingEvent::Line(agent, b"#hungry".to_vec());
        for action in actions {
            match action {
                Action::StartAgent { agent, .. } => {
                    let pid = 1000 + agent.0 as u32;
                    self.core.handle(self.now, Event::AgentStarted { agent, pid });
                    self.pending.push(hungry(agent));
                }
                Action::Feed { agent, job } => {
                    let end = job.iter().position(|byte| *byte == b'\t').expect("a host");
                    let number = std::str::from_utf8(&job[..end]).expect("a number");
                    let host = std::str::from_utf8(&job[end + 1..]).expect("a host").trim_end();
                    let offset = offset(place_of(host));
                    let answer = format!("{number}/{offset}\t{}", self.answer);
                    self.pending.push(PendingEvent::Line(agent, answer.into_bytes()));
                    self.pending.push(hungry(agent));
                }
                Action::SendIdle(agent) => self.pending.push(hungry(agent)),
                Action::Remove { name, .. } => {
                    self.pending.push(PendingEvent::Removed(name.number()))
                }
                _ => {}
            }
        }
    }

    /// Sends all pending events a millisecond later. Returns the core's processor time.
    pub fn send_events(&mut self) -> Duration {
        self.now += Duration::from_millis(1);
        let told = std::mem::take(&mut self.pending);
        let started = ThreadTime::now();
        for told in &told {
            self.send_one(told);
        }
        self.core.handle(self.now, Event::Tick);
        let actions = self.actions();
        self.core.end_turn(self.now);
        let took = started.elapsed();
        self.perform(actions);
        took
    }

    /// Sends all pending events one by one. Returns the longest time; to measure that costs time.
    pub fn send_events_one_by_one(&mut self) -> Duration {
        self.now += Duration::from_millis(1);
        let mut longest = Duration::ZERO;
        let mut all = Vec::new();
        for told in std::mem::take(&mut self.pending).iter().map(Some).chain([None]) {
            let started = ThreadTime::now();
            match told {
                Some(told) => self.send_one(told),
                None => self.core.handle(self.now, Event::Tick),
            }
            all.extend(self.actions());
            longest = longest.max(started.elapsed());
        }
        self.perform(all);
        longest
    }

    fn send_one(&mut self, told: &PendingEvent) {
        match told {
            PendingEvent::Line(agent, line) => {
                self.core.handle(self.now, Event::AgentSaid { agent: *agent, line });
            }
            PendingEvent::Removed(number) => {
                let event = Event::Removed { number: *number, outcome: Ok(()) };
                self.core.handle(self.now, event);
            }
        }
    }
}

/// Returns a message for hosts with these numbers.
pub fn arrival(number: u64, at: Timestamp, mut places: Vec<u64>) -> Arrival {
    places.sort_unstable();
    let groups = places.iter().map(|place| {
        let host = format!("host{place}.example");
        Group::new(b"smtp", host.as_bytes(), &[offset(*place)])
    });
    let name = SpoolName::plain(HashFolder::TOP, 10_000_000 + number);
    Arrival::of_groups(name, at, at, groups)
}

fn place_of(host: &str) -> u64 {
    let place = host.strip_prefix("host").and_then(|host| host.split_once('.'));
    place.and_then(|(number, _)| number.parse().ok()).expect("a host of ours")
}

/// Returns the offset of a host's recipient, so that a job determines its recipient.
fn offset(place: u64) -> u32 {
    OFFSET + place as u32
}
