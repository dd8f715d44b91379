//! Asks idle agents from time to time whether they live (`idle-ping`).
//!
//! The question is a second `#idle`, which every agent answers with `#hungry`. An agent that is
//! asked is out of the pool of its ring until it answers: no job is given to one that may hang. An
//! agent that does not answer is killed, and the next mail starts another one.

use crate::context::Context;
use crate::dispatch::{Agent, AgentId, Dispatch};
use crate::queue::Queue;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Maximum time that an idle agent may take to answer `#idle`.
pub(crate) const MAX_PING_TIME: Duration = Duration::from_secs(30);

impl Dispatch {
    /// Processes the deadline of an agent that has been idle since a time.
    pub(crate) fn idle_agent_timer(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        agent: AgentId,
        since: Timestamp,
    ) {
        if self.idle_end(queue, &self.agents[agent], since) <= cx.now {
            return self.retire_agent(cx, agent);
        }
        let (state, ring) = (self.agents[agent].state(), self.agents[agent].ring);
        self.leave_pool(agent, state, ring);
        let agent_ref = &mut self.agents[agent];
        (agent_ref.pinged, agent_ref.progress_at) = (Some(since), cx.now);
        self.send_idle(cx, agent);
    }

    /// When an idle agent is retired: at the end of `idlemax` or of `agent-life`.
    pub(crate) fn idle_end(&self, queue: &Queue, agent: &Agent, since: Timestamp) -> Timestamp {
        let clause = &queue.ring(agent.ring).clause;
        let end_of_life = clause.agent_life.map(|life| agent.started_at + life);
        let enough = since + clause.idle_max;
        end_of_life.map_or(enough, |end| end.min(enough))
    }
}
