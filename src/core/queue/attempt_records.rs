//! Records for the status log.
//!
//! They have the result of each attempt, and recipients that end without one.
//!
//! A record is emitted before the actions that follow from the result. The addresses are in the
//! control file, so it must still be there when the line is composed. No records are made if there
//! is neither a status log nor a subscriber.

use crate::Scheduler;
use crate::action::{Action, Attempt, StatusRecord, Verdict};
use crate::dispatch::{Agent, AgentId};
use crate::queue::VertexId;
use zsched_format::agent_protocol::{RecipientReport, ReportStatus};
use zsched_format::time::Timestamp;

/// Maximum length of a text in the status log, in bytes.
pub const MAX_STATUS_TEXT_LEN: usize = 2048;

impl Scheduler {
    /// Emits a record of an agent's report about a recipient.
    pub(crate) fn status_of_report(
        &mut self,
        agent: AgentId,
        vertex: VertexId,
        report: &RecipientReport<'_>,
    ) {
        let agent = &self.dispatch.agents[agent];
        let mut attempt = present_attempt(agent);
        if agent.jobs().next() != Some(vertex) {
            attempt.began =
                Timestamp::from_seconds(i64::from(self.queue.vertices[vertex].last_fed));
        }
        let (verdict, offsets) = (Verdict::Report(report.status), [report.offset]);
        self.status(vertex, &offsets, verdict, Some(attempt), report.notary, report.text());
    }

    /// Emits a record of a job without a report.
    pub(crate) fn status_unreported(&mut self, attempt: Attempt, vertex: VertexId, text: &str) {
        let offsets = self.queue.vertices[vertex].recipients.pending();
        let verdict = Verdict::Unreported;
        self.status(vertex, &offsets, verdict, Some(attempt), b"", text.as_bytes());
    }

    /// Emits a record of recipients whose state has changed, with the attempt if there was one.
    pub(crate) fn status(
        &mut self,
        vertex: VertexId,
        offsets: &[u32],
        verdict: Verdict,
        attempt: Option<Attempt>,
        notary: &[u8],
        text: &[u8],
    ) {
        let is_needed = self.settings.record_attempts || self.mode.has_subscribers;
        if !is_needed || offsets.is_empty() {
            return;
        }
        let vertex = &self.queue.vertices[vertex];
        let message = &self.queue.messages[vertex.message];
        let thread = &self.queue.threads[vertex.thread];
        let others = match verdict {
            Verdict::Report(ReportStatus::DeferAll | ReportStatus::RetryAt) => thread.due.len(),
            _ => 0,
        };
        let record = StatusRecord {
            time: self.now,
            name: message.name.clone(),
            modified: message.modified,
            created: message.created,
            destination: thread.destination.clone(),
            offsets: offsets.to_vec(),
            verdict,
            attempt,
            others: others as u32,
            notary: cut(notary),
            text: cut(text),
        };
        self.act(Action::Status(Box::new(record)));
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
