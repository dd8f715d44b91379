//! The state of a vertex, and the list of its thread that it is in.
//!
//! In rings that choose by message, the job of a vertex follows its state.

use crate::queue::{MessageId, Queue, Vertex, VertexId, VertexState};
use zsched_format::time::Timestamp;

impl Queue {
    /// Moves a vertex to another list of its thread, or none.
    ///
    /// It comes to the end of the list.
    pub(crate) fn set_state(&mut self, now: Timestamp, vertex: VertexId, to: VertexState) {
        self.dequeue_vertex(vertex);
        self.move_vertex(vertex, to);
        self.enqueue_vertex(now, vertex);
    }

    /// Does the same without a change of its job.
    pub(super) fn move_vertex(&mut self, vertex: VertexId, to: VertexState) {
        let thread = self.vertices[vertex].thread;
        self.threads[thread].move_vertex(&mut self.vertices, vertex, to);
        self.mark_vertex(vertex);
    }

    /// Moves a vertex to the head of its thread's due list.
    pub(crate) fn set_due_first(&mut self, now: Timestamp, vertex: VertexId) {
        self.dequeue_vertex(vertex);
        let thread = self.vertices[vertex].thread;
        self.threads[thread].move_vertex_to_head(&mut self.vertices, vertex);
        self.mark_vertex(vertex);
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

    /// Marks a vertex whose state or age has changed, if no agent has it.
    pub(crate) fn mark_vertex(&mut self, vertex: VertexId) {
        if self.vertices[vertex].is_free() {
            self.changed_vertices.push_back(vertex);
        }
    }

    /// Marks the vertices of a message that no agent has.
    pub(crate) fn mark_vertices_of(&mut self, message: MessageId) {
        self.vertices_of(message).into_iter().for_each(|vertex| self.mark_vertex(vertex));
    }

    /// Takes the next marked vertex that no agent has.
    pub(crate) fn next_changed_vertex(&mut self) -> Option<VertexId> {
        // The id of a vertex that is gone may belong to another one. Settling that does no harm.
        let mut changed = std::iter::from_fn(|| self.changed_vertices.pop_front());
        changed.find(|id| self.vertices.get(*id).is_some_and(Vertex::is_free))
    }

    /// Returns true if vertices are marked.
    pub(crate) fn has_changed_vertices(&self) -> bool {
        !self.changed_vertices.is_empty()
    }
}
