//! Which agent gets which job.
//!
//! [`ring::Ring`] has the threads of a clause and the agents that deliver for them. A ready thread
//! gets an agent in [`agent_for_thread`]. A hungry agent gets its next job in [`job_for_agent`]:
//! begin with `give_work`.

pub mod agent;
pub mod ring;

pub mod agent_for_thread;
mod job_for_agent;
mod job_for_agent_by_message;
pub(crate) mod ping;

pub mod agent_waitlist;
pub mod fair_share;
pub mod suspended_ring;

pub mod jobs;
pub mod window;

pub mod agent_log;

mod check;

pub use agent::{Agent, AgentId, AgentState, Agents, Owed};
pub use agent_waitlist::{AgentWaitlists, Resource, Waitlist, WaitlistPosition};
pub use ring::{Refusal, Ring, RingId, Rings};

use crate::reload::backfill::Backfill;
use agent_for_thread::ForkRate;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use window::Windows;

/// The agents, and what they may be given next.
#[derive(Default, Serialize, Deserialize)]
pub struct Dispatch {
    pub rings: Rings,
    pub agents: Agents,
    pub windows: Windows,
    /// Rings in which a thread may be able to get an agent now.
    pub rings_to_serve: VecDeque<RingId>,
    /// Agents that asked for work in this event.
    #[serde(skip)]
    pub hungry_agents: VecDeque<AgentId>,
    /// Rings that wait for an agent, because a limit is reached that rings share.
    pub waitlists: AgentWaitlists,
    pub fork_rate: ForkRate,
    /// Threads whose due vertices are still to be enqueued in jobs.
    pub backfill: Backfill,
}
