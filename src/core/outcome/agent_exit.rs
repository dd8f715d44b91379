//! The end of agents: exits, deaths and timeouts.
//!
//! An agent that dies or is silent for too long costs its present job a deferral. The jobs that it
//! had not begun go to another agent. A whole thread waits if several agents in a row die over it,
//! or one before it asks for work.
//!
//! An agent that exits with status 0 has not died if it was told to end, or has finished a
//! recipient before. What it has not reported is due at once.

use crate::Scheduler;
use crate::dispatch::{Agent, AgentId, AgentState, Owed};
use crate::event::AgentEnd;
use crate::queue::attempt_records::present_attempt;
use crate::queue::{
    DeferralNote, Diagnosis, Queue, ThreadId, Unreachable, UnreachableReason, UnreachableReport,
    VertexId,
};
use std::rc::Rc;

/// Number of deaths in a row after which a whole thread waits.
const MAX_DEATHS_IN_A_ROW: u8 = 3;

impl Scheduler {
    pub(crate) fn agent_ended(&mut self, agent: AgentId, end: &AgentEnd) {
        let Some(agent_ref) = self.dispatch.remove_agent(&mut self.cx, agent) else {
            return;
        };
        self.dispatch.log_end(&self.queue, &mut self.cx, &agent_ref, end);
        self.queue.clear_locks(&mut self.cx, &agent_ref);
        if let Some(thread) = agent_ref.thread {
            self.queue.remove_agent(thread, agent);
            self.dispatch.leave_window_with_agent(
                &mut self.queue,
                &mut self.cx,
                thread,
                agent_ref.has_delivery_permit,
            );
        }
        self.reclaim_jobs(&agent_ref, end);
        if let Some(thread) = agent_ref.thread {
            self.dispatch.delivery_ended(
                &mut self.queue,
                &mut self.cx,
                thread,
                agent_ref.signal,
                None,
            );
            let keep_dying = self.queue.thread(thread).consecutive_deaths >= MAX_DEATHS_IN_A_ROW;
            if ended_unasked(&agent_ref) && (has_never_asked(&agent_ref) || keep_dying) {
                self.defer_due(thread, &agent_ref, end);
            }
        }
        self.dispatch.subtract_agent(&self.queue, self.cx.now, agent, &agent_ref);
        if has_never_asked(&agent_ref) {
            self.dispatch.agent_start_failed(
                &mut self.queue,
                &mut self.cx,
                &agent_ref,
                end,
                ended_unasked(&agent_ref),
            );
        }
        self.dispatch.retry_waitlists_soon();
        self.queue.mark_ring(agent_ref.ring);
    }

    /// Takes back the jobs of an agent that has ended.
    ///
    /// Jobs that it had not begun are due as before. So is its present job if the agent has
    /// stopped. If the agent has died, its present job waits, with a diagnosis.
    fn reclaim_jobs(&mut self, agent: &Agent, end: &AgentEnd) {
        let present = match agent.owed.front() {
            Some(Owed::Job(vertex)) => Some(*vertex),
            _ => None,
        };
        // From the last to the first, so that they keep their order at the head of the queue.
        let jobs: Vec<VertexId> = agent.jobs().collect();
        for vertex in jobs.into_iter().rev() {
            if !self.queue.release_job(vertex) {
                continue;
            }
            let is_present = Some(vertex) == present;
            if is_present && !has_stopped(agent, end) {
                self.defer_interrupted_job(vertex, agent, end);
            } else if is_present && agent.deferrals >= self.queue.vertex(vertex).pending() {
                self.defer(vertex, Queue::wait_after_try);
            } else if self.queue.must_wait_after_job(vertex) {
                self.defer(vertex, Queue::wait_for_destination);
            } else {
                self.queue.set_due_first(self.cx.now, vertex);
            }
        }
    }

    /// Defers a job because its agent has died.
    fn defer_interrupted_job(&mut self, vertex: VertexId, agent: &Agent, end: &AgentEnd) {
        let text = describe_end(agent, end, " while it had this job");
        self.queue.status_unreported(&mut self.cx, present_attempt(agent), vertex, &text);
        if ended_unasked(agent) {
            let thread = self.queue.vertex(vertex).thread;
            self.queue.count_death(thread);
            // A report of the agent is worth more than this diagnosis.
            if !self.queue.vertex(vertex).reported {
                self.queue.count_attempt(vertex);
                self.queue.set_diagnosis(vertex, &text);
            }
        }
        self.defer(vertex, Queue::wait_after_try);
    }

    /// Defers everything due in a thread, because its agents die.
    fn defer_due(&mut self, thread: ThreadId, agent: &Agent, end: &AgentEnd) {
        let diagnosis = Diagnosis::of_scheduler(&describe_end(agent, end, ""));
        self.queue.forget_deaths(thread);
        let cause = UnreachableReport {
            pid: agent.pid,
            id: None,
            at: self.cx.now,
            diagnosis: Some(diagnosis.clone()),
        };
        let known = Unreachable {
            until: self.cx.now,
            reason: UnreachableReason::AgentsDie,
            cause: Some(Rc::new(cause)),
        };
        self.queue.block_thread(&mut self.cx, thread, known, DeferralNote::AgentsDie(diagnosis));
    }
}

/// Returns true if an agent has ended without being told to.
fn ended_unasked(agent: &Agent) -> bool {
    !matches!(agent.state(), AgentState::Stopping(_))
}

/// Returns true if an agent has stopped in an orderly way.
///
/// What it leaves then needs no diagnosis. It must exit with status 0, and must have been told to
/// end or have finished a recipient before. Without the last condition a broken program that takes
/// jobs and exits could be started again and again.
pub(crate) fn has_stopped(agent: &Agent, end: &AgentEnd) -> bool {
    let may_stop = match agent.state() {
        AgentState::Stopping(_) => true,
        AgentState::Killed => false,
        _ => agent.has_finished,
    };
    may_stop && *end == AgentEnd::Exited(0)
}

/// Returns true if an agent has never asked for work.
fn has_never_asked(agent: &Agent) -> bool {
    agent.owed.front() == Some(&Owed::Start)
}

fn describe_end(agent: &Agent, end: &AgentEnd, circumstance: &str) -> String {
    let killed =
        if agent.state() == AgentState::Killed { " was silent for too long, and" } else { "" };
    let circumstance = match end {
        AgentEnd::NotStarted(_) => "",
        _ if has_never_asked(agent) => " before it asked for work",
        _ => circumstance,
    };
    format!("the transport agent{killed} {end}{circumstance}{}", agent.stray_lines.in_parentheses())
}
