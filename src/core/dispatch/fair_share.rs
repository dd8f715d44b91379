//! Sharing of agents between rings under `maxta` and `maxchannel`.
//!
//! It applies when the limits leave too few agents for all.
//!
//! Idle agents end first ([`Dispatch::retire_idle_for`]). If all are busy, an agent that has
//! worked for [`RING_TIME_SHARE`] ends instead of taking more work, if a ring without agents waits
//! for its place, or a ring with fewer agents than its own. An agent is never interrupted in its
//! work. So a ring waits at most for that time and the longest job for each ring before it, divided
//! by the number of agents (`docs/scheduling.md`). If the limit of the waiting ring is lower than
//! that of others, they start no further agents until it has one. The time share also bounds the
//! number of processes that are started: one for each agent in each of them.

use crate::context::Context;
use crate::dispatch::agent_waitlist::queue_time_of;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch, Resource, RingAgents, Waitlist};
use crate::queue::{Queue, Ring, RingId};
use crate::timers::Timer;
use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Time that an agent works before it ends for a ring that waits.
///
/// A burst of jobs should take as long: an agent ends only when it has finished all jobs it has.
pub const RING_TIME_SHARE: Duration = Duration::from_secs(5);

/// Time after which a stopping agent counts as slow to end.
const SLOW_STOP_TIME: Duration = Duration::from_secs(10);

/// Agents that count for one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCount {
    /// Number of agents, idle ones included.
    pub agents: usize,
    /// Number of rings that have any of the agents.
    pub rings: usize,
}

/// Numbers of agents, as limits count them.
#[derive(Default, Serialize, Deserialize)]
pub struct AgentCounts {
    pub all: AgentCount,
    /// Agents of each channel that has any.
    pub channels: HashMap<Rc<[u8]>, AgentCount>,
    /// Agents that were told to end.
    pub ending: BTreeSet<AgentId>,
}

impl AgentCounts {
    /// Agents of a channel, under all clauses.
    pub fn of_channel(&self, channel: &[u8]) -> AgentCount {
        self.channels.get(channel).copied().unwrap_or_default()
    }

    /// Counts an agent that a ring starts.
    pub fn add(&mut self, ring: &Ring, of_ring: &mut RingAgents) {
        let is_first = of_ring.count == 0;
        of_ring.count += 1;
        for count in [&mut self.all, self.channels.entry(ring.channel.clone()).or_default()] {
            count.agents += 1;
            count.rings += usize::from(is_first);
        }
    }

    /// Counts an agent of a ring that has ended.
    pub fn remove(&mut self, agent: AgentId, ring: &Ring, of_ring: &mut RingAgents) {
        of_ring.count -= 1;
        let was_last = of_ring.count == 0;
        for count in [&mut self.all, self.channels.entry(ring.channel.clone()).or_default()] {
            count.agents -= 1;
            count.rings -= usize::from(was_last);
        }
        if self.of_channel(&ring.channel).agents == 0 {
            self.channels.remove(&ring.channel);
        }
        self.ending.remove(&agent);
    }
}

impl Resource {
    /// Returns true if an agent of a ring counts for the limit.
    fn counts(&self, ring: &Ring) -> bool {
        match self {
            Resource::ForkRate => false,
            Resource::Agents(_) => true,
            Resource::Channel(channel, _) => *channel == ring.channel,
        }
    }
}

impl Dispatch {
    /// The limit of a waitlist, and the agents that count for it.
    fn limit_of_line(&self, cx: &Context, line: &Resource) -> (usize, AgentCount) {
        let limit = |limit: Option<u32>| limit.map_or(usize::MAX, |limit| limit as usize);
        match line {
            Resource::ForkRate => (usize::MAX, AgentCount::default()),
            Resource::Agents(most) => {
                (limit(*most).min(cx.settings.max_agents), self.agents.counts.all)
            }
            Resource::Channel(channel, most) => {
                (limit(*most), self.agents.counts.of_channel(channel))
            }
        }
    }

    /// Returns true if an agent ends for a waiting ring.
    ///
    /// It has asked for work.
    pub(crate) fn yields_place(&self, queue: &Queue, cx: &Context, agent: AgentId) -> bool {
        if self.waitlists.lines.is_empty() {
            return false;
        }
        let agent = &self.agents[agent];
        let has_had_share =
            agent.fed_at.is_some() && cx.now.since(agent.started_at) >= RING_TIME_SHARE;
        let mut lines = self.waitlists.lines.iter();
        has_had_share
            && lines.any(|(line, rings)| self.is_wanted(queue, cx, agent.ring, line, rings))
    }

    /// Returns true if a waitlist needs a place from this ring.
    fn is_wanted(
        &self,
        queue: &Queue,
        cx: &Context,
        ring: RingId,
        line: &Resource,
        waiting: &Waitlist,
    ) -> bool {
        let ring_ref = queue.ring(ring);
        let Some((place, first)) = waiting.first_key_value().filter(|_| line.counts(ring_ref))
        else {
            return false;
        };
        if queue.next_ready(*first).is_none() {
            return false;
        }
        let (limit, count) = self.limit_of_line(cx, line);
        let staying = count.agents.saturating_sub(self.ending_soon(queue, cx.now, line));
        if place.has_agents {
            // The numbers of agents are balanced, unless that takes one from a more urgent ring.
            let level = |ring: RingId| queue.ring(ring).clause.mail_priority.level();
            let has_less = self.of_rings[*first].count + 1 < self.of_rings[ring].count
                && level(*first) <= level(ring);
            return has_less && staying == limit;
        }
        if self.of_rings[ring].count == 1 {
            // While some ring has two agents, no ring loses its only one. The same holds if it
            // would come first again.
            let some_have_two = count.agents > count.rings;
            if some_have_two || queue_time_of(ring_ref, cx.now) < place.queue_time {
                return false;
            }
        }
        let without = waiting.keys().take_while(|place| !place.has_agents);
        match limit.checked_sub(staying) {
            // The number of places that become free soon.
            Some(coming) => without.take(limit).nth(coming).is_some(),
            // Other rings may have more agents than this limit: it waits a while before taking a
            // place from them.
            None => self.has_waited(cx.now, *first),
        }
    }

    /// Waitlist of a ring that keeps `ring` from starting an agent.
    ///
    /// It would otherwise wait indefinitely.
    ///
    /// That ring has no agents, has waited for [`RING_TIME_SHARE`] for the number of agents to
    /// drop, and comes before `ring`, whose limit may be higher.
    pub(crate) fn claiming_waitlist(
        &self,
        queue: &Queue,
        cx: &Context,
        ring: RingId,
    ) -> Option<Resource> {
        let ring_ref = queue.ring(ring);
        let own = self.place_of(queue, cx.now, ring);
        let comes_first = |(line, waiting): &(&Resource, &Waitlist)| {
            let first = waiting.first_key_value().filter(|_| line.counts(ring_ref));
            first.is_some_and(|(place, first)| {
                let (limit, count) = self.limit_of_line(cx, line);
                let waits = !place.has_agents && queue.next_ready(*first).is_some();
                let waits = waits && self.has_waited(cx.now, *first);
                waits && *first != ring && *place < own && count.agents >= limit
            })
        };
        self.waitlists.lines.iter().find(comes_first).map(|(line, _)| line.clone())
    }

    /// Ends the agent that is idle longest under a limit.
    ///
    /// Another ring gets its place. No more agents end than rings are on waitlists.
    pub(crate) fn retire_idle_for(&mut self, queue: &Queue, cx: &mut Context, line: &Resource) {
        if self.agents.idle_count == 0 {
            return;
        }
        // An agent that is slow to end must not keep the waiting rings from the place of another
        // one, so this is repeated. The time is a whole second, so that all requests of a second
        // use one timer.
        let again = Timestamp::from_seconds((cx.now + SLOW_STOP_TIME).seconds() + 1);
        cx.timers.add(again, Timer::ForkRate);
        if self.ending_soon(queue, cx.now, line) >= self.waitlists.len() {
            return;
        }
        let idle_since = |agent: &Agent| match agent.state() {
            AgentState::Idle(since) if line.counts(queue.ring(agent.ring)) => Some(since),
            _ => None,
        };
        let longest_idle =
            self.agents.iter().filter_map(|(id, agent)| Some((idle_since(agent)?, id))).min();
        if let Some((_, agent)) = longest_idle {
            self.retire_agent(cx, agent);
        }
    }

    /// Number of agents under a limit that should end soon.
    fn ending_soon(&self, queue: &Queue, now: Timestamp, line: &Resource) -> usize {
        let ends_soon = |agent: &Agent| match agent.state() {
            AgentState::Stopping(since) => now.since(since) < SLOW_STOP_TIME,
            _ => false,
        };
        let agents = self.agents.counts.ending.iter().map(|agent| &self.agents[*agent]);
        agents.filter(|agent| ends_soon(agent) && line.counts(queue.ring(agent.ring))).count()
    }

    /// Returns true if a ring has waited for an agent for [`RING_TIME_SHARE`].
    fn has_waited(&self, now: Timestamp, ring: RingId) -> bool {
        self.of_rings[ring].waiting_since.is_some_and(|since| now.since(since) >= RING_TIME_SHARE)
    }
}

/// Number of jobs in an agent's next burst.
///
/// The agent has ended `jobs` in the time `taken`.
///
/// It is what the agent should end in [`RING_TIME_SHARE`], at least one and at most `most`.
pub fn next_burst(jobs: u32, taken: Duration, most: usize) -> usize {
    if most <= 1 {
        return 1;
    }
    let in_share = u128::from(jobs) * RING_TIME_SHARE.as_millis() / taken.as_millis().max(1);
    usize::try_from(in_share).unwrap_or(most).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_burst_fits_into_time_share() {
        for (jobs, millis, expected) in
            [(1, 0, 151), (1, 200, 25), (25, 5_000, 25), (10, 100_000, 1), (1, 1, 151), (0, 9, 1)]
        {
            let taken = Duration::from_millis(millis);
            assert_eq!(next_burst(jobs, taken, 151), expected, "{jobs} in {millis} ms");
        }
    }
}
