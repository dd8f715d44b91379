//! The meaning of an agent's report about a recipient (ZMailer `update.c`).
//!
//! The status words are those of `man/transport-agent.7`.

use super::Scheduler;
use super::agent::AgentId;
use super::message::MessageId;
use super::put_off::Lesson;
use super::retry::HOST_DOWN_WAIT;
use super::thread::ThreadId;
use super::unreachable::{Block, Cause};
use super::vertex::{Diagnosis, Fate, Place, VertexId};
use super::window::Heard;
use log::Level;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::agent_protocol::{Report, Status};
use zsched_format::time::Timestamp;
use zsched_spool::note::Occasion;

/// Largest `retryat` number that is relative to now.
///
/// A larger one is a time since the epoch. Both are in seconds.
const LONGEST_RELATIVE_RETRY: i64 = 100_000;

/// Maximum time for which a report can block a destination.
///
/// It also limits mistakes of agents.
pub(super) const MAX_BLOCK: Duration = Duration::from_secs(86_400);

/// The final state of a recipient.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Final {
    /// Word for the statistics log.
    pub state: &'static str,
    /// It counts as a failure.
    pub failed: bool,
}

impl Scheduler {
    pub(super) fn report(&mut self, now: Timestamp, agent: AgentId, report: &Report<'_>) {
        if self.has_forgotten_job(agent, report.number) {
            let text = format!("report about {}, which is gone from the spool", report.number);
            return self.remark(now, agent, Level::Info, text);
        }
        let Some(message) = self.messages.find(report.number) else {
            let text = format!("report about {}, which is not loaded", report.number);
            return self.remark(now, agent, Level::Info, text);
        };
        let Some(vertex) = self.find_recipient(agent, message, report.offset) else {
            if self.report_of_absent(now, agent, message, report) {
                return;
            }
            let id = self.messages[message].spool_id();
            let text = format!("{id}: report about offset {}: no such recipient", report.offset);
            return self.remark(now, agent, Level::Info, text);
        };
        self.settle_clock(self.vertices[vertex].thread);
        let agent_ref = self.agents.get_mut(&agent).expect("agent_said has found it");
        agent_ref.progress_at = now;
        agent_ref.heard = agent_ref.heard.and(match report.status {
            Status::DeferAll => Heard::Failure,
            Status::Unknown => Heard::Nothing,
            _ => Heard::Answer,
        });
        match report.status {
            Status::Ok | Status::Ok2 | Status::Ok3 | Status::Error | Status::Error2 => {
                agent_ref.has_finished = true;
            }
            _ if agent_ref.jobs().next() == Some(vertex) => agent_ref.deferrals += 1,
            _ => {}
        }
        self.learn_relay(now, self.vertices[vertex].thread, report.notary);
        let thread = &mut self.threads[self.vertices[vertex].thread];
        thread.deaths = 0;
        thread.attempts = thread.attempts.saturating_add(1);
        self.count_attempt(vertex);
        if self.vertices[vertex].place != Place::Fed {
            self.watch_expiry(now, vertex);
        }
        self.log_outcome(vertex, report);
        self.status_of_report(now, agent, vertex, report);
        match report.status {
            Status::Ok | Status::Ok2 | Status::Ok3 => self.delivered(now, vertex, report),
            Status::Error | Status::Error2 => self.failed(now, vertex, report),
            Status::Deferred | Status::DeferBack => self.deferred(now, agent, vertex, report),
            Status::RetryAt => self.retry_at(now, agent, vertex, report),
            Status::DeferAll => self.defer_all(now, agent, vertex, report),
            Status::Unknown => self.unknown_status(now, agent, vertex, report),
        }
    }

    /// Returns true if an agent's report is about a forgotten message.
    ///
    /// Its reports about the number are then not about a message that was given the number since.
    fn has_forgotten_job(&self, agent: AgentId, number: u64) -> bool {
        self.agents[&agent].jobs().any(|vertex| {
            let message = &self.messages[self.vertices[vertex].message];
            message.forgotten && message.name.number() == number
        })
    }

    /// The vertex of the pending recipient at `offset`.
    ///
    /// Usually it is the agent's present job, but agents may report about other recipients, too.
    fn find_recipient(&self, agent: AgentId, message: MessageId, offset: u32) -> Option<VertexId> {
        let is_it = |vertex: &VertexId| {
            let vertex = &self.vertices[*vertex];
            vertex.place != Place::Spent
                && vertex.message == message
                && vertex.recipients.is_pending(offset)
        };
        if let Some(job) = self.job_of_absent(agent, message) {
            // A recipient that is not loaded is in no other vertex, so thousands need not be
            // searched.
            return Some(job).filter(is_it);
        }
        let present_job = self.agents[&agent].jobs().next().filter(is_it);
        present_job.or_else(|| self.messages[message].vertices.iter(&self.vertices).find(is_it))
    }

    fn log_outcome(&mut self, vertex: VertexId, report: &Report<'_>) {
        if !self.settings.log_outcomes {
            return;
        }
        let vertex = &self.vertices[vertex];
        let id = self.messages[vertex.message].spool_id();
        let destination = &self.threads[vertex.thread].destination;
        let text = String::from_utf8_lossy(report.message);
        let (offset, status) = (report.offset, report.status.word());
        let line = format!("{id}: offset={offset} thread={destination} status={status} {text}");
        self.log(Level::Debug, line);
    }

    fn delivered(&mut self, now: Timestamp, vertex: VertexId, report: &Report<'_>) {
        let message = self.vertices[vertex].message;
        match report.status {
            // The agent has written the `d` line.
            Status::Ok2 => self.messages[message].owes_report = true,
            Status::Ok => self.note_report(now, message, report, Occasion::Success),
            _ => {}
        }
        self.contact_made(now, self.vertices[vertex].thread);
        let outcome = Final { state: report.status.word(), failed: false };
        self.finish_recipient(vertex, report.offset, outcome);
    }

    fn failed(&mut self, now: Timestamp, vertex: VertexId, report: &Report<'_>) {
        let message = self.vertices[vertex].message;
        match report.status {
            Status::Error => self.note_report(now, message, report, Occasion::Failure),
            _ => self.messages[message].owes_report = true,
        }
        self.contact_made(now, self.vertices[vertex].thread);
        let outcome = Final { state: report.status.word(), failed: true };
        self.finish_recipient(vertex, report.offset, outcome);
    }

    /// Processes a deferral.
    ///
    /// The vertex waits as soon as the agent has ended the job.
    fn deferred(&mut self, now: Timestamp, agent: AgentId, vertex: VertexId, report: &Report<'_>) {
        let diagnosis = diagnosis_of(report);
        self.contact_failed(now, agent, vertex, &diagnosis);
        self.record(vertex, diagnosis);
    }

    pub(super) fn note_report(
        &mut self,
        now: Timestamp,
        message: MessageId,
        report: &Report<'_>,
        occasion: Occasion,
    ) {
        let (notary, text) = (report.notary.into(), report.message.into());
        self.note(now, message, vec![report.offset], occasion, notary, text);
    }

    pub(super) fn count_attempt(&mut self, vertex: VertexId) {
        let vertex = &mut self.vertices[vertex];
        vertex.attempts = vertex.attempts.saturating_add(1);
        vertex.tried = true;
        if vertex.fate == Fate::OneMoreTry {
            vertex.fate = Fate::Usual;
        }
    }

    /// Stores the diagnosis of a recipient that is not finished.
    pub(super) fn record(&mut self, vertex: VertexId, diagnosis: Rc<Diagnosis>) {
        let vertex = &mut self.vertices[vertex];
        vertex.diagnosis = Some(diagnosis);
        vertex.reported = true;
    }

    /// Blocks the destination until the time that the agent has named.
    pub(super) fn retry_at(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        vertex: VertexId,
        report: &Report<'_>,
    ) {
        let thread = self.vertices[vertex].thread;
        let diagnosis = diagnosis_of(report);
        let cause = self.cause(now, Some(agent), vertex, Some(&diagnosis));
        self.record(vertex, diagnosis);
        let until = match report.retry_seconds() {
            Some(seconds) if seconds > LONGEST_RELATIVE_RETRY => Timestamp::from_seconds(seconds),
            Some(seconds) => now + Duration::from_secs(seconds.unsigned_abs()),
            None => now,
        };
        let until = until.min(now + MAX_BLOCK);
        self.block_thread(now, thread, (until, Block::AgentAsked), Some(cause), Lesson::None);
    }

    /// Defers the whole thread with this diagnosis: the host cannot be reached.
    pub(super) fn defer_all(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        vertex: VertexId,
        report: &Report<'_>,
    ) {
        let thread = self.vertices[vertex].thread;
        let diagnosis = diagnosis_of(report);
        self.record(vertex, diagnosis.clone());
        if self.flow(thread).is_patient() {
            // The window decides if that applies to the other recipients.
            return;
        }
        let cause = self.cause(now, Some(agent), vertex, Some(&diagnosis));
        self.put_off(now, thread, (now + HOST_DOWN_WAIT, Block::HostDown), Some(cause));
    }

    /// Makes a whole thread wait until at least the given time.
    ///
    /// What is due in it counts as tried, with the diagnosis of the one recipient.
    pub(super) fn put_off(
        &mut self,
        now: Timestamp,
        thread: ThreadId,
        (until, block): (Timestamp, Block),
        cause: Option<Rc<Cause>>,
    ) {
        let diagnosis = cause.as_ref().and_then(|cause| cause.diagnosis.clone());
        self.block_thread(now, thread, (until, block), cause, Lesson::Tried(diagnosis));
    }

    /// Counts an attempt with an unknown result; an earlier diagnosis stays.
    fn unknown_status(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        vertex: VertexId,
        report: &Report<'_>,
    ) {
        let vertex = &mut self.vertices[vertex];
        vertex.reported = true;
        let text = "the agent reported a status that nobody knows";
        vertex.diagnosis.get_or_insert_with(|| Diagnosis::of_scheduler(text));
        let id = self.messages[vertex.message].spool_id();
        let text = format!("{id}: report about offset {}: unknown status word", report.offset);
        self.remark(now, agent, Level::Warn, text);
    }
}

fn diagnosis_of(report: &Report<'_>) -> Rc<Diagnosis> {
    Diagnosis::new(report.notary, report.text())
}
