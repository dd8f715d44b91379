//! A new configuration takes effect while the old one's agents are at work.
//!
//! Each thread moves to the ring that the new configuration gives it. A ring whose clause still runs
//! the same program the same way lives on with new limits; of all others the agents finish what they
//! have, under the old command, and end.

use super::Scheduler;
use super::agent::{AgentId, State};
use super::ring::RingId;
use super::thread::ThreadId;
use crate::config::{Clause, Config};
use crate::time::Timestamp;
use std::rc::Rc;

impl Scheduler {
    pub(super) fn reconfigure(&mut self, now: Timestamp, config: Rc<Config>) {
        self.config = config;
        self.rings.retire_all();
        self.forget_starved();
        let threads: Vec<ThreadId> = self.threads.iter().map(|(id, _)| id).collect();
        for thread in threads {
            self.reassign(now, thread);
        }
        self.end_retired(now);
        self.serve_all_rings();
    }

    fn reassign(&mut self, now: Timestamp, thread: ThreadId) {
        let destination = self.threads[thread].destination.clone();
        let (channel, host) = (destination.channel(), destination.host());
        let clause = self.config.select_or_default(channel, host);
        let old = self.threads[thread].ring;
        // The ring of an old clause lives on under a new one that runs the same.
        let may_live_on =
            self.rings[old].is_retired && runs_the_same(&self.rings[old].clause, &clause);
        let lives_on = may_live_on && self.rings.adopt(old, &clause);
        let is_there = !self.rings[old].is_retired && self.rings[old].clause.id == clause.id;
        if !lives_on && !is_there {
            let new = self.rings.find_or_insert(&clause, channel, host);
            self.leave_ring(thread);
            self.join_ring(thread, new);
        }
        // Limits and times may have changed.
        self.threads[thread].expiry_check = Some(now);
        if clause.queue_only {
            self.threads[thread].retry.wakeup = None;
            self.threads[thread].retry.block = None;
        }
        self.set_thread_timer(thread);
        self.ensure_wakeup(now, thread);
        self.unready(thread);
        self.update_readiness(thread);
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

fn runs_the_same(old: &Clause, new: &Clause) -> bool {
    let process =
        |clause: &Clause| (clause.command.clone(), clause.user, clause.group, clause.nice);
    process(old) == process(new)
}
