//! What the reports of agents change in them.

use crate::action::StatusVerdict;
use crate::context::Context;
use crate::dispatch::agent_log::StrayLines;
use crate::dispatch::window::DeliverySignal;
use crate::dispatch::{AgentId, AgentState, Dispatch, Owed};
use crate::queue::attempt_records::{StatusChange, present_attempt};
use crate::queue::{MessageFlag, Queue, VertexId};
use zsched_format::agent_protocol::{RecipientReport, ReportStatus};
use zsched_format::control_file::Tag;
use zsched_format::time::Timestamp;

impl Dispatch {
    /// Takes what a `#hungry` of an agent answers; `None` if it answers nothing.
    pub(crate) fn take_answer(&mut self, now: Timestamp, agent: AgentId) -> Option<Owed> {
        let agent_ref = &mut self.agents[agent];
        let answered = agent_ref.owed.pop_front()?;
        agent_ref.progress_at = now;
        agent_ref.deferrals = 0;
        if !agent_ref.is_alive() {
            // Without jobs it has less time to end.
            self.agents.mark(agent);
        }
        Some(answered)
    }

    /// Processes the `#hungry` of an agent after what it answers.
    ///
    /// The agent is fed again when it has answered everything that it was given.
    pub(crate) fn asks_for_work(&mut self, queue: &mut Queue, cx: &mut Context, agent: AgentId) {
        let agent_ref = &mut self.agents[agent];
        (agent_ref.hungry_at, agent_ref.stray_lines) = (cx.now, StrayLines::default());
        if agent_ref.owed.is_empty() && agent_ref.is_alive() {
            match agent_ref.state() {
                AgentState::Parking => self.park(queue, cx, agent),
                _ => self.hungry_agents.push_back(agent),
            }
        }
    }

    /// Takes the mark of an agent that has found nothing to do in its present job.
    pub(crate) fn take_found_nothing(&mut self, agent: AgentId) -> bool {
        std::mem::take(&mut self.agents[agent].found_nothing)
    }

    /// Counts a report of an agent about a recipient.
    ///
    /// The recipient is of a vertex if its message is loaded.
    pub(crate) fn count_report(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        vertex: Option<VertexId>,
        status: ReportStatus,
    ) {
        let agent = &mut self.agents[agent];
        agent.progress_at = now;
        agent.signal = agent.signal.max(match status {
            ReportStatus::DeferAll => DeliverySignal::Failure,
            ReportStatus::Unknown => DeliverySignal::Nothing,
            _ => DeliverySignal::Answer,
        });
        match status.tag() {
            Tag::Done | Tag::Failed => agent.has_finished = true,
            _ if vertex.is_some() && agent.jobs().next() == vertex => agent.deferrals += 1,
            _ => {}
        }
    }

    /// Records that an agent has found nothing to do in its present job.
    pub(crate) fn found_nothing(&mut self, agent: AgentId) {
        self.agents[agent].found_nothing = true;
    }

    /// Returns true if an agent's report is about a forgotten message.
    ///
    /// Its reports about the number are then not about a message that was given the number since.
    pub(crate) fn has_forgotten_job(&self, queue: &Queue, agent: AgentId, number: u64) -> bool {
        let is_forgotten_job = |vertex| {
            let message = queue.message(queue.vertex(vertex).message);
            message.is(MessageFlag::Forgotten) && message.number() == number
        };
        queue.messages().has_forgotten() && self.agents[agent].jobs().any(is_forgotten_job)
    }

    /// Emits a record of an agent's report about a recipient.
    pub(crate) fn status_of_report(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        agent: AgentId,
        vertex: VertexId,
        report: &RecipientReport<'_>,
    ) {
        let agent = &self.agents[agent];
        let mut attempt = present_attempt(agent);
        if agent.jobs().next() != Some(vertex) {
            attempt.began = Timestamp::from_seconds(i64::from(queue.vertex(vertex).last_fed));
        }
        let (verdict, offsets) = (StatusVerdict::Report(report.status), [report.offset]);
        let change = StatusChange {
            offsets: &offsets,
            verdict,
            attempt: Some(attempt),
            notary: report.notary,
            text: report.text(),
        };
        queue.status(cx, vertex, change);
    }
}
