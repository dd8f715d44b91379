//! The vertices of a thread as MAILQ version 2 shows them (read-only).

use crate::Scheduler;
use crate::operator::order::Target;
use crate::query::why::Reason;
use crate::queue::vertex::VertexState;
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

pub use crate::queue::thread::ThreadId;
pub use crate::queue::vertex::VertexId;

/// A vertex, as `SHOW THREAD` shows it.
pub struct VertexRecord<'s> {
    /// Name of the message.
    pub name: &'s SpoolName,
    /// Offsets of the pending recipients, in the order of lists for people.
    pub offsets: Vec<u32>,
    /// When it expires.
    pub expiry: Option<Timestamp>,
    /// When it becomes due, or the time planned for its last try.
    pub wakeup: Option<Timestamp>,
    /// When it was last given to an agent.
    ///
    /// In seconds since the epoch; 0 is never.
    pub last_fed: u32,
    /// Reports about it so far, and agents that died over it.
    pub tries: u32,
    /// What it waits for.
    pub reason: Reason,
    /// What was last said about it.
    pub text: Option<&'s [u8]>,
}

impl Scheduler {
    /// The thread of a channel and a host, both in lower case.
    pub fn thread_id(&self, channel: &[u8], host: &[u8]) -> Option<ThreadId> {
        self.queue.threads.find_existing(channel, host)
    }

    /// The vertices of a thread; none if the thread is gone.
    pub fn vertices_of(&self, thread: ThreadId) -> Vec<VertexId> {
        let thread = self.queue.threads.get(thread);
        thread.map_or(Vec::new(), |thread| thread.vertices(&self.queue.vertices).collect())
    }

    /// A vertex, if it is still in the thread.
    ///
    /// It may have left since [`vertices_of`](Scheduler::vertices_of) returned it.
    pub fn record_of(
        &self,
        now: Timestamp,
        thread: ThreadId,
        vertex: VertexId,
    ) -> Option<VertexRecord<'_>> {
        let vertex_ref =
            self.queue.vertices.get(vertex).filter(|vertex| vertex.thread == thread)?;
        let thread = self.queue.threads.get(thread)?;
        let view = self.vertex_view(now, vertex_ref.message, vertex);
        let planned = Some(vertex_ref.planned).filter(|planned| *planned > 0);
        let planned = planned.map(|planned| Timestamp::from_seconds(planned.into()));
        let wave = thread.waiting.wakeup(vertex_ref.wave);
        let wave = wave.filter(|_| vertex_ref.state == VertexState::Waiting);
        let wave = wave.map(|time| self.queue.to_present_clock(thread, time));
        Some(VertexRecord {
            name: view.name,
            offsets: view.offsets,
            expiry: self.expiry(vertex),
            wakeup: wave.or(planned),
            last_fed: vertex_ref.last_fed,
            tries: view.tries,
            reason: view.reason,
            text: view.text,
        })
    }

    /// Target of an order about a vertex.
    ///
    /// `None` if the vertex has left the thread.
    pub fn target_of(&self, thread: ThreadId, vertex: VertexId) -> Option<Target> {
        let number = self.name_of(thread, vertex)?.number();
        let destination = self.queue.threads.get(thread)?.destination.clone();
        Some(Target { number, destination: Some(destination), is_whole: false })
    }

    /// Number of the message with this spool id or file name.
    ///
    /// The file name has no folders.
    pub fn message_named(&self, id: &str) -> Option<u64> {
        let digits = || id[..id.bytes().take_while(u8::is_ascii_digit).count()].parse().ok();
        let number = SpoolId::number_in(id).or_else(digits)?;
        let message = &self.queue.messages[self.queue.messages.find(number)?];
        let path = message.name.to_string();
        let name = path.rsplit('/').next().unwrap_or_default();
        (name == id || message.spool_id().to_string() == id).then_some(number)
    }

    /// Name of a vertex's message.
    ///
    /// `None` if the vertex has left the thread.
    pub fn name_of(&self, thread: ThreadId, vertex: VertexId) -> Option<&SpoolName> {
        let vertex = self.queue.vertices.get(vertex).filter(|vertex| vertex.thread == thread)?;
        Some(&self.queue.messages[vertex.message].name)
    }
}
