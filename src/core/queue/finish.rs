//! The end of recipients, and of the vertices that they leave.
//!
//! When the last vertex of a message has ended, [`crate::queue::message_removal`] decides.

use crate::action::{Action, Statistics};
use crate::context::Context;
use crate::queue::{MessageFlag, Queue, Vertex, VertexId, VertexState};
use zsched_format::time::Timestamp;

impl Queue {
    /// Finishes a pending recipient of a vertex.
    ///
    /// `state` is the word for the statistics log.
    pub(crate) fn finish_recipient(
        &mut self,
        cx: &mut Context,
        vertex: VertexId,
        offset: u32,
        state: &'static str,
        failed: bool,
    ) {
        self.record_final(cx, vertex, state, failed);
        self.drop_recipient(cx, vertex, offset);
    }

    /// Drops a recipient, and its vertex with the last one.
    pub(crate) fn drop_recipient(&mut self, cx: &mut Context, vertex: VertexId, offset: u32) {
        let was_pending = self.change_vertex(vertex, |vertex| vertex.finish_recipient(offset));
        if !was_pending {
            return;
        }
        let Vertex { message, thread, .. } = self.vertices[vertex];
        self.messages[message].pending -= 1;
        self.adjust_recipients(thread, -1);
        cx.counters.recipients_out += 1;
        // A partial message may be read on.
        if !self.unread.is_empty() {
            self.rings.mark_room(self.threads[thread].ring);
        }
        if self.vertices[vertex].pending() == 0 {
            self.end_vertex(cx.now, vertex);
        }
    }

    /// Takes a vertex out of its message and its thread.
    ///
    /// If an agent has it as a job, its number stays taken until that job is over.
    pub(crate) fn end_vertex(&mut self, now: Timestamp, vertex: VertexId) {
        let message = self.vertices[vertex].message;
        let was_fed = self.vertices[vertex].state == VertexState::Fed;
        self.messages[message].vertices.remove(&mut self.vertices, vertex);
        self.set_state(now, vertex, VertexState::Finished);
        if !was_fed {
            self.vertices.remove(vertex);
        }
    }

    /// Counts a recipient that has ended in a final state.
    pub(crate) fn record_final(
        &mut self,
        cx: &mut Context,
        vertex: VertexId,
        state: &'static str,
        failed: bool,
    ) {
        let vertex = &self.vertices[vertex];
        let message = &mut self.messages[vertex.message];
        message.failed += u32::from(failed);
        message.set_if(
            MessageFlag::WantsAlternative,
            failed && message.is(MessageFlag::HasAlternatives),
        );
        let statistics = Statistics {
            spool_id: message.spool_id(),
            created: message.created,
            state,
            destination: self.threads[vertex.thread].destination.clone(),
        };
        cx.act(Action::Statistics(statistics));
    }
}
