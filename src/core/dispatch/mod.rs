//! Which agent gets which job.
//!
//! [`ring_agents::RingAgents`] has the agents that deliver for the threads of a clause. A ready
//! thread gets an agent in [`agent_for_thread`]. A hungry agent gets its next job in
//! [`job_for_agent`]: begin with `give_work`.

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

mod agent_end;
mod agent_report;
mod reload;

mod check;

pub use agent::{Agent, AgentId, AgentState, Agents, Owed};
pub use agent_waitlist::{AgentWaitlists, Resource, Waitlist, WaitlistPosition};
pub use ring_agents::{AgentsOfRings, Refusal, RingAgents};

use crate::admission::Admission;
use crate::context::Context;
use crate::queue::{Queue, RingId};
use agent_for_thread::ForkRate;
use agent_waitlist::WaitlistPass;
use job_for_agent::FreeAgent;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use window::Windows;
use zsched_format::time::ClockStep;

/// The agents, and what they may be given next.
#[derive(Default, Serialize, Deserialize)]
pub struct Dispatch {
    /// The agents of each ring.
    of_rings: AgentsOfRings,
    agents: Agents,
    windows: Windows,
    /// Agents that asked for work in this event.
    #[serde(skip)]
    hungry_agents: VecDeque<AgentId>,
    /// The agent that gets another thread next.
    #[serde(skip)]
    free_agent: Option<FreeAgent>,
    /// The ring that is served again next, because it has got one of its idle agents.
    #[serde(skip)]
    next_ring: Option<RingId>,
    /// The pass over the waitlists that is under way.
    #[serde(skip)]
    waitlist_pass: Option<WaitlistPass>,
    /// Rings that wait for an agent, because a limit is reached that rings share.
    waitlists: AgentWaitlists,
    fork_rate: ForkRate,
}

impl Dispatch {
    /// All agents.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// All windows.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The agents of a ring.
    pub fn of_ring(&self, ring: RingId) -> &RingAgents {
        &self.of_rings[ring]
    }

    /// Adds a ring without agents.
    pub fn add_ring(&mut self, ring: RingId) {
        self.of_rings.insert(ring);
    }

    /// Has rings on waitlists try again: an agent or a limit was freed.
    pub fn retry_waitlists_soon(&mut self) {
        self.waitlists.has_news = true;
    }

    /// Moves all times, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        self.agents.shift(step);
        self.windows.shift(step);
        self.shift_waitlists(step);
        self.retry_waitlists_soon();
    }

    /// Makes the next decision about agents. Returns false if there is none to be made.
    ///
    /// Threads and windows must be settled. What follows from the decision is settled before the
    /// next one.
    pub fn decide_next(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
    ) -> bool {
        if let Some(agent) = self.free_agent.take() {
            self.give_other_work(queue, admission, cx, agent);
        } else if let Some(ring) = self.next_ring.take() {
            self.assign_agent(queue, admission, cx, ring);
        } else if let Some(pass) = self.waitlist_pass.take() {
            self.continue_waitlist_pass(queue, admission, cx, pass);
        } else if let Some(agent) = self.hungry_agents.pop_front() {
            self.give_work(queue, cx, agent);
        } else if std::mem::take(&mut self.waitlists.has_news)
            || queue.has_changed_rings() && std::mem::take(&mut self.waitlists.may_start_again)
        {
            self.begin_waitlist_pass();
        } else if let Some(ring) = queue.next_changed_ring() {
            self.settle_ring(queue, admission, cx, ring);
        } else {
            return false;
        }
        true
    }

    /// Serves a ring, or removes it if it has neither threads nor agents.
    fn settle_ring(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        ring: RingId,
    ) {
        if !queue.ring(ring).threads.is_empty() || self.of_rings[ring].count > 0 {
            return self.assign_agent(queue, admission, cx, ring);
        }
        self.leave_waitlist(ring);
        self.end_suspension(cx, ring);
        admission.drop_ring(ring);
        queue.remove_ring(ring);
    }
}
