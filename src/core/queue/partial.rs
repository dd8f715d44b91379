//! Partial messages: some of their recipients are not loaded.

use crate::context::Context;
use crate::dispatch::{AgentId, Dispatch};
use crate::queue::{
    FailureScope, MessageFlag, MessageId, Queue, RingId, Vertex, VertexId, VertexState,
};
use zsched_format::time::Timestamp;

impl Queue {
    pub(crate) fn extend_vertex(&mut self, cx: &mut Context, vertex: VertexId, offsets: &[u32]) {
        let Vertex { message, thread, .. } = self.vertices[vertex];
        let count = self.change_vertex(vertex, |vertex| vertex.add_recipients(offsets));
        cx.counters.recipients_in += u64::from(count);
        self.messages[message].pending += count;
        self.adjust_recipients(thread, i64::from(count));
        if self.vertices[vertex].state == VertexState::Finished && count > 0 {
            // All loaded recipients are finished, but the agent still has the job.
            self.messages[message].vertices.push_back(&mut self.vertices, vertex);
            self.set_state(cx.now, vertex, VertexState::Fed);
        }
    }

    /// Makes a message partial, or whole again.
    pub(crate) fn set_partial(&mut self, message: MessageId, is_partial: bool) {
        self.messages[message].set(MessageFlag::Partial, is_partial);
        if !is_partial {
            self.unread.remove(&message);
        }
    }

    /// Sets the maximum number of unread recipients of a message.
    pub(crate) fn set_max_unread(&mut self, message: MessageId, recipients: u32) {
        self.unread.insert(message, recipients);
    }

    /// Sets the number of unread recipients in a message's job in a ring.
    pub(crate) fn expect_entries(&mut self, ring: RingId, message: MessageId, recipients: u32) {
        if let Some(jobs) = &mut self.rings[ring].jobs {
            jobs.expect(message, recipients);
        }
    }

    /// Keeps the place of a message's job in a ring while more of it is read.
    pub(crate) fn keep_place_while_read(&mut self, ring: RingId, message: MessageId) {
        if let Some(jobs) = &mut self.rings[ring].jobs {
            jobs.keep_place_while_read(message);
        }
    }

    /// Returns when unloaded recipients of a job are due after a deferral.
    ///
    /// Also returns the place in `retries` after that, which the loaded ones have not reached yet.
    pub(crate) fn due_of_unloaded(
        &mut self,
        cx: &mut Context,
        job: VertexId,
        scope: FailureScope,
    ) -> (Option<Timestamp>, u8) {
        let Vertex { step, planned, .. } = self.vertices[job];
        let (due, _) = self.next_due(cx, job, scope);
        let vertex = &mut self.vertices[job];
        let next_step = vertex.step;
        // The loaded recipients take this step when the job is over.
        (vertex.step, vertex.planned) = (step, planned);
        (due, next_step)
    }

    /// Marks vertices as parts of the recipients of a message for one thread.
    pub(crate) fn set_parts(&mut self, vertices: [VertexId; 2]) {
        vertices.into_iter().for_each(|vertex| self.vertices[vertex].set_part(true));
    }

    /// Returns true if a message is partial.
    pub(crate) fn is_partial(&self, message: MessageId) -> bool {
        self.messages[message].is(MessageFlag::Partial)
    }

    /// Returns the agent's present job if it covers unloaded recipients.
    ///
    /// It does if it is a job of this partial message, but not a packet: a packet names all its
    /// recipients.
    pub(crate) fn job_covering_unloaded(
        &self,
        dispatch: &Dispatch,
        agent: AgentId,
        message: MessageId,
        offset: u32,
    ) -> Option<VertexId> {
        let present = dispatch.agents()[agent].jobs().next()?;
        let job = &self.vertices[present];
        let message_ref = &self.messages[message];
        // An alternative that was added for a failed recipient, and that the core has not read yet.
        let is_added =
            message_ref.is(MessageFlag::HasAlternatives) && offset > message_ref.last_recipient;
        let may_cover = message_ref.is(MessageFlag::Partial) || is_added;
        (job.message == message && !job.is_part() && may_cover).then_some(present)
    }
}
