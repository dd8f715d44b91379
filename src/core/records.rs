//! What MAILQ version 2 shows of the single vertices of a thread: values to be shown, nothing to be
//! changed.

use super::Scheduler;
use super::order::Target;
use super::vertex::Place;
use super::view::{Slot, Standing};
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

pub use super::thread::ThreadId;
pub use super::vertex::VertexId;

/// A vertex, as `SHOW THREAD` shows it.
pub struct Record<'s> {
    /// Name of the message.
    pub name: &'s SpoolName,
    /// Offsets of the recipients to do, in the order in which they are listed.
    pub offsets: Vec<u32>,
    /// When it expires.
    pub expiry: Option<Timestamp>,
    /// When it is due, or was for its last try.
    pub wakeup: Option<Timestamp>,
    /// When it was last given to an agent, in seconds since the epoch; 0 is never.
    pub last_fed: u32,
    /// Reports about it so far, and agents that died over it.
    pub tries: u32,
    /// What it is waiting for.
    pub standing: Standing,
    /// What was last said about it.
    pub text: Option<&'s [u8]>,
}

impl Record<'_> {
    /// The limit that keeps an agent away, if it is one.
    pub fn slot(&self) -> Option<Slot> {
        match self.standing {
            Standing::Slot(slot) => Some(slot),
            _ => None,
        }
    }
}

impl Scheduler {
    /// The thread of a channel and a host, both in lower case.
    pub fn thread_id(&self, channel: &[u8], host: &[u8]) -> Option<ThreadId> {
        self.threads.find_existing(channel, host)
    }

    /// The vertices of a thread; none if it is gone.
    pub fn vertices_of(&self, thread: ThreadId) -> Vec<VertexId> {
        let thread = self.threads.get(thread);
        thread.map_or(Vec::new(), |thread| thread.vertices(&self.vertices).collect())
    }

    /// A vertex, unless it has left the thread since [`vertices_of`](Scheduler::vertices_of) told of it.
    pub fn record_of(
        &self,
        now: Timestamp,
        thread: ThreadId,
        vertex: VertexId,
    ) -> Option<Record<'_>> {
        let vertex_ref = self.vertices.get(vertex).filter(|vertex| vertex.thread == thread)?;
        let thread = self.threads.get(thread)?;
        let view = self.vertex_view(now, vertex_ref.message, vertex);
        let planned = Some(vertex_ref.planned).filter(|planned| *planned > 0);
        let planned = planned.map(|planned| Timestamp::from_seconds(planned.into()));
        let wave = thread.waiting.wakeup(vertex_ref.wave);
        let wave = wave.filter(|_| vertex_ref.place == Place::Waiting);
        let wave = wave.map(|time| self.by_clock(thread, time));
        Some(Record {
            name: view.name,
            offsets: view.offsets,
            expiry: self.expiry(vertex),
            wakeup: wave.or(planned),
            last_fed: vertex_ref.last_fed,
            tries: view.tries,
            standing: view.standing,
            text: view.text,
        })
    }

    /// What an order has to name to be about a vertex, on the same terms.
    pub fn target_of(&self, thread: ThreadId, vertex: VertexId) -> Option<Target> {
        let number = self.name_of(thread, vertex)?.number();
        let destination = self.threads.get(thread)?.destination.clone();
        Some(Target { number, destination: Some(destination), is_whole: false })
    }

    /// The number of the message with this spool id, or whose files have this name, without folders.
    pub fn message_called(&self, id: &str) -> Option<u64> {
        let digits = || id[..id.bytes().take_while(u8::is_ascii_digit).count()].parse().ok();
        let number = SpoolId::number_in(id).or_else(digits)?;
        let message = &self.messages[self.messages.find(number)?];
        let path = message.name.to_string();
        let name = path.rsplit('/').next().unwrap_or_default();
        (name == id || message.spool_id().to_string() == id).then_some(number)
    }

    /// The name of a vertex's message, on the same terms.
    pub fn name_of(&self, thread: ThreadId, vertex: VertexId) -> Option<&SpoolName> {
        let vertex = self.vertices.get(vertex).filter(|vertex| vertex.thread == thread)?;
        Some(&self.messages[vertex.message].name)
    }
}
