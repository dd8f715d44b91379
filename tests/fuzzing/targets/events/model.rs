//! What is in the spool and what agents have been told, as the world outside the core knows it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zsched_core::AgentId;
use zsched_format::time::Timestamp;
use zsched_spool::{Arrival, Group, SpoolName};

/// A message in the spool that the core was told of.
pub struct Spooled {
    /// What it was told.
    pub arrival: Arrival,
    /// Recipients that have no end yet, by their offset.
    pub open: BTreeSet<u32>,
}

impl Spooled {
    pub fn new(arrival: Arrival) -> Spooled {
        let open = arrival.groups.iter().flat_map(|group| &group.offsets).copied().collect();
        Spooled { arrival, open }
    }

    /// What is found when it is read again, where those for whom `is_marked` holds are finished.
    pub fn again(&self, is_marked: impl Fn(u32) -> bool) -> Arrival {
        let mut arrival = self.arrival.clone();
        let is_open = |offset: &u32| self.open.contains(offset) && !is_marked(*offset);
        for group in &mut arrival.groups {
            group.offsets.retain(is_open);
        }
        arrival.groups.retain(|group| !group.offsets.is_empty());
        arrival
    }

    /// The recipients of one destination, finished ones included.
    pub fn group(&self, channel: &[u8], host: &[u8]) -> Option<&Group> {
        self.arrival.groups.iter().find(|group| *group.channel == *channel && *group.host == *host)
    }
}

/// Something that an agent answers with `#hungry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It was started.
    Start,
    /// It was given a job: number of the message, and its host.
    Job(u64, Box<[u8]>),
    /// It was told `#idle`.
    Idle,
}

/// An agent.
pub struct Puppet {
    /// The channel it was started for.
    pub channel: Box<[u8]>,
    /// The host it was started for, if its command names that.
    pub host: Option<Box<[u8]>>,
    /// Whether the core was told that it runs.
    pub is_running: bool,
    /// Whether it was told to end.
    pub is_ending: bool,
    /// Whether it has answered `#idle`, and got nothing to do since.
    pub is_parked: bool,
    /// What it has to answer, oldest first.
    pub told: VecDeque<Told>,
}

/// Everything.
#[derive(Default)]
pub struct Model {
    /// How many orders were given.
    pub given: u64,
    /// Orders that are not obeyed yet.
    pub orders: BTreeSet<u64>,
    /// Who waits for the orders in force to be stored.
    pub to_keep: Vec<Option<u64>>,
    /// Messages, by number.
    pub messages: BTreeMap<u64, Spooled>,
    /// Agents that have not ended.
    pub agents: BTreeMap<AgentId, Puppet>,
    /// Tickets of notes that were not answered.
    pub notes: Vec<u64>,
    /// The ticket of the latest note.
    pub last_ticket: u64,
    /// Numbers of messages whose removal was not answered.
    pub removals: Vec<u64>,
    /// Recipients whose end the status log was told of, and the statistics log was not yet.
    pub ends_told: usize,
    /// Messages that were to be read again, and not answered.
    pub rereads: Vec<SpoolName>,
    /// The present second, and how many agents were started in it.
    pub starts: (i64, u32),
}

impl Model {
    /// Forgets a message. What agents have of it no longer counts: a new one may get its number.
    pub fn forget(&mut self, number: u64) {
        self.messages.remove(&number);
        for agent in self.agents.values_mut() {
            for told in &mut agent.told {
                if matches!(told, Told::Job(other, _) if *other == number) {
                    *told = Told::Job(0, Box::default());
                }
            }
        }
    }

    /// Counts an agent that was started. Returns how many were in this second.
    pub fn count_start(&mut self, now: Timestamp) -> u32 {
        if self.starts.0 != now.seconds() {
            self.starts = (now.seconds(), 0);
        }
        self.starts.1 += 1;
        self.starts.1
    }

    /// Whether an agent other than this one has a job for the same recipients, some of whom are open.
    pub fn is_with_another(&self, agent: AgentId, job: &Told) -> bool {
        let Told::Job(number, host) = job else {
            return false;
        };
        let channel = &self.agents[&agent].channel;
        let others =
            self.agents.iter().filter(|(id, other)| **id != agent && other.channel == *channel);
        let is_theirs = others.into_iter().any(|(_, other)| other.told.contains(job));
        let group = self.messages.get(number).and_then(|message| message.group(channel, host));
        let is_open = |offset: &u32| self.messages[number].open.contains(offset);
        is_theirs && group.is_some_and(|group| group.offsets.iter().any(is_open))
    }
}
