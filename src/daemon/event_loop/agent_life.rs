//! Starts and ends of agents.

use super::Daemon;
use crate::agents::StartedAgent;
use crate::event_loop::event_source::EventSource;
use crate::event_loop::sources::pass_on;
use crate::logging::syslog;
use zsched_command_line::sysexits::EX_SOFTWARE;
use zsched_config::Clause;
use zsched_core::{AgentEnd, AgentId, Event, StopMode};
use zsched_format::time::Timestamp;
use zsched_sys::{self as sys, ChildEnd};

impl Daemon {
    pub(super) fn start_agent(
        &mut self,
        now: Timestamp,
        agent: AgentId,
        clause: &Clause,
        channel: &[u8],
        host: &[u8],
    ) {
        if let Err(reason) = self.agents.start(agent, clause, channel, host) {
            self.start_failed(now, agent, reason);
        }
    }

    fn start_failed(&mut self, now: Timestamp, agent: AgentId, reason: String) {
        let end = AgentEnd::NotStarted(reason);
        self.core.handle(now, Event::AgentEnded { agent, end });
    }

    /// Takes agents whose start has ended.
    pub(super) fn take_started_agents(&mut self, now: Timestamp) {
        let token_of = |agent| EventSource::Agent(agent).token();
        while let Some(started) = self.agents.next_started(self.poll.registry(), token_of) {
            let StartedAgent { agent, outcome, stop, end } = started;
            let pid = match outcome {
                Ok(pid) => pid,
                Err(reason) => {
                    self.start_failed(now, agent, reason);
                    continue;
                }
            };
            self.core.handle(now, Event::AgentStarted { agent, pid });
            if let Some(end) = end {
                self.child_ended(now, agent, pid, end);
            } else if let Some(manner) = stop {
                self.stop_agent(agent, manner);
            }
        }
    }

    pub(super) fn stop_agent(&mut self, agent: AgentId, manner: StopMode) {
        if let Err(error) = self.agents.stop(agent, manner) {
            let name = self.core.query().view().agent_name(agent);
            log::error!("{name} cannot be stopped: {error}");
        }
    }

    /// Collects child processes that have ended.
    pub(super) fn reap_children(&mut self, now: Timestamp) {
        while let Some((pid, end)) = sys::reap() {
            match self.agents.by_pid(pid) {
                Some(agent) => self.child_ended(now, agent, pid, end),
                None => self.agents.keep_early_end(pid, end),
            }
        }
    }

    fn child_ended(&mut self, now: Timestamp, agent: AgentId, pid: u32, end: ChildEnd) {
        let (core, spool_io) = (&mut self.core, &self.spool_io);
        let is_socket_open =
            self.agents.drain_output(agent, |output| pass_on(core, spool_io, now, agent, output));
        if is_socket_open && self.core.query().view().has_jobs(agent) {
            log::warn!(
                "{} exited in the middle of a job; its child processes are still running",
                self.core.query().view().agent_name(agent)
            );
            self.agents.keep_orphaned(agent, pid, end);
            self.core.handle(now, Event::AgentExitedMidJob { agent });
        } else {
            self.end_agent(now, agent, pid, end);
        }
    }

    /// Ends agents whose child processes have ended by now or have timed out.
    pub(super) fn end_orphaned_agents(&mut self, now: Timestamp) {
        loop {
            let core = self.core.query();
            let Some((agent, pid, end)) =
                self.agents.next_ended_orphan(|agent| core.view().has_jobs(agent))
            else {
                return;
            };
            self.end_agent(now, agent, pid, end);
        }
    }

    fn end_agent(&mut self, now: Timestamp, agent: AgentId, pid: u32, end: ChildEnd) {
        let (core, spool_io) = (&mut self.core, &self.spool_io);
        let (end, lost) = self
            .agents
            .ended(agent, pid, end, |output| pass_on(core, spool_io, now, agent, output));
        if lost > 0 {
            let name = self.core.query().view().agent_name(agent);
            log::warn!("{name} ended within a line; {lost} bytes are lost");
        }
        if end == AgentEnd::Exited(EX_SOFTWARE) {
            let name = self.core.query().view().agent_name(agent);
            syslog::emergency(&format!("{name} {end} (EX_SOFTWARE)"));
        }
        self.core.handle(now, Event::AgentEnded { agent, end });
    }
}
