//! Reports on unloaded recipients: agents read the control file themselves.

use crate::Scheduler;
use crate::admission::paged_message::PagedVertex;
use crate::admission::partial::PartialMessage;
use crate::dispatch::AgentId;
use crate::queue::{Diagnosis, FailureScope, MessageId, VertexId};
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

impl Scheduler {
    /// Returns the agent's present job if it covers unloaded recipients.
    ///
    /// It does if it is a job of this partial message, but not a packet: a packet names all its
    /// recipients.
    pub(crate) fn job_covering_unloaded(
        &self,
        agent: AgentId,
        message: MessageId,
    ) -> Option<VertexId> {
        let present = self.dispatch.agents[agent].jobs().next()?;
        let job = &self.queue.vertices[present];
        let is_it = job.message == message && !job.is_part() && self.is_partial(message);
        is_it.then_some(present)
    }

    /// Records recipients that left memory with a note.
    ///
    /// An agent whose reports lag behind may still report on them. Without the record they would
    /// pass for unloaded recipients.
    pub(crate) fn record_unloaded_finals(&mut self, message: MessageId, offsets: &[u32]) {
        if let Some(partial) = self.admission.partials.partial.get_mut(&message) {
            offsets.iter().for_each(|offset| partial.record_finished(*offset));
        }
    }

    /// Handles a report on an unloaded recipient of the present job.
    ///
    /// Returns false if the recipient cannot be an unloaded one.
    pub(crate) fn report_on_unloaded(
        &mut self,
        agent: AgentId,
        message: MessageId,
        report: &RecipientReport<'_>,
    ) -> bool {
        let Some(vertex) = self.job_covering_unloaded(agent, message) else {
            return false;
        };
        let partial = &self.admission.partials.partial[&message];
        if partial.finals.contains(&report.offset)
            || self.queue.vertices[vertex].recipients.has(report.offset)
        {
            // The agent repeats its report.
            return false;
        }
        self.count_report(agent, self.queue.vertices[vertex].thread);
        self.status_of_report(agent, vertex, report);
        match report.status {
            ReportStatus::Ok
            | ReportStatus::Ok2
            | ReportStatus::Ok3
            | ReportStatus::Error
            | ReportStatus::Error2 => {
                self.unloaded_finished(message, vertex, report);
            }
            ReportStatus::RetryAt | ReportStatus::DeferAll => {
                self.unloaded_deferred(agent, vertex, report);
                self.destination_deferred(agent, vertex, report);
            }
            _ => self.unloaded_deferred(agent, vertex, report),
        }
        true
    }

    fn unloaded_finished(
        &mut self,
        message: MessageId,
        vertex: VertexId,
        report: &RecipientReport<'_>,
    ) {
        self.recipient_answered(vertex, report);
        let failed = matches!(report.status, ReportStatus::Error | ReportStatus::Error2);
        self.counters.recipients_in += 1;
        self.counters.recipients_out += 1;
        self.record_final(vertex, report.status.word(), failed);
        // The reader of the next chunk does not know yet of a tag that the agent writes itself.
        let is_noted = matches!(report.status, ReportStatus::Ok | ReportStatus::Error);
        if let Some(partial) = self.admission.partials.partial.get_mut(&message)
            && (is_noted || partial.reading.is_some())
        {
            partial.record_finished(report.offset);
        }
    }

    fn unloaded_deferred(
        &mut self,
        agent: AgentId,
        vertex: VertexId,
        report: &RecipientReport<'_>,
    ) {
        let (message, thread) =
            (self.queue.vertices[vertex].message, self.queue.vertices[vertex].thread);
        let diagnosis = Diagnosis::new(report.notary, report.text());
        self.recipient_deferred(agent, vertex, &diagnosis);
        let (step, planned) =
            (self.queue.vertices[vertex].step, self.queue.vertices[vertex].planned);
        let (due, _) = self.next_due(vertex, FailureScope::of(&diagnosis.notary));
        self.keep_retry(thread, due);
        let text = self.admission.paging.keep_text(&diagnosis);
        let vertex = &mut self.queue.vertices[vertex];
        let to = &self.queue.threads[thread].destination;
        let learned = PagedVertex::new(to, vertex.attempts.max(1), true, text);
        let learned = learned.due_at(due, vertex.step);
        // The loaded recipients take this step when the job is over.
        (vertex.step, vertex.planned) = (step, planned);
        self.admission.keep_unloaded_state(message, learned, due);
    }
}
