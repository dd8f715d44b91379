//! What a new configuration changes for agents.

use crate::context::Context;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch};
use crate::queue::{Queue, RingId};
use std::collections::BTreeMap;

impl Dispatch {
    /// Records that the rings are retired: their threads get no agent.
    pub(crate) fn retire_rings(&mut self) {
        self.of_rings.retire_all();
        self.clear_waitlists();
    }

    /// Moves all agents of a ring to another one that has none.
    pub(crate) fn move_agents(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        old: RingId,
        new: RingId,
        agents: &[AgentId],
    ) {
        self.of_rings[new].count = std::mem::take(&mut self.of_rings[old].count);
        self.of_rings[new].idle = std::mem::take(&mut self.of_rings[old].idle);
        // A new configuration ends a suspension.
        self.end_suspension(cx, old);
        self.of_rings[new].starts = std::mem::take(&mut self.of_rings[old].starts);
        for agent in agents {
            self.agents[*agent].ring = new;
            // The timeout of the new clause may be shorter.
            self.agents.mark(*agent);
        }
        queue.mark_ring(old);
    }

    /// Ends the idle agents of retired rings.
    pub(crate) fn end_retired(&mut self, queue: &Queue, cx: &mut Context) {
        let is_of_no_use = |agent: &Agent| {
            matches!(agent.state(), AgentState::Idle(_)) && queue.ring(agent.ring).is_retired
        };
        let agents = self.agents.iter().filter(|(_, agent)| is_of_no_use(agent));
        let agents: Vec<AgentId> = agents.map(|(id, _)| id).collect();
        agents.into_iter().for_each(|agent| self.retire_agent(cx, agent));
    }

    pub(crate) fn agents_of_rings(&self) -> BTreeMap<RingId, Vec<AgentId>> {
        let mut agents: BTreeMap<RingId, Vec<AgentId>> = BTreeMap::new();
        for (id, agent) in self.agents.iter() {
            agents.entry(agent.ring).or_default().push(id);
        }
        agents
    }
}
