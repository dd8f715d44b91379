//! The deadlines of agents, and their end.

use crate::action::StopMode;
use crate::context::Context;
use crate::dispatch::ping::MAX_PING_TIME;
use crate::dispatch::{Agent, AgentId, AgentState, Dispatch};
use crate::event::AgentEnd;
use crate::operator::order::{Effect, OrderRefusal};
use crate::outcome::agent_exit::has_stopped;
use crate::queue::Queue;
use crate::timers::Timer;
use log::Level;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Maximum time that an agent may take to end.
///
/// It may have to close a connection to a slow host.
const MAX_STOP_TIME: Duration = Duration::from_secs(300);

impl Dispatch {
    /// Brings the timers of changed agents up to date.
    pub(crate) fn settle_agents(&mut self, queue: &mut Queue, cx: &mut Context) {
        while let Some(agent) = self.agents.next_changed() {
            self.settle_agent(queue, cx, agent);
        }
    }

    /// Removes an agent that has ended.
    pub(crate) fn remove_agent(&mut self, cx: &mut Context, id: AgentId) -> Option<Agent> {
        let agent = self.agents.remove(id)?;
        if let Some(timer) = agent.timer {
            cx.timers.cancel(timer, Timer::Agent(id));
        }
        Some(agent)
    }

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

    pub(crate) fn log_end(&self, queue: &Queue, cx: &mut Context, agent: &Agent, end: &AgentEnd) {
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

    pub(crate) fn subtract_agent(
        &mut self,
        queue: &Queue,
        now: Timestamp,
        id: AgentId,
        agent: &Agent,
    ) {
        self.leave_pool(id, agent.state(), agent.ring);
        self.agents.counts.remove(id, queue.ring(agent.ring), &mut self.of_rings[agent.ring]);
        if self.of_rings[agent.ring].count == 0 {
            self.restart_ring_wait(queue, now, agent.ring);
        }
    }

    pub(crate) fn retire_agent_of(&mut self, cx: &mut Context, pid: u32) -> Effect {
        let has_pid =
            |agent: &crate::dispatch::agent::Agent| agent.pid == Some(pid) && agent.is_alive();
        let Some((id, agent)) = self.agents.iter().find(|(_, agent)| has_pid(agent)) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        let (id, is_idle) = (id, matches!(agent.state(), AgentState::Idle(_)));
        let manner = if is_idle { crate::StopMode::Retire } else { crate::StopMode::Quit };
        self.stop_agent(cx, id, manner);
        Effect { agents: 1, ..Effect::default() }
    }
}
