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

use agent_for_thread::ForkRate;
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
    /// Rings that wait for an agent, because a limit is reached that rings share.
    pub waitlists: AgentWaitlists,
    pub fork_rate: ForkRate,
}
