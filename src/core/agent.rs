//! Agents, as the scheduler sees them: what each was told, and what it still has to answer.
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

use super::destination::Destination;
use super::remark::Remarks;
use super::ring::RingId;
use super::thread::ThreadId;
use super::vertex::VertexId;
use super::window::Heard;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use zsched_format::time::Timestamp;

/// Names an agent for as long as the scheduler runs; never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentId(pub u64);

/// One agent: a process, or one about to be.
#[derive(Serialize, Deserialize)]
pub struct Agent {
    /// Its process, once it has one.
    pub pid: Option<u32>,
    /// The ring it belongs to.
    pub ring: RingId,
    /// The thread it works on.
    pub thread: Option<ThreadId>,
    /// When it was started.
    pub born: Timestamp,
    /// When it came to the thread it works on.
    pub turn_began: Timestamp,
    /// Where it delivered last: its connections are to that host.
    pub last_destination: Option<Destination>,
    /// What it is doing.
    pub state: State,
    /// What its next `#hungry`s answer, in order.
    pub owed: VecDeque<Owed>,
    /// It said that the control file of its present job has nothing for it.
    pub resync: bool,
    /// What it has reported of its present job, as far as that concerns the host.
    pub heard: Heard,
    /// It has delivered or failed a recipient since it was started.
    pub has_finished: bool,
    /// Reports about its present job that leave a recipient to be tried again.
    pub deferrals: u32,
    /// The window of its thread has let it start a delivery that it has not started yet.
    pub may_start: bool,
    /// When it last said `#hungry`, or was started.
    pub hungry_at: Timestamp,
    /// When it was last given a job.
    pub fed_at: Option<Timestamp>,
    /// How many jobs it was given then.
    pub burst: u32,
    /// When it last did anything that counts: started, `#hungry`, a report; or got something to do
    /// after having had nothing.
    pub progress_at: Timestamp,
    /// The time its timer is set to.
    pub timer: Option<Timestamp>,
    /// The last line it wrote that was no part of the protocol: a hint, should it die.
    pub last_words: Box<[u8]>,
    /// How much the log has about it.
    pub remarks: Remarks,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Started, but it has not said `#hungry` yet.
    Larva,
    /// It has jobs, or is about to get some.
    Stuffing,
    /// It was told `#idle`.
    Parking,
    /// It waits in the ring's pool, since this time.
    Idle(Timestamp),
    /// It was told to end, at this time.
    Stopping(Timestamp),
    /// It is being killed.
    Killed,
    /// Its process has ended, but what it has started may still end its jobs.
    Lingering,
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
            turn_began: now,
            last_destination: None,
            state: State::Larva,
            owed: VecDeque::from([Owed::Start]),
            resync: false,
            heard: Heard::Nothing,
            has_finished: false,
            deferrals: 0,
            may_start: false,
            hungry_at: now,
            fed_at: None,
            burst: 0,
            progress_at: now,
            timer: None,
            last_words: Box::default(),
            remarks: Remarks::new(now),
        }
    }

    /// Whether it can still be given work.
    pub fn is_alive(&self) -> bool {
        !matches!(self.state, State::Stopping(_) | State::Killed | State::Lingering)
    }

    /// The jobs it has, oldest first.
    pub fn jobs(&self) -> impl Iterator<Item = VertexId> {
        self.owed.iter().filter_map(|owed| match owed {
            Owed::Job(vertex) => Some(*vertex),
            _ => None,
        })
    }
}

/// All agents.
pub type Agents = BTreeMap<AgentId, Agent>;
