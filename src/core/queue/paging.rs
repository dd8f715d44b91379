//! Vertices and threads whose messages are paged out and loaded again.

use crate::admission::paged_message::PagedVertex;
use crate::admission::paging::RestoreAction;
use crate::queue::{Diagnosis, Queue, Retry, ThreadId, Vertex, VertexId, VertexState};
use std::rc::Rc;
use zsched_format::time::Timestamp;

impl Queue {
    /// Restores what a former process knew of a vertex.
    pub(crate) fn restore_attempts(
        &mut self,
        vertex: VertexId,
        attempts: u16,
        step: u8,
        diagnosis: Option<Rc<Diagnosis>>,
    ) {
        let vertex = &mut self.vertices[vertex];
        (vertex.attempts, vertex.reports, vertex.step) = (attempts, attempts, step);
        vertex.diagnosis = diagnosis;
    }

    /// The next time at which a waiting vertex needs work.
    ///
    /// `None` is only on request.
    pub(crate) fn next_work_time(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex_ref = &self.vertices[vertex];
        if vertex_ref.state == VertexState::Held {
            return self.messages.schedules.next_change_of(vertex_ref.message);
        }
        let thread = &self.threads[vertex_ref.thread];
        let wakeup =
            thread.waiting.wakeup(vertex_ref.wave).map(|time| self.to_present_clock(thread, time));
        let deadline = self.next_age_event(vertex);
        wakeup.into_iter().chain(deadline).min()
    }

    /// Own due time of a waiting vertex.
    ///
    /// `None` if it waits only for the destination.
    pub(crate) fn own_due(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex = &self.vertices[vertex];
        let waiting = &self.threads[vertex.thread].waiting;
        let is_own =
            vertex.state == VertexState::Waiting && !waiting.is_for_destination(vertex.wave);
        let due = waiting.wakeup(vertex.wave).filter(|_| is_own);
        due.map(|due| self.to_present_clock(&self.threads[vertex.thread], due))
    }

    /// Restores the state of a vertex from its record.
    pub(crate) fn restore_from_record(
        &mut self,
        vertex: VertexId,
        record: PagedVertex,
        diagnosis: Option<Rc<Diagnosis>>,
    ) {
        let vertex = &mut self.vertices[vertex];
        record.restore_to(vertex);
        vertex.diagnosis = diagnosis;
    }

    /// Sets what is known about the destination of a new thread.
    pub(crate) fn set_retry(&mut self, thread: ThreadId, retry: Retry) {
        self.threads[thread].retry = retry;
    }

    /// Restores another vertex of a message and thread like the first.
    pub(crate) fn restore_like(
        &mut self,
        vertex: VertexId,
        first: (VertexId, RestoreAction),
    ) -> RestoreAction {
        let (first, action) = first;
        let Vertex { attempts, reports, step, .. } = self.vertices[first];
        let diagnosis = self.vertices[first].diagnosis.clone();
        let vertex = &mut self.vertices[vertex];
        (vertex.attempts, vertex.reports, vertex.step) = (attempts, reports, step);
        vertex.diagnosis = diagnosis;
        action
    }
}
