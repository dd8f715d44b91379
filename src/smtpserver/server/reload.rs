//! Reads configuration, tables and certificates again, and notifies the service manager.

use super::Server;
use super::housekeeper::{Chore, Housekeeper, LoadResult};
use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use zsched_format::printable;
use zsched_service::notify_manager;

/// What the worker that reads files is asked for, and what it has read.
pub(super) struct Reloads {
    pub(super) chores: Sender<Chore>,
    results: Receiver<LoadResult>,
    /// The last status that the service manager has got.
    status: String,
}

impl Reloads {
    pub(super) fn start(housekeeper: Housekeeper, waker: Arc<Waker>) -> io::Result<Reloads> {
        let (sender, results) = channel();
        let chores = housekeeper.start(move |result| {
            // The loop has ended, or it is woken.
            if sender.send(result).is_ok() {
                waker.wake().ok();
            }
        })?;
        Ok(Reloads { chores, results, status: String::new() })
    }
}

impl Server {
    /// Begins to read everything again. An error will leave everything as it is.
    pub(super) fn reload(&mut self) {
        notify_manager("RELOADING=1");
        // The worker does not end before the loop.
        self.reloads.chores.send(Chore::Load).ok();
    }

    /// Uses what the worker has read.
    pub(super) fn take_reloads(&mut self) {
        while let Ok(result) = self.reloads.results.try_recv() {
            self.use_loaded(result);
            notify_manager("READY=1");
        }
    }

    fn use_loaded(&mut self, result: LoadResult) {
        let one_line = |text: &String| text.lines().next().unwrap_or_default().to_string();
        let (mut loaded, warnings) = match result {
            Ok(loaded) => loaded,
            Err(said) => {
                said.iter().for_each(|one| log::error!("{}", one_line(one)));
                let is_denied = said.iter().any(|one| one.contains("Permission denied"));
                if self.resources.is_confined && is_denied {
                    log::error!(
                        "files in other folders than at the start need a restart: Landlock"
                    );
                }
                return log::error!("the former configuration stays in force");
            }
        };
        warnings.iter().for_each(|one| log::warn!("{}", one_line(one)));
        let listeners = &self.loaded.config.listeners;
        if loaded.config.listeners != *listeners {
            log::warn!("other ports need a restart; the former ones stay");
        }
        loaded.config.listeners.clone_from(listeners);
        if loaded.tls.is_none() && self.ports.iter().any(|port| port.is_tls) {
            return log::error!(
                "a port needs a certificate; the former configuration stays in force"
            );
        }
        for (port, listener) in self.ports.iter_mut().zip(listeners) {
            port.settings = loaded.settings(listener.service, &self.resources);
        }
        self.loaded = Arc::new(loaded);
        log::info!("configuration read");
    }

    /// Shows the alarms in the status of the service, and ends those whose hour is over.
    pub(super) fn show_alarms(&mut self) {
        let now = Instant::now();
        if now < self.next_alarms || self.end.is_some() {
            return;
        }
        self.next_alarms = now + super::ALARM_INTERVAL;
        self.usage.end_hours(now);
        self.monitor.check_status_log();
        self.usage.take_alarms().into_iter().for_each(|alarm| self.monitor.add_alarm(alarm));
        if let Some(traffic) = self.monitor.tick(self.open) {
            // The worker does not end before the loop.
            self.reloads.chores.send(Chore::WriteTraffic(traffic)).ok();
        }
        let connections = printable::count(self.open as u64, "connection");
        let status = match &*self.usage.alarms(now) {
            "" => connections,
            alarms => format!("{connections}; {alarms}"),
        };
        if status != self.reloads.status {
            notify_manager(&format!("STATUS={status}"));
            self.reloads.status = status;
        }
    }
}
