//! Handles signals.

use super::Daemon;
use super::hear::tell_core;
use signal_hook::consts::signal::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
};
use zsched_core::{AgentId, Event};
use zsched_format::time::Timestamp;
use zsched_sys::{self as sys, ChildEnd};

/// Signals that the scheduler catches.
pub const ALL: [i32; 8] = [SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

impl Daemon {
    pub(super) fn take_signals(&mut self, now: Timestamp) {
        for signal in self.signals.take() {
            match signal {
                SIGCHLD if self.files.are_behind() => self.has_ends = true,
                SIGCHLD => self.take_ends(now),
                SIGHUP => self.reopen_logs(),
                SIGTERM => self.end_by("SIGTERM"),
                SIGINT if self.is_foreground => self.end_by("SIGINT"),
                SIGQUIT => self.drain(now),
                SIGUSR1 => self.begin_reload(None),
                SIGUSR2 => self.rendezvous.begin(),
                // ZMailer: "check pending work". Scans the spool now instead of at the next
                // interval.
                SIGALRM => self.intake.scan_now(),
                _ => {}
            }
        }
    }

    /// Collects child processes that have ended.
    pub(super) fn take_ends(&mut self, now: Timestamp) {
        while let Some((pid, end)) = sys::reap() {
            let Some(agent) = self.agents.of_process(pid) else {
                continue;
            };
            let core = &mut self.core;
            let can_speak =
                self.agents.can_speak(agent, |heard| tell_core(core, now, agent, heard));
            if can_speak && self.core.has_jobs(agent) {
                log::warn!(
                    "agent {pid} has ended in the middle of a job, but not what it has started"
                );
                self.agents.linger(agent, pid, end);
                self.core.handle(now, Event::AgentExitedMidJob { agent });
            } else {
                self.take_end(now, agent, pid, end);
            }
        }
    }

    /// Ends agents whose child processes have ended by now or have timed out.
    pub(super) fn take_late_ends(&mut self, now: Timestamp) {
        loop {
            let core = &self.core;
            let Some((agent, pid, end)) = self.agents.next_lingered(|agent| core.has_jobs(agent))
            else {
                return;
            };
            self.take_end(now, agent, pid, end);
        }
    }

    fn take_end(&mut self, now: Timestamp, agent: AgentId, pid: u32, end: ChildEnd) {
        let core = &mut self.core;
        let (end, lost) =
            self.agents.ended(agent, pid, end, |heard| tell_core(core, now, agent, heard));
        if lost > 0 {
            log::warn!("agent {pid} left a line unfinished; its {lost} bytes are lost");
        }
        self.core.handle(now, Event::AgentEnded { agent, end });
    }

    fn end_by(&mut self, signal: &str) {
        log::info!("ending on {signal}");
        self.spool_lock.mark_ending();
        self.is_ending = true;
    }

    fn drain(&mut self, now: Timestamp) {
        log::info!("ending on SIGQUIT, when all agents have ended");
        self.spool_lock.mark_ending();
        self.is_draining = true;
        self.core.handle(now, Event::Drain);
    }

    fn reopen_logs(&mut self) {
        let reopened = self.log_file.as_ref().map_or(Ok(()), |log| log.reopen());
        if let Err(error) = reopened {
            log::error!("the log cannot be reopened: {error}");
        }
        if let Some(statistics) = &mut self.statistics
            && let Err(error) = statistics.reopen()
        {
            let path = statistics.path().display();
            log::error!("{path}: the statistics log cannot be reopened: {error}");
        }
        self.files.reopen_status_log();
        log::info!("logs reopened");
    }

    /// Ends loading: all mail found at the start is in memory or in the backlog.
    pub(super) fn end_loading(&mut self, now: Timestamp) {
        self.is_loading = false;
        log::set_max_level(self.level_after_load);
        self.clients.end_loading();
        self.core.handle(now, Event::InitialScanDone);
        log::info!("the spool has been looked through");
        let duplicates = self.files.duplicates();
        let count = duplicates.count();
        if count.recipients > 0 {
            log::warn!(
                "{} recipients of {} messages may be delivered twice: {} has them",
                count.recipients,
                count.messages,
                duplicates.path().display()
            );
        }
    }
}
