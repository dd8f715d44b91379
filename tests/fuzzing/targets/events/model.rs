//! A model of the spool and of agents, independent of the core.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zsched_core::AgentId;
use zsched_format::time::Timestamp;
use zsched_spool::{Arrival, Group, SpoolName};

/// A message in the spool of which the core has been notified.
pub struct ModelMessage {
    /// The message in that notification.
    pub arrival: Arrival,
    /// Unfinished recipients, by their offset.
    pub open: BTreeSet<u32>,
}

impl ModelMessage {
    pub fn new(arrival: Arrival) -> ModelMessage {
        let open = arrival.groups.iter().flat_map(|group| &group.offsets).copied().collect();
        ModelMessage { arrival, open }
    }

    /// Returns the message when it is read again; recipients with `is_marked` are finished.
    pub fn again(&self, is_marked: impl Fn(u32) -> bool) -> Arrival {
        let mut arrival = self.arrival.clone();
        let is_open = |offset: &u32| self.open.contains(offset) && !is_marked(*offset);
        for group in &mut arrival.groups {
            group.offsets.retain(|offset| is_open(offset));
        }
        arrival.groups.retain(|group| !group.offsets.is_empty());
        arrival
    }

    /// Returns the recipients of one destination, including finished ones.
    pub fn group(&self, channel: &[u8], host: &[u8]) -> Option<&Group> {
        self.arrival.groups.iter().find(|group| *group.channel == *channel && *group.host == *host)
    }
}

/// Input that an agent answers with `#hungry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentInput {
    /// Its start.
    Start,
    /// A job: number of the message, and its host.
    Job(u64, Box<[u8]>),
    /// The line `#idle`.
    Idle,
}

/// An agent.
pub struct ModelAgent {
    /// The channel it was started for.
    pub channel: Box<[u8]>,
    /// The host it was started for, if its command names the host.
    pub host: Option<Box<[u8]>>,
    /// The core was notified that it runs.
    pub is_running: bool,
    /// It was told to exit.
    pub is_ending: bool,
    /// It has answered `#idle`, and has had no job since.
    pub is_idle: bool,
    /// Input without an answer, oldest first.
    pub pending_input: VecDeque<AgentInput>,
}

/// State of the spool, of agents, and of unanswered actions.
#[derive(Default)]
pub struct Model {
    /// Number of orders so far.
    pub given: u64,
    /// Orders without an answer.
    pub orders: BTreeSet<u64>,
    /// Tickets of requests to store the overrides.
    pub unstored_overrides: Vec<Option<u64>>,
    /// Messages, by number.
    pub messages: BTreeMap<u64, ModelMessage>,
    /// Agents that have not exited.
    pub agents: BTreeMap<AgentId, ModelAgent>,
    /// Tickets of unanswered notes.
    pub notes: Vec<u64>,
    /// Tickets of unanswered reports.
    pub reports: Vec<u64>,
    /// The ticket of the latest note.
    pub last_ticket: u64,
    /// Numbers of messages with an unanswered removal.
    pub removals: Vec<u64>,
    /// Finished recipients that are in the status log and not yet in the statistics log.
    pub ends_in_status_log_only: usize,
    /// Messages with an unanswered request to be read again.
    pub rereads: Vec<SpoolName>,
    /// The present second, and the number of agents started in it.
    pub starts: (i64, u32),
}

impl Model {
    /// Removes a message and its jobs, since a new message may get its number.
    pub fn forget(&mut self, number: u64) {
        self.messages.remove(&number);
        for agent in self.agents.values_mut() {
            for told in &mut agent.pending_input {
                if matches!(told, AgentInput::Job(other, _) if *other == number) {
                    *told = AgentInput::Job(0, Box::default());
                }
            }
        }
    }

    /// Counts a start of an agent. Returns the number of starts in this second.
    pub fn count_start(&mut self, now: Timestamp) -> u32 {
        if self.starts.0 != now.seconds() {
            self.starts = (now.seconds(), 0);
        }
        self.starts.1 += 1;
        self.starts.1
    }

    /// Returns true if another agent has a job for the same recipients, and some are unfinished.
    pub fn is_with_another(&self, agent: AgentId, job: &AgentInput) -> bool {
        let AgentInput::Job(number, host) = job else {
            return false;
        };
        let channel = &self.agents[&agent].channel;
        let others =
            self.agents.iter().filter(|(id, other)| **id != agent && other.channel == *channel);
        let is_theirs = others.into_iter().any(|(_, other)| other.pending_input.contains(job));
        let group = self.messages.get(number).and_then(|message| message.group(channel, host));
        let is_open = |offset: &u32| self.messages[number].open.contains(offset);
        is_theirs && group.is_some_and(|group| group.offsets.iter().any(is_open))
    }
}
