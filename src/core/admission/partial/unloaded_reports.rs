//! Reports on unloaded recipients: agents read the control file themselves.

use crate::admission::Admission;
use crate::admission::paged_message::PagedVertex;
use crate::admission::partial::PartialMessage;
use crate::context::Context;
use crate::dispatch::{AgentId, Dispatch};
use crate::queue::{Diagnosis, FailureScope, MessageId, Queue, VertexId};
use std::rc::Rc;
use zsched_format::agent_protocol::{RecipientReport, ReportStatus};

/// Maximum number of finished offsets kept for a message.
///
/// Beyond it all of them are dropped. If a chunk is being read, the file is then read again from
/// the beginning.
const MAX_FINISHED_OFFSETS: usize = 10_000;

impl PartialMessage {
    fn record_finished(&mut self, offset: u32) {
        if self.finals.len() >= MAX_FINISHED_OFFSETS {
            self.restarts |= self.reading.is_some();
            self.finals.clear();
        }
        self.finals.insert(offset);
    }
}

impl Queue {
    /// Returns the agent's present job if it covers unloaded recipients.
    ///
    /// It does if it is a job of this partial message, but not a packet: a packet names all its
    /// recipients.
    pub(crate) fn job_covering_unloaded(
        &self,
        dispatch: &Dispatch,
        agent: AgentId,
        message: MessageId,
    ) -> Option<VertexId> {
        let present = dispatch.agents[agent].jobs().next()?;
        let job = &self.vertices[present];
        let covers = job.message == message && !job.is_part() && self.is_partial(message);
        covers.then_some(present)
    }
}

impl Admission {
    /// Records recipients that left memory with a note.
    ///
    /// An agent whose reports lag behind may still report on them. Without the record they would
    /// pass for unloaded recipients.
    pub(crate) fn record_unloaded_finals(&mut self, message: MessageId, offsets: &[u32]) {
        if let Some(partial) = self.partials.partial.get_mut(&message) {
            offsets.iter().for_each(|offset| partial.record_finished(*offset));
        }
    }

    /// Returns true if a job may cover an unloaded recipient at `offset`.
    ///
    /// It does not if the recipient is final: then the agent repeats its report.
    pub(crate) fn may_be_unloaded(
        &self,
        queue: &Queue,
        message: MessageId,
        job: VertexId,
        offset: u32,
    ) -> bool {
        let partial = &self.partials.partial[&message];
        !partial.finals.contains(&offset) && !queue.vertices[job].recipients.has(offset)
    }

    /// Finishes an unloaded recipient of a job.
    pub(crate) fn finish_unloaded(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        job: VertexId,
        report: &RecipientReport<'_>,
        failed: bool,
    ) {
        let message = queue.vertices[job].message;
        cx.counters.recipients_in += 1;
        cx.counters.recipients_out += 1;
        queue.record_final(cx, job, report.status.word(), failed);
        // The reader of the next chunk does not know yet of a tag that the agent writes itself.
        let is_noted = matches!(report.status, ReportStatus::Ok | ReportStatus::Error);
        if let Some(partial) = self.partials.partial.get_mut(&message)
            && (is_noted || partial.reading.is_some())
        {
            partial.record_finished(report.offset);
        }
    }

    /// Keeps the retry state of the unloaded recipients of a job after a deferral.
    pub(crate) fn defer_unloaded(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        job: VertexId,
        diagnosis: &Rc<Diagnosis>,
    ) {
        let (message, thread) = (queue.vertices[job].message, queue.vertices[job].thread);
        let (step, planned) = (queue.vertices[job].step, queue.vertices[job].planned);
        let (due, _) = queue.next_due(cx, job, FailureScope::of(&diagnosis.notary));
        self.keep_retry(queue, dispatch, cx, thread, due);
        let text = self.paging.keep_text(diagnosis);
        let vertex = &mut queue.vertices[job];
        let to = &queue.threads[thread].destination;
        let learned = PagedVertex::new(to, vertex.attempts, true, text);
        let learned = learned.due_at(due, vertex.step);
        // The loaded recipients take this step when the job is over.
        (vertex.step, vertex.planned) = (step, planned);
        self.keep_unloaded_state(message, learned, due);
    }
}
