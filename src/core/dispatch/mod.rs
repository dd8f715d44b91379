//! Which agent gets which job.
//!
//! [`ring_agents::RingAgents`] has the agents that deliver for the threads of a clause. A ready thread
//! gets an agent in [`agent_for_thread`]. A hungry agent gets its next job in [`job_for_agent`]:
//! begin with `give_work`.

pub mod agent;
pub mod ring_agents;

pub mod agent_for_thread;
mod job_for_agent;
mod job_for_agent_by_message;
pub(crate) mod ping;

pub mod agent_waitlist;
pub mod fair_share;
pub mod suspended_ring;

pub mod window;

pub mod agent_log;

mod check;

pub use agent::{Agent, AgentId, AgentState, Agents, Owed};
pub use agent_waitlist::{AgentWaitlists, Resource, Waitlist, WaitlistPosition};
pub use ring_agents::{AgentsOfRings, Refusal, RingAgents};

use crate::queue::RingId;
use agent_for_thread::ForkRate;
use agent_waitlist::WaitlistPass;
use job_for_agent::FreeAgent;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use window::Windows;

/// The agents, and what they may be given next.
#[derive(Default, Serialize, Deserialize)]
pub struct Dispatch {
    /// The agents of each ring.
    pub of_rings: AgentsOfRings,
    pub agents: Agents,
    pub windows: Windows,
    /// Agents that asked for work in this event.
    #[serde(skip)]
    pub hungry_agents: VecDeque<AgentId>,
    /// The agent that gets another thread next.
    #[serde(skip)]
    pub free_agent: Option<FreeAgent>,
    /// The ring that is served again next, because it has got one of its idle agents.
    #[serde(skip)]
    pub next_ring: Option<RingId>,
    /// The pass over the waitlists that is under way.
    #[serde(skip)]
    pub waitlist_pass: Option<WaitlistPass>,
    /// Rings that wait for an agent, because a limit is reached that rings share.
    pub waitlists: AgentWaitlists,
    pub fork_rate: ForkRate,
}
