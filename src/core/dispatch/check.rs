//! Invariants of rings, agents and windows between any two events.

use crate::dispatch::fair_share::AgentCount;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch, Owed, Refusal};
use crate::queue::{MessageId, Queue, VertexState};
use crate::timers::Timers;
use foldhash::HashMap;
use std::collections::{BTreeMap, BTreeSet};

impl Dispatch {
    /// Panics if rings, agents and windows disagree with each other or with the queue.
    ///
    /// `changes_limits` is true while changed limits are applied to the rings.
    pub fn check(&self, queue: &Queue, timers: &Timers, changes_limits: bool) {
        self.check_rings(queue, changes_limits);
        self.check_agents(queue);
        self.check_windows(queue, timers);
    }

    fn check_rings(&self, queue: &Queue, changes_limits: bool) {
        for (id, ring) in queue.rings().iter() {
            let recipients = ring.threads.iter().map(|thread| queue.thread(*thread).recipients);
            let recipients: u64 = recipients.map(u64::from).sum();
            assert_eq!(ring.recipients, recipients, "recipients of a ring");
            queue.check_jobs(id);
            let of_ring = &self.of_rings[id];
            let agents = self.agents.values().filter(|agent| agent.ring == id).count();
            assert_eq!(of_ring.count, agents, "agents of a ring");
            let has_never_asked = |agent: &&Agent| agent.owed.front() == Some(&Owed::Start);
            let all = self.agents.values().filter(|agent| agent.ring == id);
            assert_eq!(
                of_ring.starts.unproven,
                all.filter(has_never_asked).count(),
                "agents that never asked for work"
            );
            for thread in ring.ready.iter(queue.threads().pool()) {
                assert_eq!(queue.thread(thread).ring, id);
                assert!(queue.thread(thread).is_ready);
            }
            for agent in &of_ring.idle {
                assert!(matches!(self.agents[*agent].state(), AgentState::Idle(_)));
                assert_eq!(self.agents[*agent].thread, None);
            }
            let line = of_ring.waitlist.as_ref().map(|line| &self.waitlists.lines[line]);
            let is_in_place = |line| BTreeMap::get(line, &of_ring.waitlist_position) == Some(&id);
            assert!(line.is_none_or(is_in_place), "a ring's place in its line");
            // Waitlists are empty while limits are reapplied.
            let waits_in_line = !changes_limits
                && matches!(
                    of_ring.refusal,
                    Some(
                        Refusal::MaxAgents
                            | Refusal::MaxChannel
                            | Refusal::Claimed
                            | Refusal::ForkRate
                    )
                );
            let (is_in_line, place) = (of_ring.waitlist.is_some(), of_ring.waitlist_position);
            assert!(!is_in_line || place.has_agents == (of_ring.count > 0), "a place in line");
            assert!(
                !waits_in_line || of_ring.waitlist.is_some() || ring.ready.is_empty(),
                "not in line"
            );
            let refused = of_ring.refusal.is_some();
            let served = ring.ready.is_empty() || refused;
            let unused = ring.threads.is_empty() && of_ring.count == 0;
            assert!(!unused, "a ring is unused, but stays");
            assert!(served, "threads of a ring want agents, and the ring has no refusal");
        }
        let all = || queue.rings().iter().map(|(id, _)| &self.of_rings[id]);
        let waiting = all().filter(|ring| ring.waitlist.is_some()).count();
        assert_eq!(self.waitlists.len(), waiting, "rings on waitlists");
        let idle: usize = all().map(|ring| ring.idle.len()).sum();
        assert_eq!(self.agents.idle_count, idle, "idle agents");
    }

    fn check_agents(&self, queue: &Queue) {
        let mut jobs: HashMap<MessageId, u32> = HashMap::default();
        for (id, agent) in self.agents.iter() {
            if let Some(thread) = agent.thread {
                assert!(
                    queue.thread(thread).agents.contains(&id),
                    "an agent's thread does not know it"
                );
            }
            for vertex in agent.jobs() {
                *jobs.entry(queue.vertex(vertex).message).or_default() += 1;
                let place = queue.vertex(vertex).state;
                assert!(
                    matches!(place, VertexState::Fed | VertexState::Finished),
                    "a job is {place:?}"
                );
            }
            let waits = matches!(agent.state(), AgentState::Killed | AgentState::ExitedMidJob)
                || agent.timer.is_some();
            assert!(waits, "an agent is not looked at again");
        }
        for (id, message) in queue.messages().iter() {
            let jobs = jobs.get(&id).copied().unwrap_or_default();
            assert_eq!(message.jobs, jobs, "{}: jobs with agents", message.name());
        }
        let mut all = AgentCount { agents: self.agents.len(), rings: 0 };
        let mut channels: HashMap<_, AgentCount> = HashMap::default();
        for (id, ring) in queue.rings().iter().filter(|(id, _)| self.of_rings[*id].count > 0) {
            all.rings += 1;
            let count = channels.entry(ring.channel.clone()).or_default();
            count.agents += self.of_rings[id].count;
            count.rings += 1;
        }
        assert_eq!(self.agents.counts.channels, channels, "agents of channels");
        assert_eq!(self.agents.counts.all, all, "agents in all");
        let is_ending =
            |agent: &Agent| matches!(agent.state(), AgentState::Stopping(_) | AgentState::Killed);
        let ending = self.agents.iter().filter(|(_, agent)| is_ending(agent));
        let ending: BTreeSet<AgentId> = ending.map(|(id, _)| id).collect();
        assert_eq!(self.agents.counts.ending, ending, "agents that were told to end");
    }
}
