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
use crate::queue::{RingId, ThreadId};
use crate::sweep::SweptChange;
use std::rc::Rc;
use zsched_config::{Clause, Config};

/// Maximum number of threads examined to find the successor of a ring.
///
/// Threads that agents work on are examined in addition. If only other threads would have led to a
/// successor, the agents are merely replaced.
const MAX_THREADS_EXAMINED: usize = 8;

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
        let served = agents.iter().filter_map(|agent| self.dispatch.agents()[*agent].thread);
        let threads =
            served.chain(self.queue.ring(old).threads.iter().copied().take(MAX_THREADS_EXAMINED));
        let of_ring = |thread: &ThreadId| self.queue.thread(*thread).ring == old;
        let threads: Vec<ThreadId> = threads.filter(of_ring).collect();
        for thread in threads {
            // This does not remove the old ring, because it has agents.
            self.reassign_ring(thread);
            let new = self.queue.thread(thread).ring;
            let is_free = self.dispatch.of_ring(new).count == 0;
            if is_free
                && has_same_process(&self.queue.ring(old).clause, &self.queue.ring(new).clause)
            {
                return self.dispatch.move_agents(&mut self.queue, &mut self.cx, old, new, agents);
            }
        }
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
