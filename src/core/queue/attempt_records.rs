//! Records for the status log.
//!
//! They have the result of each attempt, and recipients that end without one.
//!
//! A record is emitted before the actions that follow from the result. The addresses are in the
//! control file, so it must still be there when the line is composed. No records are made if there
//! is neither a status log nor a subscriber.

use crate::Scheduler;
use crate::action::{Action, Attempt, StatusRecord, Verdict};
use crate::dispatch::agent::{Agent, AgentId};
use crate::queue::vertex::VertexId;
use zsched_format::agent_protocol::{RecipientReport, ReportStatus};
use zsched_format::time::Timestamp;

/// Maximum length of a text in the status log, in bytes.
pub const MAX_STATUS_TEXT_LEN: usize = 2048;

impl Scheduler {
    /// Returns true if records are needed.
    fn needs_status(&self) -> bool {
        self.settings.status_log || self.mode.has_subscribers
    }

    /// Emits a record of an agent's report about a recipient.
    pub(crate) fn status_of_report(
        &mut self,
        agent: AgentId,
        vertex: VertexId,
        report: &RecipientReport<'_>,
    ) {
        if !self.needs_status() {
            return;
        }
        let puts_off = matches!(report.status, ReportStatus::DeferAll | ReportStatus::RetryAt);
        let others = match puts_off {
            true => self.queue.threads[self.queue.vertices[vertex].thread].due.len(),
            false => 0,
        };
        let agent = &self.dispatch.agents[agent];
        let mut attempt = present_attempt(agent);
        if agent.jobs().next() != Some(vertex) {
            attempt.began =
                Timestamp::from_seconds(i64::from(self.queue.vertices[vertex].last_fed));
        }
        let record = StatusRecord {
            others: others as u32,
            attempt: Some(attempt),
            notary: cut(report.notary),
            text: cut(report.text()),
            ..self.status_record(vertex, vec![report.offset], Verdict::Report(report.status))
        };
        self.act(Action::Status(Box::new(record)));
    }

    /// Emits a record of a job without a report.
    pub(crate) fn status_of_missing_report(
        &mut self,
        attempt: Attempt,
        vertex: VertexId,
        text: &str,
    ) {
        if !self.needs_status() {
            return;
        }
        let offsets = self.queue.vertices[vertex].recipients.pending();
        let record = StatusRecord {
            attempt: Some(attempt),
            text: cut(text.as_bytes()),
            ..self.status_record(vertex, offsets, Verdict::Unreported)
        };
        self.act(Action::Status(Box::new(record)));
    }

    /// Emits a record of recipients that end without an attempt.
    pub(crate) fn status_of_end(
        &mut self,
        vertex: VertexId,
        offsets: &[u32],
        verdict: Verdict,
        notary: &[u8],
        text: &[u8],
    ) {
        if !self.needs_status() || offsets.is_empty() {
            return;
        }
        let record = StatusRecord {
            notary: cut(notary),
            text: cut(text),
            ..self.status_record(vertex, offsets.to_vec(), verdict)
        };
        self.act(Action::Status(Box::new(record)));
    }

    fn status_record(&self, vertex: VertexId, offsets: Vec<u32>, verdict: Verdict) -> StatusRecord {
        let vertex = &self.queue.vertices[vertex];
        let message = &self.queue.messages[vertex.message];
        StatusRecord {
            time: self.now,
            name: message.name.clone(),
            modified: message.modified,
            created: message.created,
            destination: self.queue.threads[vertex.thread].destination.clone(),
            offsets,
            verdict,
            attempt: None,
            others: 0,
            notary: Box::default(),
            text: Box::default(),
        }
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
