//! The queue as other crates read it: the core's own values, by reference.
//!
//! A reference lasts for one step of a view. From step to step a view keeps ids, whose values may
//! be gone by then: each look-up returns `None` in that case.

use crate::operator::order::Target;
use crate::query::why::Reason;
use crate::queue::{Destination, oldest};
use crate::{AgentId, AgentState, Counters, Scheduler, Settings};
use zsched_config::Parameters;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

pub use crate::dispatch::agent::Agent;
pub use crate::dispatch::ring_agents::RingAgents;
pub use crate::queue::message::{Message, MessageFlag};
pub use crate::queue::ring::{Ring, RingId};
pub use crate::queue::thread::{Thread, ThreadId};
pub use crate::queue::vertex::{Vertex, VertexId, VertexState};

/// A vertex, with what it belongs to.
#[derive(Clone, Copy)]
pub struct QueuedVertex<'s> {
    /// Its id.
    pub id: VertexId,
    /// The recipients of the message in the thread.
    pub vertex: &'s Vertex,
    /// Their message.
    pub message: &'s Message,
    /// Their thread.
    pub thread: &'s Thread,
    /// The ring of the thread.
    pub ring: &'s Ring,
    /// The time from which the age of the message counts.
    pub aged_from: Timestamp,
}

impl<'s> QueuedVertex<'s> {
    /// Where it is: `due`, `with-agent`, `waiting` or `held`.
    pub fn place(&self) -> &'static str {
        match self.vertex.state {
            VertexState::Fed | VertexState::Finished => "with-agent",
            VertexState::Held if self.message.is(MessageFlag::Held) => "held",
            VertexState::Due | VertexState::Waiting if self.thread.held => "held",
            VertexState::Due => "due",
            VertexState::Waiting | VertexState::Held => "waiting",
        }
    }

    /// Returns true if an operator holds it, with its message or its destination.
    pub fn is_on_hold(&self) -> bool {
        self.place() == "held"
    }

    /// Time of expiry by its clause or its sender, whether or not it is held.
    pub fn expiry(&self) -> Option<Timestamp> {
        let of_clause = self.ring.clause.expiry.map(|expiry| self.aged_from + expiry);
        of_clause.into_iter().chain(self.message.fails_at()).min()
    }

    /// The last text about it.
    pub fn text(&self) -> Option<&'s [u8]> {
        self.vertex.diagnosis.as_ref().map(|diagnosis| &diagnosis.message[..])
    }

    /// Its recipients, as the target of an order.
    pub fn target(&self) -> Target {
        let (number, destination) = (self.message.number(), &self.thread.destination);
        Target { number, destination: Some(destination.clone()), is_whole: false }
    }
}

/// An agent, with what it belongs to.
pub struct AgentRow<'s> {
    /// The agent.
    pub agent: &'s Agent,
    /// Its ring.
    pub ring: &'s Ring,
    /// The destination it works on.
    pub destination: Option<&'s Destination>,
}

/// Present totals.
pub struct Totals {
    /// Agents, idle ones included.
    pub agents: usize,
    /// Idle agents.
    pub idle: usize,
    /// Messages in memory.
    pub messages: usize,
    /// Threads.
    pub threads: usize,
    /// Vertices.
    pub vertices: usize,
    /// Pending recipients.
    pub recipients: u64,
    /// Threads that are held.
    pub held_threads: usize,
    /// When the message file of the oldest message was modified, to the second.
    pub oldest: Option<Timestamp>,
    /// Totals since the start of the process.
    pub counters: Counters,
}

/// All state of a scheduler, to be read.
#[derive(Clone, Copy)]
pub struct View<'s> {
    /// The core, of which a view changes nothing.
    pub(crate) core: &'s Scheduler,
}

impl Scheduler {
    /// What is queued, which agents there are, and why mail waits.
    pub fn view(&self) -> View<'_> {
        View { core: self }
    }
}

impl<'s> View<'s> {
    /// The message of a number, unless it has left.
    pub fn message(self, number: u64) -> Option<&'s Message> {
        self.core.queue.messages().find(number).map(|id| self.core.queue.message(id))
    }

    /// The first message with this number or a higher one.
    pub fn message_at_or_after(self, number: u64) -> Option<&'s Message> {
        self.core.queue.messages().at_or_after(number).map(|id| self.core.queue.message(id))
    }

    /// Number of the message with this spool id or file name.
    ///
    /// The file name has no folders.
    pub fn message_named(self, id: &str) -> Option<u64> {
        let digits = || id[..id.bytes().take_while(u8::is_ascii_digit).count()].parse().ok();
        let number = SpoolId::number_in(id).or_else(digits)?;
        let message = self.message(number)?;
        let path = message.name().to_string();
        let name = path.rsplit('/').next().unwrap_or_default();
        (name == id || message.spool_id().to_string() == id).then_some(number)
    }

    /// The vertices of a message.
    pub fn vertices_of(self, message: &Message) -> impl Iterator<Item = QueuedVertex<'s>> {
        message.vertices.iter(self.core.queue.vertices()).filter_map(move |id| self.vertex(id))
    }

    /// A vertex that is not finished.
    pub fn vertex(self, id: VertexId) -> Option<QueuedVertex<'s>> {
        let vertex = self.core.queue.vertices().get(id)?;
        let (message, thread) =
            (self.core.queue.message(vertex.message), self.core.queue.thread(vertex.thread));
        let aged_from = self.core.queue.messages().aged_from(vertex.message);
        let ring = self.ring_of(thread);
        let queued = QueuedVertex { id, vertex, message, thread, ring, aged_from };
        (vertex.state != VertexState::Finished).then_some(queued)
    }

    /// A vertex of the message of a number.
    pub fn vertex_in_message(self, number: u64, id: VertexId) -> Option<QueuedVertex<'s>> {
        self.vertex(id).filter(|queued| queued.message.number() == number)
    }

    /// A vertex of a thread.
    pub fn vertex_in_thread(self, thread: ThreadId, id: VertexId) -> Option<QueuedVertex<'s>> {
        self.vertex(id).filter(|queued| queued.vertex.thread == thread)
    }

    /// Time at which a waiting vertex becomes due.
    ///
    /// For any other, it is the time last planned for a try, if there is one.
    pub fn wakeup_of_vertex(self, queued: &QueuedVertex<'_>) -> Option<Timestamp> {
        let QueuedVertex { vertex, thread, .. } = queued;
        let wave = thread.waiting.wakeup(vertex.wave);
        let wave = wave.filter(|_| vertex.state == VertexState::Waiting);
        let wave = wave.map(|time| self.core.queue.to_present_clock(thread, time));
        let planned = Some(vertex.planned).filter(|planned| *planned > 0);
        wave.or(planned.map(|planned| Timestamp::from_seconds(planned.into())))
    }

    /// The thread of a channel and a host, both in lower case.
    pub fn thread_id(self, channel: &[u8], host: &[u8]) -> Option<ThreadId> {
        self.core.queue.threads().find(channel, host)
    }

    /// A thread.
    pub fn thread(self, id: ThreadId) -> Option<&'s Thread> {
        self.core.queue.threads().get(id)
    }

    /// All threads, in the order of their ids.
    pub fn threads(self) -> impl Iterator<Item = (ThreadId, &'s Thread)> {
        self.core.queue.threads().iter()
    }

    /// The vertices of a thread; none if the thread is gone.
    pub fn vertices_of_thread(self, thread: ThreadId) -> Vec<VertexId> {
        let thread = self.core.queue.threads().get(thread);
        thread.map_or(Vec::new(), |thread| thread.vertices(self.core.queue.vertices()).collect())
    }

    /// When the first waiting vertex of a thread is due.
    pub fn wakeup_of(self, thread: &Thread) -> Option<Timestamp> {
        thread.waiting.next().map(|wakeup| self.core.queue.to_present_clock(thread, wakeup))
    }

    /// Why a thread has no agent although a vertex is due.
    pub fn pending_reason(self, thread: &Thread) -> Option<Reason> {
        let has_work = thread.agents.is_empty() && !thread.due.is_empty();
        has_work.then(|| self.reason_of_due(thread))
    }

    /// When the oldest message of a thread was modified, and how many were examined.
    ///
    /// In a large thread only the first vertices of each list are examined.
    pub fn oldest_of(self, thread: &Thread) -> (Option<Timestamp>, usize) {
        (self.core.queue.oldest_of(thread), thread.len().min(oldest::MAX_MESSAGES_EXAMINED))
    }

    /// Number of recipients of a thread whose delivery has failed so far.
    ///
    /// Those are the deferred ones. If the destination is unreachable or has no agents, they are
    /// all of them.
    pub fn undelivered_of(self, thread: &Thread) -> u32 {
        let ring = self.ring_of(thread);
        let has_agents =
            ring.clause.command.is_some() && self.ring_agents(thread.ring).starts.failure.is_none();
        match thread.retry.unreachable.is_none() && has_agents {
            true => thread.deferred,
            false => thread.recipients,
        }
    }

    /// Maximum number of agents that may work on a thread.
    pub fn max_agents_of(self, thread: &Thread) -> u32 {
        self.core.queue.max_thread(thread)
    }

    /// Maximum number of agents of a thread now, by what is known about its host.
    ///
    /// It comes with the name of its window, if that may be shared with other threads.
    pub fn window_of(self, thread: &Thread) -> (usize, Option<&'s [u8]>) {
        let window = thread.window.map(|window| &self.core.dispatch.windows()[window]);
        (
            self.core.dispatch.window_size(&self.core.queue, thread),
            window.and_then(|window| window.name.as_deref()),
        )
    }

    /// All rings, in the order of their ids.
    pub fn ring_ids(self) -> Vec<RingId> {
        self.core.queue.rings().iter().map(|(ring, _)| ring).collect()
    }

    /// A ring.
    pub fn ring(self, id: RingId) -> Option<&'s Ring> {
        self.core.queue.rings().get(id)
    }

    /// The agents of a ring.
    pub fn ring_agents(self, id: RingId) -> &'s RingAgents {
        self.core.dispatch.of_ring(id)
    }

    /// The ring of a thread.
    pub fn ring_of(self, thread: &Thread) -> &'s Ring {
        self.core.queue.ring(thread.ring)
    }

    /// Maximum number of agents of a ring.
    pub fn max_ring_of(self, ring: &Ring) -> usize {
        ring.clause.max_ring.map_or(self.core.cx.settings.max_agents, |limit| limit as usize)
    }

    /// Number of vertices of some threads.
    pub fn count_vertices(self, threads: &[ThreadId]) -> usize {
        threads.iter().map(|thread| self.core.queue.thread(*thread).len()).sum()
    }

    /// An agent.
    pub fn agent(self, id: AgentId) -> Option<AgentRow<'s>> {
        self.core.dispatch.agents().get(id).map(|agent| self.agent_row(agent))
    }

    /// The agents with an id after `after`, in order.
    pub fn agents_after(
        self,
        after: Option<AgentId>,
    ) -> impl Iterator<Item = (AgentId, AgentRow<'s>)> {
        let from = AgentId(after.map_or(0, |AgentId(number)| number.saturating_add(1)));
        self.core
            .dispatch
            .agents()
            .starting_at(from)
            .map(move |(id, agent)| (id, self.agent_row(agent)))
    }

    /// The agents at work on a thread, the newest first.
    pub fn agents_of(self, thread: &Thread) -> impl Iterator<Item = &'s Agent> {
        thread.agents.iter().rev().map(move |agent| &self.core.dispatch.agents()[*agent])
    }

    fn agent_row(self, agent: &'s Agent) -> AgentRow<'s> {
        let thread = agent.thread.and_then(|thread| self.thread(thread));
        let destination = thread.map(|thread| &thread.destination);
        AgentRow { agent, ring: self.core.queue.ring(agent.ring), destination }
    }

    /// Present totals.
    ///
    /// The cost depends on agents and their jobs only, not on the queue.
    pub fn totals(self) -> Totals {
        let is_idle = |agent: &&Agent| matches!(agent.state(), AgentState::Idle(_));
        let jobs = self.core.dispatch.agents().values().flat_map(Agent::jobs);
        let spent =
            jobs.filter(|job| self.core.queue.vertex(*job).state == VertexState::Finished).count();
        Totals {
            agents: self.core.dispatch.agents().len(),
            idle: self.core.dispatch.agents().values().filter(is_idle).count(),
            messages: self.core.queue.messages().len(),
            threads: self.core.queue.threads().len(),
            vertices: self.core.queue.vertices().len() - spent,
            recipients: self.recipients(),
            held_threads: self.core.queue.threads().held(),
            oldest: self.core.queue.messages().oldest().map(Timestamp::from_seconds),
            counters: self.core.cx.counters,
        }
    }

    /// Pending recipients of messages in memory.
    pub fn recipients(self) -> u64 {
        let all = self.core.cx.counters.recipients_in - self.core.cx.counters.recipients_out;
        all - self.paged_recipients()
    }

    /// The parameters of its configuration.
    pub fn parameters(self) -> &'s Parameters {
        &self.core.cx.config.parameters
    }

    /// The settings of this scheduler.
    pub fn settings(self) -> &'s Settings {
        &self.core.cx.settings
    }

    /// Returns true if the scheduler is ending.
    ///
    /// Agents are stopped and no new ones are started.
    pub fn is_draining(self) -> bool {
        self.core.cx.is_draining
    }
}

impl Ring {
    /// The pattern of its clause, `channel/host`.
    pub fn pattern(&self) -> String {
        format!("{}/{}", self.clause.channel_pattern, self.clause.host_pattern)
    }
}
