//! A new configuration takes effect while the old one's agents are at work.
//!
//! Each thread moves to the ring that the new configuration gives it. A ring whose clause still runs
//! the same program the same way lives on with new limits; of all others the agents finish what they
//! have, under the old command, and end.

use super::Scheduler;
use super::agent::{AgentId, State};
use super::ring::{Ring, RingId};
use super::thread::ThreadId;
use crate::config::{Clause, Config};
use crate::time::Timestamp;
use std::collections::HashMap;
use std::rc::Rc;

/// What must be the same in two clauses for one's agents to serve the other.
type Adoption = (String, String, Rc<[u8]>, Option<Rc<[u8]>>);

impl Scheduler {
    pub(super) fn reconfigure(&mut self, now: Timestamp, config: Rc<Config>) {
        self.config = config;
        self.rings.retire_all();
        let mut retired: HashMap<Adoption, RingId> =
            self.rings.iter().map(|(id, ring)| (adoption(&ring.clause, ring), id)).collect();
        let threads: Vec<ThreadId> = self.threads.iter().map(|(id, _)| id).collect();
        for thread in threads {
            self.reassign(now, thread, &mut retired);
        }
        self.end_retired(now);
        self.serve_starved();
        self.serve_all_rings();
    }

    fn reassign(
        &mut self,
        now: Timestamp,
        thread: ThreadId,
        retired: &mut HashMap<Adoption, RingId>,
    ) {
        let destination = self.threads[thread].destination.clone();
        let clause = self.config.select_or_default(destination.channel(), destination.host());
        let old = self.threads[thread].ring;
        self.adopt(&clause, old, retired);
        let new = self.ring_for(destination.channel(), destination.host());
        if new != old {
            self.leave_ring(thread);
            self.join_ring(thread, new);
        }
        // Limits and times may have changed.
        self.threads[thread].expiry_check = Some(now);
        self.set_thread_timer(thread);
        if clause.queue_only {
            self.threads[thread].retry.wakeup = None;
            self.set_thread_timer(thread);
        }
        self.ensure_wakeup(now, thread);
        self.unready(thread);
        self.update_readiness(thread);
    }

    /// Lets the ring of an old clause live on under a new one, if it may.
    fn adopt(&mut self, clause: &Rc<Clause>, old: RingId, retired: &mut HashMap<Adoption, RingId>) {
        let key = adoption(clause, &self.rings[old]);
        let Some(ring) = retired.get(&key).copied() else {
            return;
        };
        if runs_the_same(&self.rings[ring].clause, clause) && self.rings.adopt(ring, clause) {
            retired.remove(&key);
        }
    }

    /// Ends what the new configuration has no use for.
    fn end_retired(&mut self, now: Timestamp) {
        let idle: Vec<AgentId> = self
            .agents
            .iter()
            .filter(|(_, agent)| matches!(agent.state, State::Idle(_)))
            .filter(|(_, agent)| self.rings[agent.ring].is_retired)
            .map(|(id, _)| *id)
            .collect();
        idle.into_iter().for_each(|agent| self.retire_agent(now, agent));
        let rings: Vec<RingId> = self.rings.iter().map(|(id, _)| id).collect();
        rings.into_iter().for_each(|ring| self.drop_ring_if_unused(ring));
    }
}

fn adoption(clause: &Clause, ring: &Ring) -> Adoption {
    let (channel, host) = (clause.channel_pattern.clone(), clause.host_pattern.clone());
    (channel, host, ring.channel.clone(), ring.host.clone())
}

fn runs_the_same(old: &Clause, new: &Clause) -> bool {
    let process =
        |clause: &Clause| (clause.command.clone(), clause.user, clause.group, clause.nice);
    process(old) == process(new)
}
