//! Agents, as the scheduler sees them: state, jobs, and owed answers.
//!
//! ```text
//!            started              first job           nothing left         answers #idle
//!   (none) ──────────► Starting ────────────► Working ─────────────► Parking ─────────► Idle
//!                         │                   ▲     │                   ▲                │
//!                         │ nothing to do     └─────┘ another thread    │                │
//!                         └─────────────────────────────────────────────┘                │
//!                         ▲                                a thread of the ring has work │
//!                         └──────────────────────────────────────────────────────────────┘
//!   Idle ──► Parking ──► Idle, with `idle-ping`: it is asked whether it lives (`ping.rs`)
//!   any state ──► Stopping (told to end), Killed, ExitedMidJob (its children still work) ──► gone
//! ```

use crate::dispatch::agent_log::{self, StrayLines};
use crate::dispatch::fair_share::AgentCounts;
use crate::dispatch::window::DeliverySignal;
use crate::queue::{Destination, RingId, ThreadId, VertexId};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::VecDeque;
use zsched_format::log_limiter::LogLimiter;
use zsched_format::time::{ClockStep, Timestamp};

/// Identifies an agent while the scheduler runs. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentId(pub u64);

/// One agent: a process, or one that is being started.
#[derive(Serialize, Deserialize)]
pub struct Agent {
    /// Its process, once it has one.
    pub pid: Option<u32>,
    /// The ring it belongs to.
    pub ring: RingId,
    /// The thread it works on, if any.
    pub thread: Option<ThreadId>,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it began to work on its thread.
    pub thread_since: Timestamp,
    /// Destination of its last delivery: its connections lead to that host.
    pub last_destination: Option<Destination>,
    /// What it is doing; see [`Agents::set_state`].
    state: AgentState,
    /// What its next `#hungry` lines answer, in order.
    pub owed: VecDeque<Owed>,
    /// It has found nothing to do in its present job (`#resync`).
    pub found_nothing: bool,
    /// What its reports on the present job say about the host.
    pub signal: DeliverySignal,
    /// It has delivered or failed a recipient since its start.
    pub has_finished: bool,
    /// Number of reports on its present job that defer a recipient in memory.
    pub deferrals: u32,
    /// Its window has allowed a delivery that it has not started yet.
    pub has_delivery_permit: bool,
    /// When it last said `#hungry`, or was started.
    pub hungry_at: Timestamp,
    /// When it last got a job.
    pub fed_at: Option<Timestamp>,
    /// Number of jobs that it got then.
    pub burst: u32,
    /// Number of jobs that it has got since its start.
    pub jobs_fed: u32,
    /// The time since which it has been idle, while it is asked whether it lives (`idle-ping`).
    pub pinged: Option<Timestamp>,
    /// When it last made progress.
    ///
    /// Its start, a `#hungry` and a report are progress. So is new work after a time without any.
    pub progress_at: Timestamp,
    /// The time its timer is set to.
    pub timer: Option<Timestamp>,
    /// Its lines outside the protocol since it last asked for work: a hint in case it dies.
    pub stray_lines: StrayLines,
    /// Limits the log lines about it.
    pub log_limiter: LogLimiter<Timestamp>,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentState {
    /// Started or taken from the pool, but without a job yet.
    Starting,
    /// It has jobs, or is about to get some.
    Working,
    /// It was sent `#idle`.
    Parking,
    /// It is in the pool of its ring, since this time.
    Idle(Timestamp),
    /// It was told to end, at this time.
    Stopping(Timestamp),
    /// It is being killed.
    Killed,
    /// Its process has ended, but its children may still finish its jobs.
    ExitedMidJob,
}

/// Something that an agent answers with one `#hungry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Owed {
    /// Its start.
    Start,
    /// A job.
    Job(VertexId),
    /// `#idle`.
    Idle,
}

impl Agent {
    pub(crate) fn new(ring: RingId, thread: ThreadId, now: Timestamp) -> Agent {
        Agent {
            pid: None,
            ring,
            thread: Some(thread),
            started_at: now,
            thread_since: now,
            last_destination: None,
            state: AgentState::Starting,
            owed: VecDeque::from([Owed::Start]),
            found_nothing: false,
            signal: DeliverySignal::Nothing,
            has_finished: false,
            deferrals: 0,
            has_delivery_permit: false,
            hungry_at: now,
            fed_at: None,
            burst: 0,
            jobs_fed: 0,
            pinged: None,
            progress_at: now,
            timer: None,
            stray_lines: StrayLines::default(),
            log_limiter: agent_log::limiter(),
        }
    }

    /// What it is doing.
    pub fn state(&self) -> AgentState {
        self.state
    }

    /// Returns true if it can still get work.
    pub fn is_alive(&self) -> bool {
        !matches!(
            self.state,
            AgentState::Stopping(_) | AgentState::Killed | AgentState::ExitedMidJob
        )
    }

    /// Moves all times, because the clock was set.
    fn shift(&mut self, step: ClockStep) {
        for time in [
            &mut self.started_at,
            &mut self.thread_since,
            &mut self.hungry_at,
            &mut self.progress_at,
        ] {
            *time = *time + step;
        }
        self.fed_at = self.fed_at.map(|time| time + step);
        self.timer = self.timer.map(|time| time + step);
        self.pinged = self.pinged.map(|time| time + step);
        self.log_limiter.shift(step);
        if let AgentState::Idle(since) | AgentState::Stopping(since) = &mut self.state {
            *since = *since + step;
        }
    }

    /// Returns its jobs, oldest first.
    pub fn jobs(&self) -> impl Iterator<Item = VertexId> {
        self.owed.iter().filter_map(|owed| match owed {
            Owed::Job(vertex) => Some(*vertex),
            _ => None,
        })
    }
}

/// All agents.
#[derive(Default, Serialize, Deserialize)]
pub struct Agents {
    /// In ascending order of their ids.
    by_id: Vec<(AgentId, Box<Agent>)>,
    /// Index at which an agent was found last. Mostly the next call is for the same agent.
    #[serde(skip)]
    found_at: Cell<usize>,
    last: u64,
    /// Agents in the pools of all rings.
    pub idle_count: usize,
    /// Numbers of agents, as limits count them.
    pub counts: AgentCounts,
    /// Agents that may need an earlier timer, because their state has changed ([`crate::settle`]).
    // Empty between two events.
    #[serde(skip)]
    changed: VecDeque<AgentId>,
}

impl Agents {
    pub fn insert(&mut self, agent: Agent) -> AgentId {
        self.last += 1;
        let id = AgentId(self.last);
        self.by_id.push((id, Box::new(agent)));
        self.changed.push_back(id);
        id
    }

    pub fn remove(&mut self, id: AgentId) -> Option<Agent> {
        self.position(id).map(|index| *self.by_id.remove(index).1)
    }

    pub fn get(&self, id: AgentId) -> Option<&Agent> {
        self.position(id).map(|index| &*self.by_id[index].1)
    }

    pub fn get_mut(&mut self, id: AgentId) -> Option<&mut Agent> {
        self.position(id).map(|index| &mut *self.by_id[index].1)
    }

    /// The index of an agent.
    fn position(&self, id: AgentId) -> Option<usize> {
        let index = self.found_at.get();
        if self.by_id.get(index).is_some_and(|(found, _)| *found == id) {
            return Some(index);
        }
        let index = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.found_at.set(index);
        Some(index)
    }

    /// Sets the state of an agent.
    ///
    /// The agent is marked as changed if it had another state.
    pub fn set_state(&mut self, id: AgentId, state: AgentState) {
        if std::mem::replace(&mut self[id].state, state) != state {
            self.mark(id);
        }
    }

    /// Records that an agent gets `jobs` jobs.
    pub fn start_burst(&mut self, id: AgentId, now: Timestamp, jobs: usize) {
        let agent = &mut self[id];
        (agent.fed_at, agent.burst) = (Some(now), jobs as u32);
        agent.jobs_fed = agent.jobs_fed.saturating_add(jobs as u32);
        self.set_state(id, AgentState::Working);
    }

    /// Marks an agent as changed.
    pub fn mark(&mut self, id: AgentId) {
        self.changed.push_back(id);
    }

    /// The next agent that is marked as changed.
    pub fn next_changed(&mut self) -> Option<AgentId> {
        // Those that have ended meanwhile are passed over.
        while let Some(id) = self.changed.pop_front() {
            if self.get(id).is_some() {
                return Some(id);
            }
        }
        None
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All agents, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (AgentId, &Agent)> {
        self.by_id.iter().map(|(id, agent)| (*id, &**agent))
    }

    /// The agents from this id on, oldest first.
    pub fn starting_at(&self, id: AgentId) -> impl Iterator<Item = (AgentId, &Agent)> {
        let from = self.by_id.partition_point(|(other, _)| *other < id);
        self.by_id[from..].iter().map(|(id, agent)| (*id, &**agent))
    }

    pub fn values(&self) -> impl Iterator<Item = &Agent> {
        self.by_id.iter().map(|(_, agent)| &**agent)
    }

    /// Moves all times, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        self.by_id.iter_mut().for_each(|(_, agent)| agent.shift(step));
    }
}

const AGENT_EXISTS: &str = "an agent is named only while it exists";

impl std::ops::Index<AgentId> for Agents {
    type Output = Agent;

    fn index(&self, id: AgentId) -> &Agent {
        self.get(id).expect(AGENT_EXISTS)
    }
}

impl std::ops::IndexMut<AgentId> for Agents {
    fn index_mut(&mut self, id: AgentId) -> &mut Agent {
        self.get_mut(id).expect(AGENT_EXISTS)
    }
}
