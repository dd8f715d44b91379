//! Handles signals.

use super::Daemon;
use crate::service_manager;
use signal_hook::consts::signal::{
    SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
};
use zsched_core::Event;
use zsched_core::intake::backlog_view::BacklogCounts;
use zsched_format::time::Timestamp;

/// Signals that the scheduler catches.
pub(crate) const CAUGHT_SIGNALS: [i32; 8] =
    [SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

impl Daemon {
    pub(super) fn handle_signals(&mut self, now: Timestamp) {
        for signal in self.signals.take() {
            match signal {
                SIGCHLD if self.spool_io.is_writer_behind() => self.has_held_children = true,
                SIGCHLD => self.reap_children(now),
                SIGHUP => {
                    self.reopen_logs(false);
                    log::info!("logs reopened");
                }
                SIGTERM => self.end_on("SIGTERM"),
                SIGINT if self.is_foreground => self.end_on("SIGINT"),
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

    fn end_on(&mut self, signal: &str) {
        log::info!("ending on {signal}");
        service_manager::notify_status(&format!("ending on {signal}"));
        self.spool_lock.announce_end();
        self.is_ending = true;
    }

    fn drain(&mut self, now: Timestamp) {
        log::info!("ending on SIGQUIT, when all agents have ended");
        service_manager::notify_status("waiting for agents to end");
        self.spool_lock.announce_end();
        self.is_draining = true;
        self.core.handle(now, Event::Drain);
    }

    /// Ends loading: all mail found at the start is in memory or in the backlog.
    pub(super) fn end_loading(&mut self, now: Timestamp) {
        self.is_loading = false;
        log::set_max_level(self.level_after_load);
        self.clients.process.is_loading = false;
        self.core.handle(now, Event::InitialScanDone);
        let BacklogCounts { waiting_files, paged_out, .. } = self.intake.backlog.waiting();
        let queued = self.core.query().view().loaded() + waiting_files + paged_out;
        log::info!("initial scan complete; messages in the queue: {queued}");
        if let Some(summary) = self.spool_io.duplicates.summary() {
            log::warn!("{summary}");
        }
        // What was used to read a large queue: 0.2 ms.
        zsched_sys::release_free_memory();
    }
}
