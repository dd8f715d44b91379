//! What programs may see of a message, and of its way to each destination: values to be shown, nothing to be
//! changed.

use super::Scheduler;
use super::destination::Destination;
use super::vertex::{Place, Vertex};
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

pub use super::vertex::VertexId;

/// A message.
pub struct MessageRow<'s> {
    /// Its spool id.
    pub id: SpoolId,
    /// The name of its files.
    pub name: &'s SpoolName,
    /// When it was routed.
    pub created: Timestamp,
    /// How urgent it is, 0 to 9, 0 first.
    pub priority: u8,
    /// Recipients in its control file, finished ones included.
    pub recipients: u32,
    /// Recipients that are not finished.
    pub pending: u32,
    /// Recipients that have failed.
    pub failed: u32,
    /// An operator holds it.
    pub is_held: bool,
    /// It is being taken out of the spool.
    pub is_leaving: bool,
}

/// A message on its way to a destination.
pub struct Entry<'s> {
    /// The message's spool id.
    pub id: SpoolId,
    /// The name of its files.
    pub name: &'s SpoolName,
    /// Where its recipients go.
    pub destination: &'s Destination,
    /// How many are not finished.
    pub recipients: u32,
    /// Reports about them so far, and agents that died over them.
    pub attempts: u32,
    /// Where it is: `due`, `with-agent`, `waiting` or `held`.
    pub place: &'static str,
    /// When it expires, unless it is held.
    pub expires: Option<Timestamp>,
    /// What was last said about it.
    pub text: Option<&'s [u8]>,
}

impl Scheduler {
    /// The message of a number, unless it has left.
    pub fn message_row(&self, number: u64) -> Option<MessageRow<'_>> {
        let message = &self.messages[self.messages.find(number)?];
        Some(MessageRow {
            id: message.spool_id(),
            name: &message.name,
            created: message.created,
            priority: message.priority,
            recipients: message.recipients,
            pending: message.pending,
            failed: message.failed,
            is_held: message.held,
            is_leaving: message.removing,
        })
    }

    /// The vertices of the message of a number, unless it has left.
    pub fn vertices_of_message(&self, number: u64) -> Option<Vec<VertexId>> {
        let message = &self.messages[self.messages.find(number)?];
        Some(message.vertices.to_vec(&self.vertices))
    }

    /// A vertex, unless it has left the message since
    /// [`vertices_of_message`](Scheduler::vertices_of_message) told of it.
    pub fn entry(&self, number: u64, vertex: VertexId) -> Option<Entry<'_>> {
        let vertex_ref = self.vertex_in_message(number, vertex)?;
        let message = &self.messages[vertex_ref.message];
        let thread = &self.threads[vertex_ref.thread];
        Some(Entry {
            id: message.spool_id(),
            name: &message.name,
            destination: &thread.destination,
            recipients: vertex_ref.pending,
            attempts: vertex_ref.attempts,
            place: match vertex_ref.place {
                Place::Fed | Place::Spent => "with-agent",
                Place::Held => "held",
                Place::Due | Place::Waiting if thread.held => "held",
                Place::Due => "due",
                Place::Waiting => "waiting",
            },
            expires: self.expiry(vertex),
            text: vertex_ref.diagnosis.as_ref().map(|diagnosis| &diagnosis.message[..]),
        })
    }

    /// Offsets of the recipients of a vertex that are not finished, on the same terms.
    pub fn offsets_of(&self, number: u64, vertex: VertexId) -> Option<Vec<u32>> {
        Some(self.vertex_in_message(number, vertex)?.recipients.pending())
    }

    pub(super) fn vertex_in_message(&self, number: u64, vertex: VertexId) -> Option<&Vertex> {
        let vertex = self.vertices.get(vertex)?;
        let is_of_it = self.messages[vertex.message].name.number() == number;
        (is_of_it && vertex.place != Place::Spent).then_some(vertex)
    }
}
