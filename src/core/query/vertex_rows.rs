//! Read-only views of a message and of its vertices.

use crate::Scheduler;
use crate::queue::Queue;
use crate::queue::destination::Destination;
use crate::queue::vertex::{Vertex, VertexState};
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

pub use crate::queue::vertex::VertexId;

/// A message.
pub struct MessageRow<'s> {
    /// Its spool id.
    pub id: SpoolId,
    /// The name of its files.
    pub name: &'s SpoolName,
    /// When it was routed.
    pub created: Timestamp,
    /// Priority, 0 to 9; 0 is the most urgent.
    pub priority: u8,
    /// Recipients in its control file, finished ones included.
    pub recipients: u32,
    /// Recipients that are not finished.
    pub pending: u32,
    /// Recipients that have failed.
    pub failed: u32,
    /// An operator holds it.
    pub is_held: bool,
    /// It is being removed from the spool.
    pub is_being_removed: bool,
}

/// The recipients of a message for one destination.
pub struct VertexRow<'s> {
    /// The message's spool id.
    pub id: SpoolId,
    /// The name of the message's files.
    pub name: &'s SpoolName,
    /// Where its recipients go.
    pub destination: &'s Destination,
    /// Number of recipients that are not finished.
    pub recipients: u32,
    /// Reports on them so far, plus agents that died over them.
    pub attempts: u32,
    /// Where it is: `due`, `with-agent`, `waiting` or `held`.
    pub place: &'static str,
    /// When it expires, unless it is held.
    pub expires: Option<Timestamp>,
    /// The last text about it.
    pub text: Option<&'s [u8]>,
}

impl Scheduler {
    /// Returns the message of a number, unless it has left.
    pub fn message_row(&self, number: u64) -> Option<MessageRow<'_>> {
        let message = &self.queue.messages[self.queue.messages.find(number)?];
        Some(MessageRow {
            id: message.spool_id(),
            name: &message.name,
            created: message.created,
            priority: message.priority,
            recipients: message.recipients,
            pending: message.pending,
            failed: message.failed,
            is_held: message.held,
            is_being_removed: message.is_removing,
        })
    }

    /// Returns the vertices of a message, unless it has left.
    pub fn vertices_of_message(&self, number: u64) -> Option<Vec<VertexId>> {
        let message = &self.queue.messages[self.queue.messages.find(number)?];
        Some(message.vertices.to_vec(&self.queue.vertices))
    }

    /// Returns a vertex of a message.
    ///
    /// `None` if it has left the message since
    /// [`vertices_of_message`](Scheduler::vertices_of_message) returned it.
    pub fn entry(&self, number: u64, vertex: VertexId) -> Option<VertexRow<'_>> {
        let vertex_ref = self.queue.vertex_in_message(number, vertex)?;
        let message = &self.queue.messages[vertex_ref.message];
        let thread = &self.queue.threads[vertex_ref.thread];
        Some(VertexRow {
            id: message.spool_id(),
            name: &message.name,
            destination: &thread.destination,
            recipients: vertex_ref.pending,
            attempts: vertex_ref.attempts,
            place: match vertex_ref.state {
                VertexState::Fed | VertexState::Finished => "with-agent",
                VertexState::Held => "held",
                VertexState::Due | VertexState::Waiting if thread.held => "held",
                VertexState::Due => "due",
                VertexState::Waiting => "waiting",
            },
            expires: self.expiry(vertex),
            text: vertex_ref.diagnosis.as_ref().map(|diagnosis| &diagnosis.message[..]),
        })
    }

    /// Returns the offsets of the unfinished recipients of a vertex.
    ///
    /// `None` as with [`entry`](Scheduler::entry).
    pub fn offsets_of(&self, number: u64, vertex: VertexId) -> Option<Vec<u32>> {
        Some(self.queue.vertex_in_message(number, vertex)?.recipients.pending())
    }
}

impl Queue {
    pub(crate) fn vertex_in_message(&self, number: u64, vertex: VertexId) -> Option<&Vertex> {
        let vertex = self.vertices.get(vertex)?;
        let is_of_it = self.messages[vertex.message].name.number() == number;
        (is_of_it && vertex.state != VertexState::Finished).then_some(vertex)
    }
}
