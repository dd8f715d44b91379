//! Rings: all threads of one channel that matched the same clause.
//!
//! A ring owns its agents, which move between its threads, and the order in which threads get one.

use crate::dispatch::jobs::{Jobs, Rules};
use crate::dispatch::suspended_ring::StartState;
use crate::dispatch::{AgentId, Resource, WaitlistPosition};
use crate::list::List;
use crate::pool::{Id, Pool};
use crate::queue::{ReadyChain, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::rc::Rc;
use zsched_config::Clause;
use zsched_format::time::Timestamp;

/// The number of a ring in memory.
pub type RingId = Id<Ring>;

/// Threads that share agents.
#[derive(Serialize, Deserialize)]
pub struct Ring {
    /// The clause that their destinations matched, with the limit overrides of operators.
    pub clause: Rc<Clause>,
    /// The clause without overrides, as the configuration has it.
    pub configured: Rc<Clause>,
    /// Their channel.
    pub channel: Rc<[u8]>,
    /// Host of its threads, if the clause's command contains `$host`.
    ///
    /// Its agents then serve that host only.
    pub host: Option<Rc<[u8]>>,
    /// Its threads, in arbitrary order.
    pub threads: Vec<ThreadId>,
    /// Threads that are ready for an agent, in order.
    pub ready: List<ReadyChain>,
    /// The order of its jobs, if it chooses by message.
    pub jobs: Option<Box<Jobs>>,
    /// Idle agents, the one that was busy last at the end.
    pub idle: Vec<AgentId>,
    /// Its agents, idle ones included.
    pub agents: usize,
    /// What is known about starting its agents.
    pub starts: StartState,
    /// Recipients in its threads.
    pub recipients: u64,
    /// Why the first of its ready threads gets no agent.
    pub refusal: Option<Refusal>,
    /// The missing command of its clause has been logged.
    pub logged_no_command: bool,
    /// It is in the queue of rings to be served.
    pub is_queued_to_serve: bool,
    /// The waitlist it is on: the resource that its next agent needs.
    pub waitlist: Option<Resource>,
    /// Its place on that waitlist.
    pub waitlist_position: WaitlistPosition,
    /// Time since which it has been on waitlists without getting an agent.
    pub waiting_since: Option<Timestamp>,
    /// Its clause is no longer in force.
    ///
    /// It is removed with its last agent, once the sweep of a reload has moved its last thread.
    pub is_retired: bool,
    /// Version of the limits in its clause ([`crate::operator::overrides::Overrides`]).
    pub limits_seen: u32,
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

impl Ring {
    fn new(clause: Rc<Clause>, channel: Rc<[u8]>, host: Option<Rc<[u8]>>) -> Ring {
        Ring {
            jobs: Rules::of(&clause).map(|rules| Box::new(Jobs::new(rules))),
            configured: clause.clone(),
            clause,
            channel,
            host,
            threads: Vec::new(),
            ready: List::new(),
            idle: Vec::new(),
            agents: 0,
            starts: StartState::default(),
            recipients: 0,
            refusal: None,
            logged_no_command: false,
            is_queued_to_serve: false,
            waitlist: None,
            waitlist_position: WaitlistPosition::default(),
            waiting_since: None,
            is_retired: false,
            limits_seen: 0,
        }
    }
}

/// All rings, with an index by key.
#[derive(Default, Serialize, Deserialize)]
pub struct Rings {
    pool: Pool<Ring>,
    by_key: HashMap<RingKey, RingId>,
    /// Number of rings with jobs.
    with_jobs: usize,
}

/// Key of a ring: clause, channel, and host if the command contains `$host`.
type RingKey = (zsched_config::ClauseId, Rc<[u8]>, Option<Rc<[u8]>>);

impl Rings {
    /// Finds or creates the ring for a destination whose clause is known.
    ///
    /// Returns true with a ring that is new.
    pub fn find_or_insert(
        &mut self,
        clause: &Rc<Clause>,
        channel: &[u8],
        host: &[u8],
    ) -> (RingId, bool) {
        let with_host = clause.command.as_ref().is_some_and(|command| command.serves_one_host());
        let host = with_host.then(|| Rc::from(host));
        let channel: Rc<[u8]> = Rc::from(channel);
        let key = (clause.id, channel.clone(), host.clone());
        let rings = self.pool.len();
        let ring = *self
            .by_key
            .entry(key)
            .or_insert_with(|| self.pool.insert(Ring::new(clause.clone(), channel, host)));
        let is_new = self.pool.len() > rings;
        self.with_jobs += usize::from(is_new && self.pool[ring].jobs.is_some());
        (ring, is_new)
    }

    /// Clears the index and retires all rings.
    ///
    /// New rings are created for the clauses of a new configuration. The old ones stay while they
    /// have threads or agents, but are not served.
    pub fn retire_all(&mut self) {
        self.by_key.clear();
        for ring in self.pool.iter_mut() {
            ring.is_retired = true;
            if let Some(jobs) = &mut ring.jobs {
                jobs.close();
            }
            ring.refusal = Some(Refusal::Reloading);
        }
    }

    pub fn remove(&mut self, id: RingId) {
        let ring = self.pool.remove(id);
        self.with_jobs -= usize::from(ring.jobs.is_some());
        if !ring.is_retired {
            self.by_key.remove(&(ring.clause.id, ring.channel, ring.host));
        }
    }

    /// Returns true if any ring chooses work by message.
    pub fn have_jobs(&self) -> bool {
        self.with_jobs > 0
    }
}

impl std::ops::Deref for Rings {
    type Target = Pool<Ring>;

    fn deref(&self) -> &Pool<Ring> {
        &self.pool
    }
}

impl std::ops::DerefMut for Rings {
    fn deref_mut(&mut self) -> &mut Pool<Ring> {
        &mut self.pool
    }
}
