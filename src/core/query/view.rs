//! Views of the queue for MAILQ version 1 (read-only).

use crate::Scheduler;
use crate::action::Note;
use crate::dispatch::agent::{Agent, AgentState};
use crate::dispatch::ring::Ring;
use crate::query::thread_survey::MAX_MESSAGES_EXAMINED;
use crate::query::why::Reason;
use crate::queue::destination::Destination;
use crate::queue::message::MessageId;
use crate::queue::thread::Thread;
use crate::queue::vertex::{VertexId, VertexState};
use crate::{Counters, Settings};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;

pub use crate::dispatch::ring::RingId;
pub use crate::queue::thread::ThreadId;

/// A vertex, as MAILQ shows it.
pub struct VertexView<'s> {
    /// Name of the message.
    pub name: &'s SpoolName,
    /// Offsets of its pending recipients.
    pub offsets: Vec<u32>,
    /// Where its recipients go.
    pub destination: &'s Destination,
    /// Its last diagnosis.
    pub text: Option<&'s [u8]>,
    /// What it waits for.
    pub reason: Reason,
    /// The newest agent at work on its thread, if there is one.
    pub agent: Option<u32>,
    /// It is the next to be given to an agent.
    pub is_next: bool,
    /// Seconds until it expires; negative if that time is past.
    pub expires_in: Option<i64>,
    /// Reports about it so far, and agents that died over it.
    pub tries: u32,
}

/// A ring, as MAILQ shows it.
pub struct RingView<'s> {
    /// Channel pattern of its clause.
    pub channel_pattern: &'s str,
    /// Host pattern of its clause.
    pub host_pattern: &'s str,
    /// Its command contains `$host`.
    pub with_host: bool,
    /// Its threads.
    pub threads: Vec<ThreadId>,
    /// Vertices in its threads.
    pub vertices: usize,
    /// Its agents, idle ones included.
    pub agents: usize,
    /// Agents in its pool.
    pub idle: usize,
    /// `maxring` in effect.
    pub max_ring: usize,
    /// `overfeed`.
    pub overfeed: u32,
    /// `maxthr`.
    pub max_thread: u32,
}

/// A thread, as MAILQ shows it.
pub struct ThreadView<'s> {
    /// Where its recipients go.
    pub destination: &'s Destination,
    /// The command of its clause contains `$host`.
    pub with_host: bool,
    /// Number of its vertices.
    pub vertices: usize,
    /// Number of their recipients.
    pub recipients: u32,
    /// Reports about its recipients so far.
    pub attempts: u32,
    /// Agents at work on it, the newest first.
    pub agents: Vec<AgentView>,
    /// Vertices to be given to an agent.
    pub unfed: usize,
    /// Seconds until the first waiting vertex is due.
    ///
    /// `None` if that is past, or an agent is at work.
    pub wakeup_in: Option<i64>,
    /// Why it has no agent although a vertex is due.
    pub reason: Option<Reason>,
    /// Age of its oldest examined message in seconds; -1 if it has none.
    pub oldest: i64,
    /// Number of messages examined for that.
    ///
    /// Only the first ones of a large thread.
    pub looked_at: usize,
}

/// An agent at work, as MAILQ shows it.
pub struct AgentView {
    /// Its process id; 0 before it has one.
    pub pid: u32,
    /// Seconds since it last reported `#hungry`, or was started.
    pub hungry: i64,
    /// Seconds since it was last given a job.
    pub fed: Option<i64>,
    /// Number of jobs that it has not answered yet.
    pub owed: usize,
    /// Its state.
    pub state: AgentState,
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
    /// Totals since the start of the process.
    pub counters: Counters,
}

impl Scheduler {
    /// The first message with this number or a higher one.
    ///
    /// Returns its number and its vertices.
    pub fn message_at_or_after(
        &self,
        now: Timestamp,
        number: u64,
    ) -> Option<(u64, Vec<VertexView<'_>>)> {
        let message = self.queue.messages.at_or_after(number)?;
        let vertices = self.queue.messages[message].vertices.iter(&self.queue.vertices);
        let views = vertices.map(|vertex| self.vertex_view(now, message, vertex)).collect();
        Some((self.queue.messages[message].name.number(), views))
    }

    pub(crate) fn vertex_view(
        &self,
        now: Timestamp,
        message: MessageId,
        vertex: VertexId,
    ) -> VertexView<'_> {
        let vertex_ref = &self.queue.vertices[vertex];
        let thread = &self.queue.threads[vertex_ref.thread];
        let newest = thread.agents.last();
        let message = &self.queue.messages[message];
        VertexView {
            name: &message.name,
            offsets: vertex_ref.recipients.pending(),
            destination: &thread.destination,
            text: vertex_ref.diagnosis.as_ref().map(|diagnosis| &diagnosis.message[..]),
            reason: self.reason_of(vertex),
            agent: newest.map(|agent| self.dispatch.agents[*agent].pid.unwrap_or_default()),
            is_next: thread.due.first() == Some(vertex),
            expires_in: self.expiry(vertex).map(|expiry| expiry.seconds_since(now)),
            tries: vertex_ref.attempts,
        }
    }

    /// All rings, in the order of their ids.
    pub fn ring_ids(&self) -> Vec<RingId> {
        self.dispatch.rings.iter().map(|(ring, _)| ring).collect()
    }

    /// A ring; `None` if it is gone.
    pub fn ring_view(&self, ring: RingId) -> Option<RingView<'_>> {
        let ring: &Ring = self.dispatch.rings.get(ring)?;
        let clause = &ring.clause;
        let max_ring = clause.max_ring.map_or(self.settings.max_agents, |limit| limit as usize);
        Some(RingView {
            channel_pattern: &clause.channel_pattern,
            host_pattern: &clause.host_pattern,
            with_host: ring.host.is_some(),
            threads: ring.threads.clone(),
            vertices: ring.threads.iter().map(|thread| self.queue.threads[*thread].len()).sum(),
            agents: ring.agents,
            idle: ring.idle.len(),
            max_ring,
            overfeed: clause.overfeed,
            max_thread: clause.max_thread,
        })
    }

    /// A thread; `None` if it is gone.
    pub fn thread_view(&self, now: Timestamp, thread: ThreadId) -> Option<ThreadView<'_>> {
        let thread: &Thread = self.queue.threads.get(thread)?;
        let oldest = self.queue.oldest_of(thread);
        let wakeup = thread.waiting.next().filter(|_| thread.agents.is_empty());
        let wakeup = wakeup.map(|wakeup| self.queue.to_present_clock(thread, wakeup));
        let has_work = thread.agents.is_empty() && !thread.due.is_empty();
        Some(ThreadView {
            destination: &thread.destination,
            with_host: self.dispatch.rings[thread.ring].host.is_some(),
            vertices: thread.len(),
            recipients: thread.recipients,
            attempts: thread.attempts,
            agents: thread
                .agents
                .iter()
                .rev()
                .map(|id| self.dispatch.agents[*id].view(now))
                .collect(),
            unfed: thread.due.len(),
            wakeup_in: wakeup.map(|wakeup| wakeup.seconds_since(now)).filter(|left| *left > 0),
            reason: has_work.then(|| self.reason_of_due(thread)),
            oldest: oldest.map_or(-1, |oldest| now.seconds_since(oldest)),
            looked_at: thread.len().min(MAX_MESSAGES_EXAMINED),
        })
    }

    /// Present totals.
    ///
    /// The cost depends on agents and their jobs only, not on the queue.
    pub fn totals(&self) -> Totals {
        let is_idle = |agent: &&Agent| matches!(agent.state(), AgentState::Idle(_));
        let jobs = self.dispatch.agents.values().flat_map(Agent::jobs);
        let spent =
            jobs.filter(|job| self.queue.vertices[*job].state == VertexState::Finished).count();
        Totals {
            agents: self.dispatch.agents.len(),
            idle: self.dispatch.agents.values().filter(is_idle).count(),
            messages: self.queue.messages.len(),
            threads: self.queue.threads.len(),
            vertices: self.queue.vertices.len() - spent,
            recipients: self.recipients(),
            counters: self.counters,
        }
    }

    /// Pending recipients of messages in memory.
    pub fn recipients(&self) -> u64 {
        let all = self.counters.recipients_in - self.counters.recipients_out;
        all - self.paged_recipients()
    }

    /// The settings of this scheduler.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Notes that are not on disk yet.
    pub fn unwritten_notes(&self) -> impl Iterator<Item = &Note> {
        self.notes.unwritten.values()
    }
}

impl Agent {
    fn view(&self, now: Timestamp) -> AgentView {
        AgentView {
            pid: self.pid.unwrap_or_default(),
            hungry: now.seconds_since(self.hungry_at),
            fed: self.fed_at.map(|fed| now.seconds_since(fed)),
            owed: self.owed.len(),
            state: self.state(),
        }
    }
}
