//! The agents of a ring, and why it gets no more.

use crate::dispatch::suspended_ring::StartState;
use crate::dispatch::{AgentId, Resource, WaitlistPosition};
use crate::queue::RingId;
use serde::{Deserialize, Serialize};
use zsched_format::time::Timestamp;

/// What is known about the agents of a ring.
#[derive(Default, Serialize, Deserialize)]
pub struct RingAgents {
    /// Number of its agents, idle ones included.
    pub count: usize,
    /// Idle agents, the one that was busy last at the end.
    pub idle: Vec<AgentId>,
    /// What is known about starting its agents.
    pub starts: StartState,
    /// Why the first of its ready threads gets no agent.
    pub refusal: Option<Refusal>,
    /// The missing command of its clause has been logged.
    pub logged_no_command: bool,
    /// The waitlist it is on: the resource that its next agent needs.
    pub waitlist: Option<Resource>,
    /// Its place on that waitlist.
    pub waitlist_position: WaitlistPosition,
    /// Time since which it has been on waitlists without getting an agent.
    pub waiting_since: Option<Timestamp>,
}

/// The agents of all rings.
#[derive(Default, Serialize, Deserialize)]
pub struct AgentsOfRings(Vec<RingAgents>);

impl AgentsOfRings {
    /// Adds a ring without agents.
    pub fn insert(&mut self, ring: RingId) {
        if ring.index() >= self.0.len() {
            self.0.resize_with(ring.index() + 1, RingAgents::default);
        }
        self[ring] = RingAgents::default();
    }

    /// Records that the configuration of all rings is no longer in force.
    pub fn retire_all(&mut self) {
        self.iter_mut().for_each(|ring| ring.refusal = Some(Refusal::Reloading));
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut RingAgents> {
        self.0.iter_mut()
    }
}

impl std::ops::Index<RingId> for AgentsOfRings {
    type Output = RingAgents;

    fn index(&self, ring: RingId) -> &RingAgents {
        &self.0[ring.index()]
    }
}

impl std::ops::IndexMut<RingId> for AgentsOfRings {
    fn index_mut(&mut self, ring: RingId) -> &mut RingAgents {
        &mut self.0[ring.index()]
    }
}

/// Why an agent may not be started now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// `maxta`: all agents together.
    MaxAgents,
    /// `maxchannel`: agents of this channel.
    MaxChannel,
    /// `maxring`: agents of this ring.
    MaxRing,
    /// A ring without agents waits for one, and has a lower limit.
    Claimed,
    /// `-R`: too many were started in this second.
    ForkRate,
    /// `-F`.
    Frozen,
    /// `-S`: mail found at the start is not loaded yet.
    Loading,
    /// The scheduler is about to end.
    Ending,
    /// `-p`: another destination was selected.
    NotSelected,
    /// Its agents cannot be started.
    ///
    /// The next attempt is planned or under way.
    Suspended,
    /// None of its agents has asked for work yet.
    ///
    /// Enough of them are being started.
    Unproven,
    /// The clause has no command.
    NoCommand,
    /// `mail-priority=z`.
    PriorityHeld,
    /// The thread has not moved from its retired ring yet.
    Reloading,
}

impl Refusal {
    /// The keyword in the formats that programs read.
    pub fn word(self) -> &'static str {
        match self {
            Refusal::MaxAgents => "maxta",
            Refusal::MaxChannel => "maxchannel",
            Refusal::MaxRing => "maxring",
            Refusal::Claimed => "claimed",
            Refusal::ForkRate => "fork-rate",
            Refusal::Frozen => "frozen",
            Refusal::Loading => "loading",
            Refusal::Ending => "ending",
            Refusal::NotSelected => "not-selected",
            Refusal::Suspended => "suspended",
            Refusal::Unproven => "unproven",
            Refusal::NoCommand => "no-command",
            Refusal::PriorityHeld => "kept",
            Refusal::Reloading => "reloading",
        }
    }
}
