//! Records for the status log.
//!
//! They have the result of each attempt, and recipients that end without one.
//!
//! A record is emitted before the actions that follow from the result. The addresses are in the
//! control file, so it must still be there when the line is composed. No records are made if there
//! is neither a status log nor a subscriber.

use crate::action::{Action, Attempt, StatusRecord, StatusVerdict};
use crate::context::Context;
use crate::dispatch::Agent;
use crate::queue::{AfterJob, Diagnosis, Queue, VertexId};
use std::rc::Rc;
use zsched_format::agent_protocol::ReportStatus;

/// Maximum length of a text in the status log, in bytes.
pub const MAX_STATUS_TEXT_LEN: usize = 2048;

/// What has happened to recipients of a vertex.
pub(crate) struct StatusChange<'a> {
    pub offsets: &'a [u32],
    pub verdict: StatusVerdict,
    /// The attempt that it comes from, if any.
    pub attempt: Option<Attempt>,
    pub notary: &'a [u8],
    pub text: &'a [u8],
}

impl<'a> StatusChange<'a> {
    /// A change that comes from no attempt.
    pub(crate) fn without_attempt(
        offsets: &'a [u32],
        verdict: StatusVerdict,
        text: &'a [u8],
    ) -> StatusChange<'a> {
        StatusChange { offsets, verdict, attempt: None, notary: b"", text }
    }
}

impl Queue {
    /// Counts a report, and the job if it is the first one in it.
    pub(crate) fn count_attempt(&mut self, vertex: VertexId) {
        let vertex_ref = &mut self.vertices[vertex];
        vertex_ref.reports = vertex_ref.reports.saturating_add(1);
        if std::mem::replace(&mut vertex_ref.is_counted, true) {
            return;
        }
        self.change_vertex(vertex, |vertex| {
            vertex.attempts = vertex.attempts.saturating_add(1);
            vertex.tried = true;
            if vertex.after_job == AfterJob::OneMoreTry {
                vertex.after_job = AfterJob::Usual;
            }
        });
        // It expires earlier, because `expiry2` no longer applies.
        self.mark_vertex(vertex);
    }

    /// Stores the diagnosis of a recipient that is not finished.
    pub(crate) fn record(&mut self, vertex: VertexId, diagnosis: Rc<Diagnosis>) {
        let vertex = &mut self.vertices[vertex];
        vertex.diagnosis = Some(diagnosis);
        vertex.reported = true;
    }

    /// Emits a record of a job without a report.
    pub(crate) fn status_unreported(
        &self,
        cx: &mut Context,
        attempt: Attempt,
        vertex: VertexId,
        text: &str,
    ) {
        let offsets = self.vertices[vertex].pending_offsets();
        let change = StatusChange {
            offsets: &offsets,
            verdict: StatusVerdict::Unreported,
            attempt: Some(attempt),
            notary: b"",
            text: text.as_bytes(),
        };
        self.status(cx, vertex, change);
    }

    /// Emits a record of recipients whose state has changed.
    pub(crate) fn status(&self, cx: &mut Context, vertex: VertexId, change: StatusChange<'_>) {
        let StatusChange { offsets, verdict, attempt, notary, text } = change;
        let is_needed = cx.settings.record_attempts || cx.has_subscribers;
        if !is_needed || offsets.is_empty() {
            return;
        }
        let vertex = &self.vertices[vertex];
        let message = &self.messages[vertex.message];
        let thread = &self.threads[vertex.thread];
        let others = match verdict {
            StatusVerdict::Report(ReportStatus::DeferAll | ReportStatus::RetryAt) => {
                thread.due.len()
            }
            _ => 0,
        };
        let record = StatusRecord {
            time: cx.now,
            name: message.name(),
            modified: message.modified,
            created: message.created,
            destination: thread.destination.clone(),
            offsets: offsets.into(),
            verdict,
            attempt,
            others: others as u32,
            notary: cut(notary),
            text: cut(text),
        };
        cx.act(Action::Status(Box::new(record)));
    }
}

/// An agent's attempt at its present job.
///
/// It begins when the agent was given the job, or had ended the one before, whichever is later.
pub(crate) fn present_attempt(agent: &Agent) -> Attempt {
    let began = agent.fed_at.map_or(agent.hungry_at, |fed_at| fed_at.max(agent.hungry_at));
    Attempt { pid: agent.pid, began }
}

fn cut(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(MAX_STATUS_TEXT_LEN)].into()
}
