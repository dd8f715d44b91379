//! The state of a vertex, and the list of its thread that it is in.
//!
//! In rings that choose by message, the job of a vertex follows its state.

use crate::Scheduler;
use crate::queue::{VertexId, VertexState};

impl Scheduler {
    /// Moves a vertex to another list of its thread, or none.
    ///
    /// It comes to the end of the list.
    pub(crate) fn set_state(&mut self, vertex: VertexId, to: VertexState) {
        self.dispatch.dequeue_vertex(&self.queue, vertex);
        let thread = self.queue.vertices[vertex].thread;
        self.queue.threads[thread].move_vertex(&mut self.queue.vertices, vertex, to);
        self.enqueue_vertex(vertex);
    }

    /// Moves a vertex to the head of its thread's due list.
    pub(crate) fn set_due_first(&mut self, vertex: VertexId) {
        self.dispatch.dequeue_vertex(&self.queue, vertex);
        let thread = self.queue.vertices[vertex].thread;
        self.queue.threads[thread].move_vertex_to_head(&mut self.queue.vertices, vertex);
        self.enqueue_vertex(vertex);
    }

    /// Adds a vertex to a job, if it is due.
    pub(crate) fn enqueue_vertex(&mut self, vertex: VertexId) {
        let vertex_ref = &self.queue.vertices[vertex];
        if vertex_ref.state == VertexState::Due && self.dispatch.rings.have_jobs() {
            let (message, thread) = (vertex_ref.message, vertex_ref.thread);
            self.enqueue_entries(message, self.queue.threads[thread].ring, &[(thread, vertex)]);
        }
    }
}
