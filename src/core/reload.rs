//! A new configuration takes effect while the old one's agents are at work.
//!
//! Each thread moves to the ring that the new configuration gives it. With many threads that takes
//! longer than delivery may stop, so it is done in steps:
//!
//! 1. All rings are retired: none of their threads gets an agent any more.
//! 2. The agents are looked at, of which there are never many. Those whose clause still runs the same
//!    program the same way go on under it: they move to its new ring, and the threads they work on with
//!    them. Of the others those that are idle end, and the rest as soon as they have finished what they
//!    have.
//! 3. The sweep: the threads move, some with each turn. One that something arrives for, or whose timer
//!    goes off, moves at once.
//!
//! A thread with very many due vertices brings them to a ring whose work goes by messages in several of
//! these steps, too ([`super::joining`]); what they were in the old one is forgotten at once.
//!
//! So a thread in a retired ring has not been looked at yet. It has no agent, and until it moves, it
//! waits and expires as its old clause says.

use super::Scheduler;
use super::agent::{Agent, AgentId, State};
use super::joining::Joining;
use super::ring::RingId;
use super::thread::ThreadId;
use super::timers::Timer;
use std::collections::BTreeMap;
use std::rc::Rc;
use zsched_config::{Clause, Config};
use zsched_format::time::Timestamp;

/// So many threads of a ring are asked, besides those that agents work on, whether it still runs the
/// same. If others would have, its agents are merely replaced.
const ASKED: usize = 8;

impl Scheduler {
    pub(super) fn reconfigure(&mut self, now: Timestamp, config: Rc<Config>) {
        self.config = config;
        self.rings.retire_all();
        // What was still to join jobs there will join those of its new ring.
        self.joining = Joining::default();
        self.forget_starved();
        for (ring, agents) in self.agents_of_rings() {
            self.look_for_heir(now, ring, &agents);
        }
        self.settle_threads_at_work(now);
        self.end_retired(now);
        self.sweep_from(now, 0);
    }

    fn agents_of_rings(&self) -> BTreeMap<RingId, Vec<AgentId>> {
        let mut agents: BTreeMap<RingId, Vec<AgentId>> = BTreeMap::new();
        for (id, agent) in &self.agents {
            agents.entry(agent.ring).or_default().push(*id);
        }
        agents
    }

    /// Finds the ring in which the agents of a retired one can go on, if there is any.
    fn look_for_heir(&mut self, now: Timestamp, old: RingId, agents: &[AgentId]) {
        let served = agents.iter().filter_map(|agent| self.agents[agent].thread);
        let threads = served.chain(self.rings[old].threads.iter().copied().take(ASKED));
        let of_ring = |thread: &ThreadId| self.threads[*thread].ring == old;
        let threads: Vec<ThreadId> = threads.filter(of_ring).collect();
        for thread in threads {
            // It keeps the old ring, for as long as the agents are there.
            self.settle(now, thread);
            let new = self.threads[thread].ring;
            let is_free = self.rings[new].agents == 0;
            if is_free && runs_the_same(&self.rings[old].clause, &self.rings[new].clause) {
                return self.hand_down(old, new, agents);
            }
        }
    }

    /// Lets all agents of a ring go on in another, which has none.
    fn hand_down(&mut self, old: RingId, new: RingId, agents: &[AgentId]) {
        self.rings[new].agents = std::mem::take(&mut self.rings[old].agents);
        self.rings[new].idle = std::mem::take(&mut self.rings[old].idle);
        // A new configuration ends a suspension.
        self.end_suspension(old);
        self.rings[new].starts = std::mem::take(&mut self.rings[old].starts);
        for agent in agents {
            self.agents.get_mut(agent).expect("it was there above").ring = new;
            // Its time may be shorter now.
            self.arm_agent(*agent);
        }
        self.drop_ring_if_unused(old);
    }

    fn settle_threads_at_work(&mut self, now: Timestamp) {
        let threads: Vec<ThreadId> =
            self.agents.values().filter_map(|agent| agent.thread).collect();
        threads.into_iter().for_each(|thread| self.settle(now, thread));
    }

    /// Ends the idle agents that the new configuration has no use for.
    fn end_retired(&mut self, now: Timestamp) {
        let is_of_no_use = |agent: &Agent| {
            matches!(agent.state, State::Idle(_)) && self.rings[agent.ring].is_retired
        };
        let agents = self.agents.iter().filter(|(_, agent)| is_of_no_use(agent));
        let agents: Vec<AgentId> = agents.map(|(id, _)| *id).collect();
        agents.into_iter().for_each(|agent| self.retire_agent(now, agent));
    }

    /// Moves the next threads to their new rings.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        // What the last threads have brought comes first.
        if !self.joining.is_empty() {
            self.join_on(now);
        } else if let Some(next) = self.swept {
            self.sweep_from(now, next);
        }
    }

    fn sweep_from(&mut self, now: Timestamp, mut next: usize) {
        let mut left = self.settings.step();
        while left > 0 && next < self.threads.pool().slots() {
            let mut cost = 1;
            if let Some(thread) = self.threads.pool().at(next) {
                cost = self.threads[thread].step_cost();
                self.settle(now, thread);
            }
            left = left.saturating_sub(cost);
            next += 1;
            if !self.joining.is_empty() {
                break;
            }
        }
        self.swept = (next < self.threads.pool().slots()).then_some(next);
        if self.swept.is_some() {
            self.timers.add(now, Timer::Sweep);
        }
    }

    /// Puts a thread under the present configuration and clock, unless it is there already.
    pub(super) fn settle(&mut self, now: Timestamp, thread: ThreadId) {
        self.settle_clock(thread);
        let old = self.threads[thread].ring;
        if !self.rings[old].is_retired {
            return;
        }
        let destination = self.threads[thread].destination.clone();
        let new = self.ring_for(destination.channel(), destination.host());
        self.leave_ring(thread);
        self.join_ring(now, thread, new);
        let clause = &self.rings[new].clause;
        if expires_otherwise(&self.rings[old].clause, clause) {
            self.threads[thread].expiry_check = Some(now);
        }
        if self.rings[old].clause.waits_for_request() != clause.waits_for_request() {
            self.putting_off.cancel(thread);
        }
        let clause = &self.rings[new].clause;
        if clause.waits_for_request() {
            self.threads[thread].retry.unreachable = None;
            self.threads[thread].waiting.set_all(None);
        } else if self.rings[old].clause.waits_for_request() {
            let next = self.next_try_of_host(now, thread);
            self.threads[thread].waiting.set_all(Some(next));
            self.threads[thread].waiting.wake_for_destination(now);
        }
        self.set_thread_timer(thread);
        self.update_readiness(thread);
        self.drop_ring_if_unused(old);
    }
}

fn runs_the_same(old: &Clause, new: &Clause) -> bool {
    (&old.command, old.user, old.group, old.nice) == (&new.command, new.user, new.group, new.nice)
}

/// Whether a recipient may be too old under a new clause that was not under the old one.
fn expires_otherwise(old: &Clause, new: &Clause) -> bool {
    (old.expiry, old.expiry2) != (new.expiry, new.expiry2)
}
