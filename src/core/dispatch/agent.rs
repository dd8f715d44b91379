//! Agents, as the scheduler sees them: state, jobs, and owed answers.
//!
//! ```text
//!            started                first job           nothing left        #idle answered
//!   (none) ──────────► Larva ──────────────► Stuffing ─────────────► Parking ─────────► Idle
//!                        │                    ▲     │                                    │
//!                        │ nothing to do      │     └─ another thread of the ring ─┐     │
//!                        └────► Parking       └────────────────────────────────────┴─────┘
//!                                                                 a thread of the ring has work
//!   any state ──► Stopping (told to end) ──► gone;   any state ──► gone (died, was killed)
//! ```

use crate::dispatch::agent_log::AgentLogLimiter;
use crate::dispatch::ring::RingId;
use crate::dispatch::window::DeliverySignal;
use crate::queue::destination::Destination;
use crate::queue::thread::ThreadId;
use crate::queue::vertex::VertexId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use zsched_format::time::Timestamp;

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
    pub born: Timestamp,
    /// When it began to work on its thread.
    pub thread_since: Timestamp,
    /// Destination of its last delivery: its connections lead to that host.
    pub last_destination: Option<Destination>,
    /// What it is doing.
    pub state: AgentState,
    /// What its next `#hungry` lines answer, in order.
    pub owed: VecDeque<Owed>,
    /// It has found nothing to do in its present job (`#resync`).
    pub resync: bool,
    /// What its reports on the present job say about the host.
    pub signal: DeliverySignal,
    /// It has delivered or failed a recipient since its start.
    pub has_finished: bool,
    /// Number of reports on its present job that defer a recipient.
    pub deferrals: u32,
    /// Its window has allowed a delivery that it has not started yet.
    pub may_start: bool,
    /// When it last said `#hungry`, or was started.
    pub hungry_at: Timestamp,
    /// When it last got a job.
    pub fed_at: Option<Timestamp>,
    /// Number of jobs that it got then.
    pub burst: u32,
    /// When it last made progress.
    ///
    /// Its start, a `#hungry` and a report are progress. So is new work after a time without any.
    pub progress_at: Timestamp,
    /// The time its timer is set to.
    pub timer: Option<Timestamp>,
    /// Its last line outside the protocol: a hint in case it dies.
    pub last_line: Box<[u8]>,
    /// Limits the log lines about it.
    pub log_limiter: AgentLogLimiter,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentState {
    /// Started, but it has not said `#hungry` yet.
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
    pub fn new(ring: RingId, thread: ThreadId, now: Timestamp) -> Agent {
        Agent {
            pid: None,
            ring,
            thread: Some(thread),
            born: now,
            thread_since: now,
            last_destination: None,
            state: AgentState::Starting,
            owed: VecDeque::from([Owed::Start]),
            resync: false,
            signal: DeliverySignal::Nothing,
            has_finished: false,
            deferrals: 0,
            may_start: false,
            hungry_at: now,
            fed_at: None,
            burst: 0,
            progress_at: now,
            timer: None,
            last_line: Box::default(),
            log_limiter: AgentLogLimiter::new(now),
        }
    }

    /// Returns true if it can still get work.
    pub fn is_alive(&self) -> bool {
        !matches!(
            self.state,
            AgentState::Stopping(_) | AgentState::Killed | AgentState::ExitedMidJob
        )
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
pub type Agents = BTreeMap<AgentId, Agent>;
