//! The end of agents: exits, deaths and timeouts.
//!
//! An agent that dies or is silent for too long costs its present job a deferral. The jobs that it
//! had not begun go to another agent. A whole thread waits if several agents in a row die over it,
//! or one before it asks for work.
//!
//! An agent that exits with status 0 has not died if it was told to end, or has finished a
//! recipient before. What it has not reported is due at once.

use crate::Scheduler;
use crate::action::StopMode;
use crate::context::Context;
use crate::dispatch::ping::MAX_PING_TIME;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch, Owed};
use crate::event::AgentEnd;
use crate::queue::attempt_records::present_attempt;
use crate::queue::{
    DeferralNote, Diagnosis, Queue, ThreadId, Unreachable, UnreachableReason, UnreachableReport,
    VertexId,
};
use crate::timers::Timer;
use log::Level;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Maximum time that an agent may take to end.
///
/// It may have to close a connection to a slow host.
const MAX_STOP_TIME: Duration = Duration::from_secs(300);
/// Number of deaths in a row after which a whole thread waits.
const MAX_DEATHS_IN_A_ROW: u8 = 3;

impl Scheduler {
    pub(crate) fn agent_ended(&mut self, agent: AgentId, end: &AgentEnd) {
        let Some(agent_ref) = self.dispatch.agents.remove(agent) else {
            return;
        };
        if let Some(timer) = agent_ref.timer {
            self.cx.timers.cancel(timer, Timer::Agent(agent));
        }
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
        self.dispatch.waitlists.has_news = true;
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
            } else if is_present && agent.deferrals >= self.queue.vertex(vertex).pending {
                self.defer(vertex, Queue::wait_after_try);
            } else if self.queue.must_wait_after_job(vertex) {
                self.defer(vertex, Queue::wait_for_destination);
            } else {
                self.queue.set_due_first(self.cx.now, vertex);
                self.queue.watch_expiry(self.cx.now, vertex);
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

impl Dispatch {
    /// Sets the timer of an agent to its deadline.
    ///
    /// A timer that is too early stays, and is set again when it fires. So a job does not cost a
    /// change of the timer.
    pub(crate) fn settle_agent(&mut self, queue: &mut Queue, cx: &mut Context, agent: AgentId) {
        let timer = self.agents[agent].timer;
        let deadline = self.agent_deadline(queue, &self.agents[agent]);
        let earlier = deadline.filter(|deadline| timer.is_none_or(|timer| *deadline < timer));
        if let Some(deadline) = earlier {
            if let Some(timer) = timer {
                cx.timers.cancel(timer, Timer::Agent(agent));
            }
            self.agents[agent].timer = Some(deadline);
            cx.timers.add(deadline, Timer::Agent(agent));
        }
        // An agent that takes no more work leaves room for another one.
        if let Some(thread) = self.agents[agent].thread {
            queue.mark_thread(thread);
        }
    }

    pub(crate) fn agent_timer(&mut self, queue: &Queue, cx: &mut Context, agent: AgentId) {
        let Some(agent_ref) = self.agents.get_mut(agent) else {
            return;
        };
        agent_ref.timer = None;
        let state = agent_ref.state();
        self.agents.mark(agent);
        if self.agent_deadline(queue, &self.agents[agent]).is_none_or(|deadline| deadline > cx.now)
        {
            return;
        }
        match state {
            AgentState::Idle(since) => self.idle_agent_timer(queue, cx, agent, since),
            AgentState::Killed | AgentState::ExitedMidJob => {}
            _ => self.kill_agent(queue, cx, agent),
        }
    }

    fn kill_agent(&mut self, queue: &Queue, cx: &mut Context, agent: AgentId) {
        let silent = cx.now.seconds_since(self.agents[agent].progress_at);
        let name = self.name_of_agent(queue, &self.agents[agent]);
        cx.log(Level::Warn, format!("{name} has been silent for {silent} s, and is killed"));
        self.stop_agent(cx, agent, StopMode::Kill);
    }

    fn log_end(&self, queue: &Queue, cx: &mut Context, agent: &Agent, end: &AgentEnd) {
        let was_stopped = matches!(agent.state(), AgentState::Stopping(_));
        let expected = !agent.is_alive() || *end == AgentEnd::Exited(0);
        let level = match agent.jobs().count() {
            0 if expected => Level::Debug,
            // The unfinished jobs of an agent that was told to end go to another one.
            1.. if was_stopped && *end == AgentEnd::Exited(0) => Level::Debug,
            1.. if has_stopped(agent, end) => Level::Info,
            _ => Level::Warn,
        };
        let (name, said) = (self.name_of_agent(queue, agent), agent.stray_lines.in_parentheses());
        let suppressed = agent.log_limiter.suppressed();
        cx.log(level, format!("{name} {end}{said}{suppressed}"));
    }

    /// Returns when an agent must be checked, if it does nothing before.
    fn agent_deadline(&self, queue: &Queue, agent: &Agent) -> Option<Timestamp> {
        let clause = &queue.ring(agent.ring).clause;
        match agent.state() {
            AgentState::Parking if agent.pinged.is_some() => {
                Some(agent.progress_at + clause.agent_timeout.min(MAX_PING_TIME))
            }
            AgentState::Starting | AgentState::Working | AgentState::Parking => {
                Some(agent.progress_at + clause.agent_timeout)
            }
            AgentState::Idle(since) => {
                let end = self.idle_end(queue, agent, since);
                let ping = clause.idle_ping.map(|time| since.max(agent.progress_at) + time);
                Some(ping.map_or(end, |ping| ping.min(end)))
            }
            AgentState::Stopping(since) if agent.jobs().next().is_none() => {
                Some(since.max(agent.progress_at) + MAX_STOP_TIME)
            }
            // It may take long over its jobs while it makes progress.
            AgentState::Stopping(since) => {
                Some(since.max(agent.progress_at) + clause.agent_timeout.max(MAX_STOP_TIME))
            }
            AgentState::Killed | AgentState::ExitedMidJob => None,
        }
    }

    /// Records that an agent's process has ended in mid-job.
    ///
    /// Its child processes may still finish the job.
    pub(crate) fn agent_exited_mid_job(&mut self, agent: AgentId) {
        if self.agents.get(agent).is_some_and(Agent::is_alive) {
            self.agents.set_state(agent, AgentState::ExitedMidJob);
        }
    }

    fn subtract_agent(&mut self, queue: &Queue, now: Timestamp, id: AgentId, agent: &Agent) {
        self.leave_pool(id, agent.state(), agent.ring);
        self.agents.counts.remove(id, queue.ring(agent.ring), &mut self.of_rings[agent.ring]);
        if self.of_rings[agent.ring].count == 0 {
            self.restart_ring_wait(queue, now, agent.ring);
        }
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
fn has_stopped(agent: &Agent, end: &AgentEnd) -> bool {
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
