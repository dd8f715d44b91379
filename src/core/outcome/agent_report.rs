//! The meaning of an agent's report about a recipient (ZMailer `update.c`).
//!
//! The status words are those of `man/transport-agent.7`.

use crate::Scheduler;
use crate::context::Context;
use crate::dispatch::AgentId;
use crate::outcome::notes::{NoteContent, Notes};
use crate::queue::{Diagnosis, MessageFlag, MessageId, Queue, VertexId, VertexState};
use log::Level;
use smallvec::smallvec;
use std::rc::Rc;
use zsched_format::agent_protocol::{RecipientReport, ReportStatus};
use zsched_format::control_file::Tag;
use zsched_spool::note::OutcomeKind;

/// The recipient that an agent's report is about.
#[derive(Clone, Copy)]
enum ReportedRecipient {
    /// One of this vertex.
    Loaded(VertexId),
    /// One that is only in the control file.
    ///
    /// The agent has read it there for this job.
    Unloaded(VertexId),
}

impl ReportedRecipient {
    fn vertex(self) -> VertexId {
        match self {
            ReportedRecipient::Loaded(vertex) | ReportedRecipient::Unloaded(vertex) => vertex,
        }
    }
}

impl Scheduler {
    /// Processes what an agent has reported about a recipient.
    pub(crate) fn agent_reported(&mut self, agent: AgentId, report: &RecipientReport<'_>) {
        if self.dispatch.has_forgotten_job(&self.queue, agent, report.number) {
            let text = format!("reports about {}, which is gone from the spool", report.number);
            return self.log_about_agent(agent, Level::Info, text);
        }
        let Some(message) = self.queue.messages().find(report.number) else {
            let text = format!("reports about {}, which is not loaded", report.number);
            return self.log_about_agent(agent, Level::Info, text);
        };
        let Some(recipient) = self.find_recipient(agent, message, report.offset) else {
            let id = self.queue.message(message).spool_id();
            let text = format!("reports about offset {} of {id}: no such recipient", report.offset);
            return self.log_about_agent(agent, Level::Info, text);
        };
        self.count_report(agent, recipient, report);
        self.dispatch.status_of_report(
            &mut self.queue,
            &mut self.cx,
            agent,
            recipient.vertex(),
            report,
        );
        match report.status {
            ReportStatus::Ok
            | ReportStatus::Ok2
            | ReportStatus::Ok3
            | ReportStatus::Error
            | ReportStatus::Error2 => self.recipient_ended(recipient, report),
            ReportStatus::Deferred | ReportStatus::DeferBack => {
                let diagnosis = diagnosis_of(report);
                self.queue.recipient_deferred(
                    &mut self.cx,
                    self.dispatch.agents()[agent].pid,
                    recipient.vertex(),
                    &diagnosis,
                );
                self.record_deferral(recipient, diagnosis);
            }
            ReportStatus::RetryAt | ReportStatus::DeferAll => {
                // Its diagnosis is also that of the loaded recipients.
                self.queue.destination_deferred(
                    &mut self.cx,
                    self.dispatch.agents()[agent].pid,
                    recipient.vertex(),
                    report,
                );
                if let ReportedRecipient::Unloaded(job) = recipient {
                    self.admission.defer_unloaded(
                        &mut self.queue,
                        &self.dispatch,
                        &mut self.cx,
                        job,
                        &diagnosis_of(report),
                    );
                }
            }
            ReportStatus::Unknown => self.unknown_status(agent, recipient, report),
        }
    }

    /// Counts a report for its agent, its thread and its vertex.
    fn count_report(
        &mut self,
        agent: AgentId,
        recipient: ReportedRecipient,
        report: &RecipientReport<'_>,
    ) {
        let vertex = recipient.vertex();
        let thread = self.queue.vertex(vertex).thread;
        self.queue.count_report(&mut self.cx, thread);
        let is_loaded = matches!(recipient, ReportedRecipient::Loaded(_));
        let loaded = is_loaded.then_some(vertex);
        self.dispatch.count_report(self.cx.now, agent, loaded, report.status);
        self.dispatch.learn_relay_of_report(&mut self.queue, &mut self.cx, thread, report.notary);
        self.queue.count_attempt(vertex);
    }

    /// Processes a delivery or failure: the recipient is final.
    fn recipient_ended(&mut self, recipient: ReportedRecipient, report: &RecipientReport<'_>) {
        self.recipient_answered(recipient.vertex(), report);
        let failed = report.status.tag() == Tag::Failed;
        match recipient {
            ReportedRecipient::Loaded(vertex) => self.queue.finish_recipient(
                &mut self.cx,
                vertex,
                report.offset,
                report.status.word(),
                failed,
            ),
            ReportedRecipient::Unloaded(vertex) => self.admission.finish_unloaded(
                &mut self.queue,
                &mut self.cx,
                vertex,
                report,
                failed,
            ),
        }
    }

    /// Stores the diagnosis of a deferred recipient.
    ///
    /// A vertex waits as soon as the agent has ended the job.
    fn record_deferral(&mut self, recipient: ReportedRecipient, diagnosis: Rc<Diagnosis>) {
        match recipient {
            ReportedRecipient::Loaded(vertex) => self.queue.record(vertex, diagnosis),
            ReportedRecipient::Unloaded(vertex) => self.admission.defer_unloaded(
                &mut self.queue,
                &self.dispatch,
                &mut self.cx,
                vertex,
                &diagnosis,
            ),
        }
    }

    /// Finds the pending recipient at `offset`.
    ///
    /// Usually it is in the agent's present job, but agents may report about others, too.
    fn find_recipient(
        &self,
        agent: AgentId,
        message: MessageId,
        offset: u32,
    ) -> Option<ReportedRecipient> {
        let has_recipient = |vertex: &VertexId| {
            let vertex = self.queue.vertex(*vertex);
            vertex.state != VertexState::Finished
                && vertex.message == message
                && vertex.is_pending(offset)
        };
        if let Some(job) = self.queue.job_covering_unloaded(&self.dispatch, agent, message, offset)
        {
            // A recipient that is not loaded is in no other vertex, so thousands need not be
            // searched.
            let loaded = Some(job).filter(has_recipient).map(ReportedRecipient::Loaded);
            let may_be_unloaded =
                || self.admission.may_be_unloaded(&self.queue, message, job, offset);
            return loaded
                .or_else(|| may_be_unloaded().then_some(ReportedRecipient::Unloaded(job)));
        }
        let present_job = self.dispatch.agents()[agent].jobs().next().filter(has_recipient);
        let vertices = &self.queue.message(message).vertices;
        let vertex =
            present_job.or_else(|| vertices.iter(self.queue.vertices()).find(has_recipient));
        vertex.map(ReportedRecipient::Loaded)
    }

    /// Records that a host has accepted or rejected a recipient, and what the sender is owed.
    fn recipient_answered(&mut self, vertex: VertexId, report: &RecipientReport<'_>) {
        let message = self.queue.vertex(vertex).message;
        match report.status {
            ReportStatus::Ok => self.notes.note_report(
                &mut self.queue,
                &mut self.cx,
                message,
                report,
                OutcomeKind::Success,
            ),
            ReportStatus::Error => self.notes.note_report(
                &mut self.queue,
                &mut self.cx,
                message,
                report,
                OutcomeKind::Failure,
            ),
            // The agent has written the `d` line.
            ReportStatus::Ok2 | ReportStatus::Error2 => {
                self.queue.message_mut(message).set(MessageFlag::OwesReport, true)
            }
            _ => {}
        }
        if report.status.tag() == Tag::Failed {
            self.notes.mark_failed_alternative(
                &mut self.queue,
                &mut self.cx,
                message,
                report.offset,
            );
        }
        self.queue.host_answered(&mut self.cx, self.queue.vertex(vertex).thread);
    }

    /// Logs a report without a known result; an earlier diagnosis stays.
    fn unknown_status(
        &mut self,
        agent: AgentId,
        recipient: ReportedRecipient,
        report: &RecipientReport<'_>,
    ) {
        let vertex = self.queue.vertex(recipient.vertex());
        let id = self.queue.message(vertex.message).spool_id();
        let log = format!("reports about offset {} of {id}: unknown status word", report.offset);
        let text = "the agent reported an unknown status";
        let known = vertex.diagnosis.clone();
        let diagnosis = known.unwrap_or_else(|| Diagnosis::of_scheduler(text));
        self.record_deferral(recipient, diagnosis);
        self.log_about_agent(agent, Level::Warn, log);
    }
}

impl Notes {
    fn note_report(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        message: MessageId,
        report: &RecipientReport<'_>,
        occasion: OutcomeKind,
    ) {
        let content = NoteContent {
            offsets: smallvec![report.offset],
            occasion,
            notary: report.notary.into(),
            text: report.message.into(),
        };
        self.note(queue, cx, message, content);
    }
}

/// The diagnosis in a report.
pub(crate) fn diagnosis_of(report: &RecipientReport<'_>) -> Rc<Diagnosis> {
    Diagnosis::new(report.notary, report.text())
}
