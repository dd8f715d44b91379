//! Arrival of a control file: its recipients join their threads.

use crate::admission::paging::RestoreAction;
use crate::context::Context;
use crate::queue::{Message, MessageId, Queue, ThreadId, Vertex, VertexId, VertexState};
use zsched_spool::Arrival;

impl Queue {
    /// Adds a message without recipients.
    pub(crate) fn add_message(&mut self, arrival: &Arrival) -> MessageId {
        self.messages.insert(Message::new(arrival))
    }

    /// Adds a vertex to its message and thread, but to no list.
    pub(crate) fn add_vertex(
        &mut self,
        cx: &mut Context,
        message: MessageId,
        thread: ThreadId,
        (offsets, is_part): (&[u32], bool),
    ) -> VertexId {
        let vertex = self.vertices.insert(Vertex::new(message, thread, offsets));
        self.vertices[vertex].set_part(is_part);
        let count = offsets.len() as u32;
        cx.counters.recipients_in += u64::from(count);
        let message_ref = &mut self.messages[message];
        message_ref.pending += count;
        message_ref.vertices.push_back(&mut self.vertices, vertex);
        self.adjust_recipients(thread, i64::from(count));
        vertex
    }

    /// Puts a new vertex where its restored state requires it.
    pub(crate) fn place_arrival(
        &mut self,
        cx: &mut Context,
        vertex: VertexId,
        action: RestoreAction,
    ) {
        let Vertex { message, thread, .. } = self.vertices[vertex];
        match action {
            _ if self.messages[message].is_kept() => self.move_vertex(vertex, VertexState::Held),
            RestoreAction::Requested => self.move_vertex(vertex, VertexState::Due),
            RestoreAction::Unloaded { due: None } if self.vertices[vertex].attempts > 0 => {
                self.wait_after_try(cx, vertex);
            }
            RestoreAction::Waiting { due: Some(due) }
            | RestoreAction::Unloaded { due: Some(due) }
                if due > cx.now =>
            {
                self.resume_wait(cx, vertex, due);
            }
            // Its time has come: it is due even if its clause is `queueonly`.
            RestoreAction::Waiting { due: Some(_) }
                if self.threads[thread].retry.unreachable.is_none() =>
            {
                self.move_vertex(vertex, VertexState::Due);
            }
            _ if self.arrivals_wait(thread) => self.wait_for_destination(cx, vertex),
            _ => self.move_vertex(vertex, VertexState::Due),
        }
    }

    /// Returns true if untried arrivals for a thread must wait.
    ///
    /// They must if the destination is known to be unreachable. They also must if it is tried only
    /// on request (`queueonly`) and no agent works on it.
    pub(crate) fn arrivals_wait(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread];
        let queue_only = self.rings[thread.ring].clause.queue_only;
        thread.retry.unreachable.is_some() || (queue_only && thread.agents.is_empty())
    }
}
