//! Unloading of deferred recipients, and the end of the file.
//!
//! At the end of the file the message is paged out, or done.

use crate::Scheduler;
use crate::action::Action;
use crate::admission::Admission;
use crate::admission::paged_message::{PagedMessage, PagedVertex};
use crate::admission::partial::LOCKED_RETRY_INTERVAL;
use crate::queue::{AfterJob, MessageId, VertexId, VertexState};
use zsched_format::time::Timestamp;

/// Maximum number of destinations of a message whose retry state is kept.
const MAX_UNLOADED_DESTINATIONS: usize = 200_000;

impl Scheduler {
    /// Unloads the waiting recipients of a message.
    pub(super) fn unload_waiting(&mut self, message: MessageId) {
        for vertex in self.queue.vertices_of(message) {
            let vertex_ref = self.queue.vertex(vertex);
            if vertex_ref.state == VertexState::Waiting && vertex_ref.after_job == AfterJob::Usual {
                self.unload_waiting_vertex(vertex);
            }
        }
    }

    fn unload_waiting_vertex(&mut self, vertex: VertexId) {
        // What its age demands now would otherwise have it read again at once.
        if self.has_expired(vertex) {
            return;
        }
        let until = self.queue.next_work_time(vertex);
        let (record, message) =
            (self.admission.paged_record(&self.queue, vertex), self.queue.vertex(vertex).message);
        // The recipients are counted again when they are read again.
        self.cx.counters.recipients_in -= u64::from(self.queue.vertex(vertex).pending());
        self.admission.evict_vertex(
            &mut self.queue,
            &mut self.dispatch,
            &mut self.cx,
            vertex,
            until,
        );
        self.admission.keep_unloaded_state(message, record, until);
    }

    /// Ends a pass over the file. Nothing of the message is in progress.
    pub(super) fn end_pass(&mut self, message: MessageId) {
        let partial = &self.admission.partials.partial[&message];
        let until = match (partial.restarts, partial.left) {
            (true, _) => Some(self.cx.now),
            (false, None) => {
                return self.admission.end_partial(&mut self.queue, message);
            }
            // A removal ends deferred recipients when they are read again. Recipients that other
            // processes have locked are not read yet.
            (false, Some(left)) if self.is_to_end(message) => {
                Some(left.min(self.cx.now + LOCKED_RETRY_INTERVAL))
            }
            (false, Some(left)) => Some(left).filter(|left| left.nanoseconds() < i64::MAX),
        };
        let record = PagedMessage {
            modified: self.queue.message(message).modified,
            recipients: 0,
            is_scheduled: false,
            vertices: partial.learned.values().map(|(vertex, _)| *vertex).collect(),
        };
        self.admission.end_partial(&mut self.queue, message);
        let name = self.queue.message(message).name();
        self.queue.remove_message(message);
        self.cx.act(Action::PageOut { name, until, record: Box::new(record) });
    }
}

impl Admission {
    pub(crate) fn keep_unloaded_state(
        &mut self,
        message: MessageId,
        of: PagedVertex,
        until: Option<Timestamp>,
    ) {
        let Some(partial) = self.partials.partial.get_mut(&message) else {
            return;
        };
        let until = until.unwrap_or(Timestamp::from_nanoseconds(i64::MAX));
        partial.left = Some(partial.left.map_or(until, |left| left.min(until)));
        if partial.learned.len() < MAX_UNLOADED_DESTINATIONS
            || partial.learned.contains_key(&of.key())
        {
            partial.learned.insert(of.key(), (of, true));
        }
    }
}
