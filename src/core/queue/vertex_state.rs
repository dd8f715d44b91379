//! The state of a vertex, and the list of its thread that it is in.
//!
//! In rings that choose by message, the job of a vertex follows its state.

use crate::queue::{Queue, VertexId, VertexState};
use zsched_format::time::Timestamp;

impl Queue {
    /// Moves a vertex to another list of its thread, or none.
    ///
    /// It comes to the end of the list.
    pub(crate) fn set_state(&mut self, now: Timestamp, vertex: VertexId, to: VertexState) {
        self.dequeue_vertex(vertex);
        let thread = self.vertices[vertex].thread;
        self.threads[thread].move_vertex(&mut self.vertices, vertex, to);
        if to == VertexState::Due {
            self.record_due_packet(vertex);
        }
        self.enqueue_vertex(now, vertex);
    }

    /// Moves a vertex to the head of its thread's due list.
    pub(crate) fn set_due_first(&mut self, now: Timestamp, vertex: VertexId) {
        self.dequeue_vertex(vertex);
        let thread = self.vertices[vertex].thread;
        self.threads[thread].move_vertex_to_head(&mut self.vertices, vertex);
        self.record_due_packet(vertex);
        self.enqueue_vertex(now, vertex);
    }

    /// Adds a vertex to a job, if it is due.
    pub(crate) fn enqueue_vertex(&mut self, now: Timestamp, vertex: VertexId) {
        let vertex_ref = &self.vertices[vertex];
        if vertex_ref.state == VertexState::Due && self.rings.have_jobs() {
            let (message, thread) = (vertex_ref.message, vertex_ref.thread);
            self.enqueue_entries(now, message, self.threads[thread].ring, &[(thread, vertex)]);
        }
    }
}
