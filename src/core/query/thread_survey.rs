//! Queries about the queue as a whole (read-only).
//!
//! They return sums, the busiest threads, rings and agents.
//!
//! Sums are kept up to date or quick to count. A query that examines everything does so in steps,
//! while the queue changes: its caller continues it in each turn.

use crate::Scheduler;
use crate::dispatch::agent::AgentState;
use crate::dispatch::agent::{Agent, AgentId};
use crate::dispatch::ring::{Ring, RingId};
use crate::operator::overrides::DestinationPattern;
use crate::query::view::Totals;
use crate::query::why::Wait;
use crate::queue::Queue;
use crate::queue::destination::Destination;
use crate::queue::thread::{Thread, ThreadId};
use crate::queue::vertex::VertexState;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use zsched_config::Clause;
use zsched_format::time::Timestamp;

/// Maximum number of messages of a thread examined for the oldest.
///
/// The others have usually come later.
pub(crate) const MAX_MESSAGES_EXAMINED: usize = 10_000;

/// Sums over the queue.
pub struct Summary {
    /// Sums, and totals since the start.
    pub totals: Totals,
    /// Threads that are held.
    pub held_threads: usize,
    /// Messages that are held individually.
    pub held_messages: usize,
    /// When the message file of the oldest message was modified, to the second.
    pub oldest: Option<Timestamp>,
    /// The scheduler is ending.
    ///
    /// Agents are stopped and no new ones are started.
    pub is_draining: bool,
    /// No agents are started (`-F`).
    pub is_frozen: bool,
}

/// A thread, as shown to programs.
pub struct ThreadRow<'s> {
    /// Channel and host.
    pub destination: &'s Destination,
    /// Patterns of the clause that serves it: channel and host.
    pub ring: (&'s str, &'s str),
    /// Its vertices.
    pub messages: usize,
    /// Their recipients.
    pub recipients: u32,
    /// Reports about its recipients so far.
    pub attempts: u32,
    /// Vertices to be given to an agent.
    pub due: usize,
    /// Vertices that agents have.
    pub with_agents: usize,
    /// Vertices that wait for the wake-up.
    pub waiting: usize,
    /// Vertices of messages that are held.
    pub held_back: usize,
    /// Agents at work on it, the newest first.
    pub agents: Vec<AgentRow<'s>>,
    /// Its wake-up, while it is to come.
    pub wakeup: Option<Timestamp>,
    /// When the message file of its oldest message was modified.
    pub oldest: Option<Timestamp>,
    /// An operator holds it.
    pub is_held: bool,
    /// Maximum number of agents that may work on it.
    pub max_agents: u32,
    /// Maximum number of agents now, by what is known about its host.
    pub window: usize,
    /// Name of its window, if that may be shared with other threads.
    pub window_name: Option<&'s [u8]>,
    /// What it waits for; vertices with agents come first, then due ones.
    pub wait: Option<Wait<'s>>,
}

/// A ring, as shown to programs.
pub struct RingRow<'s> {
    /// Its clause, with the limit overrides of operators.
    pub clause: &'s Clause,
    /// Its channel.
    pub channel: &'s [u8],
    /// Its host, if the clause's command contains `$host`.
    pub host: Option<&'s [u8]>,
    /// Its threads.
    pub threads: usize,
    /// Its agents, idle ones included.
    pub agents: usize,
    /// Its agents without work.
    pub idle: usize,
    /// Maximum number of its agents.
    pub max_ring: usize,
}

/// An agent, as shown to programs.
pub struct AgentRow<'s> {
    /// Its process id; 0 before it has one.
    pub pid: u32,
    /// Channel of its ring.
    pub channel: &'s [u8],
    /// Patterns of the clause of its ring: channel and host.
    pub ring: (&'s str, &'s str),
    /// The thread it works on.
    pub thread: Option<&'s Destination>,
    /// Its state.
    pub state: AgentState,
    /// Jobs that it has not ended.
    pub jobs: usize,
    /// When it was started.
    pub born: Timestamp,
    /// When it last asked for work, or was started.
    pub hungry: Timestamp,
    /// When it was last given a job.
    pub fed: Option<Timestamp>,
}

/// Order of threads in a survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyOrder {
    /// Most recipients.
    Backlog,
    /// Most reports about its recipients.
    Attempts,
    /// The oldest message.
    Oldest,
}

/// A search for the first threads in such an order.
pub struct ThreadSurvey {
    rank: SurveyOrder,
    max: usize,
    destinations: Option<DestinationPattern>,
    /// Number of vertex slots examined for the oldest messages.
    ///
    /// The result is the oldest time of each thread, by slot.
    vertices_seen: usize,
    oldest: Vec<Timestamp>,
    threads_seen: usize,
    /// The best so far, with the last one of them on top.
    best: BinaryHeap<Reverse<(i64, ThreadId)>>,
}

/// Later than the time of any message.
const LATEST_TIME: Timestamp = Timestamp::from_nanoseconds(i64::MAX);

impl ThreadSurvey {
    /// Creates a survey that finds at most `max` threads.
    ///
    /// With a pattern it finds only matching ones.
    pub fn new(
        rank: SurveyOrder,
        max: usize,
        destinations: Option<DestinationPattern>,
    ) -> ThreadSurvey {
        ThreadSurvey {
            rank,
            max,
            destinations,
            vertices_seen: 0,
            oldest: Vec::new(),
            threads_seen: 0,
            best: BinaryHeap::new(),
        }
    }

    /// Examines the next `count` vertices or threads.
    ///
    /// Returns true if that was all.
    pub fn advance(&mut self, scheduler: &Scheduler, count: usize) -> bool {
        if self.rank == SurveyOrder::Oldest && self.vertices_seen < scheduler.queue.vertices.slots()
        {
            self.look_at_vertices(scheduler, count);
            return false;
        }
        let end = (self.threads_seen + count).min(scheduler.queue.threads.pool().slots());
        for place in self.threads_seen..end {
            if let Some(thread) = scheduler.queue.threads.pool().at(place) {
                self.consider(scheduler, thread);
            }
        }
        self.threads_seen = end;
        end == scheduler.queue.threads.pool().slots()
    }

    fn look_at_vertices(&mut self, scheduler: &Scheduler, count: usize) {
        let end = (self.vertices_seen + count).min(scheduler.queue.vertices.slots());
        self.oldest
            .resize(self.oldest.len().max(scheduler.queue.threads.pool().slots()), LATEST_TIME);
        for place in self.vertices_seen..end {
            let Some(vertex) = scheduler.queue.vertices.at(place) else {
                continue;
            };
            let vertex = &scheduler.queue.vertices[vertex];
            if vertex.state != VertexState::Finished {
                let oldest = &mut self.oldest[vertex.thread.index()];
                *oldest = (*oldest).min(scheduler.queue.messages[vertex.message].modified);
            }
        }
        self.vertices_seen = end;
    }

    fn consider(&mut self, scheduler: &Scheduler, id: ThreadId) {
        let thread = &scheduler.queue.threads[id];
        let value = match self.rank {
            SurveyOrder::Backlog => i64::from(thread.recipients),
            SurveyOrder::Attempts => i64::from(thread.attempts),
            SurveyOrder::Oldest => {
                let oldest = self.oldest.get(id.index()).copied().unwrap_or(LATEST_TIME);
                -oldest.nanoseconds()
            }
        };
        let is_full = self.best.len() >= self.max;
        if is_full && self.best.peek().is_none_or(|Reverse((last, _))| *last >= value) {
            return;
        }
        if self.destinations.as_ref().is_some_and(|wanted| !wanted.matches(&thread.destination)) {
            return;
        }
        if is_full {
            self.best.pop();
        }
        self.best.push(Reverse((value, id)));
    }

    /// The threads that were found, in order.
    pub fn found(self) -> Vec<ThreadId> {
        self.best.into_sorted_vec().into_iter().map(|Reverse((_, thread))| thread).collect()
    }
}

impl Scheduler {
    /// Returns sums over the queue.
    pub fn summary(&self) -> Summary {
        Summary {
            totals: self.totals(),
            held_threads: self.queue.threads.held(),
            held_messages: self.overrides.messages.len(),
            oldest: self.queue.messages.oldest().map(Timestamp::from_seconds),
            is_draining: self.mode.is_draining,
            is_frozen: self.settings.frozen,
        }
    }

    /// The first thread in a slot at or after `place`.
    ///
    /// It comes with its slot; `None` is at the end.
    ///
    /// At most `count` slots are examined. If they are all free, the answer has no thread.
    pub fn thread_from(&self, place: usize, count: usize) -> Option<(usize, Option<ThreadId>)> {
        let pool = self.queue.threads.pool();
        let end = place.saturating_add(count).min(pool.slots());
        let mut found = (place..end).filter_map(|place| Some((place, Some(pool.at(place)?))));
        found.next().or((end > place).then(|| (end - 1, None)))
    }

    /// Channel and host of a thread; `None` if it is gone.
    pub fn destination_of(&self, thread: ThreadId) -> Option<&Destination> {
        self.queue.threads.get(thread).map(|thread| &thread.destination)
    }

    /// A thread and the number of its messages that were examined.
    ///
    /// `None` if it is gone.
    pub fn thread_row(&self, id: ThreadId) -> Option<(ThreadRow<'_>, usize)> {
        let thread = self.queue.threads.get(id)?;
        let ring = &self.dispatch.rings[thread.ring];
        let agents =
            thread.agents.iter().rev().map(|agent| self.agent_row(&self.dispatch.agents[*agent]));
        let row = ThreadRow {
            destination: &thread.destination,
            ring: ring.patterns(),
            messages: thread.len(),
            recipients: thread.recipients,
            attempts: thread.attempts,
            due: thread.due.len(),
            with_agents: thread.fed.len(),
            waiting: thread.waiting.len(),
            held_back: thread.held_back.len(),
            agents: agents.collect(),
            wakeup: thread.waiting.next().map(|wakeup| self.queue.to_present_clock(thread, wakeup)),
            oldest: self.queue.oldest_of(thread),
            is_held: thread.held,
            max_agents: self.dispatch.max_thread(thread),
            window: self.dispatch.window_size(thread),
            window_name: thread
                .window
                .and_then(|window| self.dispatch.windows[window].name.as_deref()),
            wait: self.waits_of(id).next(),
        };
        Some((row, thread.len().min(MAX_MESSAGES_EXAMINED)))
    }

    /// A ring; `None` if it is gone.
    pub fn ring_row(&self, ring: RingId) -> Option<RingRow<'_>> {
        let ring = self.dispatch.rings.get(ring)?;
        Some(RingRow {
            clause: &ring.clause,
            channel: &ring.channel,
            host: ring.host.as_deref(),
            threads: ring.threads.len(),
            agents: ring.agents,
            idle: ring.idle.len(),
            max_ring: ring.clause.max_ring.map_or(self.settings.max_agents, |max| max as usize),
        })
    }

    /// Numbers of threads and vertices in a part of a ring.
    ///
    /// The part has up to `count` threads, from `from`.
    ///
    /// `None` after the last thread, and if the ring is gone.
    pub fn vertices_in_ring(
        &self,
        ring: RingId,
        from: usize,
        count: usize,
    ) -> Option<(usize, usize)> {
        let some = self.dispatch.rings.get(ring)?.threads.get(from..)?;
        let some = &some[..count.min(some.len())];
        let vertices = some.iter().map(|thread| self.queue.threads[*thread].len()).sum();
        (!some.is_empty()).then_some((some.len(), vertices))
    }

    /// The agents with an id after `after`, in order.
    pub fn agents_after(
        &self,
        after: Option<AgentId>,
    ) -> impl Iterator<Item = (AgentId, AgentRow<'_>)> {
        let from = AgentId(after.map_or(0, |AgentId(number)| number.saturating_add(1)));
        self.dispatch.agents.starting_at(from).map(|(id, agent)| (id, self.agent_row(agent)))
    }

    /// An agent; `None` if it is gone.
    pub fn agent(&self, id: AgentId) -> Option<AgentRow<'_>> {
        self.dispatch.agents.get(id).map(|agent| self.agent_row(agent))
    }

    fn agent_row(&self, agent: &Agent) -> AgentRow<'_> {
        let ring = &self.dispatch.rings[agent.ring];
        AgentRow {
            pid: agent.pid.unwrap_or_default(),
            channel: &ring.channel,
            ring: ring.patterns(),
            thread: agent.thread.and_then(|thread| self.destination_of(thread)),
            state: agent.state(),
            jobs: agent.jobs().count(),
            born: agent.born,
            hungry: agent.hungry_at,
            fed: agent.fed_at,
        }
    }
}

impl Queue {
    /// When the oldest message of a thread was modified.
    ///
    /// In a large thread only the first vertices of each list are examined.
    pub(crate) fn oldest_of(&self, thread: &Thread) -> Option<Timestamp> {
        let arrived = |vertex| self.messages[self.vertices[vertex].message].modified;
        let lists = [&thread.fed, &thread.due, &thread.held_back];
        let share = MAX_MESSAGES_EXAMINED / (lists.len() + 1);
        let waiting = thread.waiting.iter(&self.vertices).take(share);
        let others = lists.into_iter().flat_map(|list| list.iter(&self.vertices).take(share));
        others.chain(waiting).map(arrived).min()
    }
}

impl Ring {
    /// Patterns of its clause: channel and host.
    pub fn patterns(&self) -> (&str, &str) {
        (&self.clause.channel_pattern, &self.clause.host_pattern)
    }
}
