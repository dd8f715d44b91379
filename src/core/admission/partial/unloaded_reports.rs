//! Reports on unloaded recipients: agents read the control file themselves.

use crate::admission::Admission;
use crate::admission::paged_message::PagedVertex;
use crate::admission::partial::PartialMessage;
use crate::context::Context;
use crate::dispatch::Dispatch;
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
        let partial = self.partials.get(message);
        partial.is_none_or(|partial| !partial.finals.contains(&offset))
            && !queue.vertex(job).has_recipient(offset)
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
        let message = queue.vertex(job).message;
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
        let (message, thread) = (queue.vertex(job).message, queue.vertex(job).thread);
        if self.partials.get(message).is_none() {
            // An added alternative is queued when the file is read again.
            return;
        }
        let scope = FailureScope::of(&diagnosis.notary);
        let (due, step) = queue.due_of_unloaded(cx, job, scope);
        self.keep_retry(queue, dispatch, cx, thread, due);
        let text = self.keep_text(diagnosis);
        let to = &queue.thread(thread).destination;
        let learned = PagedVertex::new(to, queue.vertex(job).attempts, true, text);
        let learned = learned.due_at(due, step);
        self.keep_unloaded_state(message, learned, due);
    }
}
