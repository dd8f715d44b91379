//! Reload: the change to a new configuration.
//!
//! Agents of the old one may be at work.
//!
//! Each thread moves to the ring that the new configuration gives it. With many threads that takes
//! longer than delivery may stop, so it is done in steps:
//!
//! 1. All rings are retired: their threads get no agent.
//! 2. The agents are examined, of which there are never many. If their clause still runs the same
//!    program in the same way, they continue under it: they move to its new ring, and the threads
//!    they work on move with them. Of the others, idle agents end at once, and the rest when they
//!    have finished what they have.
//! 3. The other threads move, some with each turn ([`crate::sweep`]). A thread that something
//!    arrives for, or whose timer expires, moves at once.
//!
//! The many due vertices of a large thread are enqueued in a ring with jobs in several steps
//! ([`crate::queue::backfill`]). They are removed from the jobs of the old ring at once.
//!
//! So a thread in a retired ring is one that has not moved yet. It has no agent, and until it
//! moves, its retry and expiry follow its old clause.

use crate::Scheduler;
use crate::dispatch::AgentId;
use crate::queue::{Destination, RingId, ThreadId};
use crate::sweep::SweptChange;
use std::rc::Rc;
use zsched_config::{Clause, Config};

/// Maximum number of waiting threads, and of idle agents, examined for a successor ring.
///
/// Threads that agents work on are examined in addition. If only others would have led to a
/// successor, the agents are merely replaced.
const MAX_EXAMINED: usize = 8;

impl Scheduler {
    pub(super) fn apply_config(&mut self, config: Rc<Config>) {
        self.cx.config = config;
        self.queue.retire_rings();
        self.dispatch.retire_rings();
        for (ring, agents) in self.dispatch.agents_of_rings() {
            self.find_successor_ring(ring, &agents);
        }
        self.settle_threads_at_work();
        self.dispatch.end_retired(&self.queue, &mut self.cx);
        self.start_sweep(SweptChange::Configuration);
        self.bulk.reconsider(&self.cx);
    }

    /// Finds a new ring for the agents of a retired one.
    fn find_successor_ring(&mut self, old: RingId, agents: &[AgentId]) {
        for destination in self.destinations_of(old, agents) {
            let (channel, host) = (destination.channel(), destination.host());
            let clause = self.cx.config.select_or_default(channel, host);
            if !has_same_process(&self.queue.ring(old).clause, &clause) {
                continue;
            }
            let new = self.ring_for(channel, host);
            if self.dispatch.of_ring(new).count == 0 {
                return self.dispatch.move_agents(&mut self.queue, &mut self.cx, old, new, agents);
            }
        }
    }

    /// Some destinations of a ring: all that agents work on, some waiting, and some former ones.
    fn destinations_of(&self, ring: RingId, agents: &[AgentId]) -> Vec<Destination> {
        let thread = |id: ThreadId| self.queue.thread(id);
        let agents = || agents.iter().map(|agent| &self.dispatch.agents()[*agent]);
        let served =
            agents().filter_map(|agent| agent.thread).filter(|id| thread(*id).ring == ring);
        let waiting = self.queue.ring(ring).threads.iter().copied().take(MAX_EXAMINED);
        let present = served.chain(waiting).map(|id| &thread(id).destination);
        let last = agents().filter_map(|agent| agent.last_destination.as_ref()).take(MAX_EXAMINED);
        present.chain(last).cloned().collect()
    }

    fn settle_threads_at_work(&mut self) {
        let threads: Vec<ThreadId> =
            self.dispatch.agents().values().filter_map(|agent| agent.thread).collect();
        threads.into_iter().for_each(|thread| self.reassign_ring(thread));
    }
}

fn has_same_process(old: &Clause, new: &Clause) -> bool {
    (&old.command, old.user, old.group, old.nice) == (&new.command, new.user, new.group, new.nice)
}
