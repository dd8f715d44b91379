//! Reads the configuration again, on SIGUSR1 and RELOAD.
//!
//! A worker reads the file, looks up the users and groups in it, and looks for the programs of its
//! agents. A disk, LDAP or NIS may take long, and delivery continues meanwhile. The loop then
//! parses the same text with the worker's answers. The new configuration comes into force as a
//! whole or not at all.

use super::Daemon;
use crate::net::accounts;
use crate::service_manager;
use crate::start::{config_warnings, id_cache};
use zsched_service::worker;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use zsched_config::{self as config, Config, ConfigContext, Diagnostic, Zenv};
use zsched_core::Event;
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_mailq_server::v2::Answer;

/// Maximum number of errors of a configuration sent to a client. The log has all.
const MAX_REPORTED_ERRORS: usize = 20;

/// Configuration that may come into force.
struct CheckedConfig {
    text: Vec<u8>,
    /// Warnings about the auth file and programs of agents, one per line.
    missing: Vec<String>,
    /// The ZENV file has other variables than at the start.
    is_other_zenv: bool,
}

/// Result of a worker: a configuration, or all its errors, one per line.
type LoadResult = Result<CheckedConfig, Vec<String>>;

/// A reading of the configuration that only checks it.
struct ConfigCheck {
    worker: Receiver<LoadResult>,
    clients: Vec<usize>,
}

/// State of the readings of the configuration.
#[derive(Default)]
pub(crate) struct ReloadState {
    check: Option<ConfigCheck>,
    worker: Option<Receiver<LoadResult>>,
    /// Clients waiting for the current reading.
    waiting_clients: Vec<usize>,
    /// Clients waiting for the next reading.
    ///
    /// `Some` if another reading was requested since the current one began: the file may have
    /// changed.
    next_clients: Option<Vec<usize>>,
}

impl Daemon {
    /// Starts reading the configuration, or queues another reading if one is under way.
    pub(super) fn begin_reload(&mut self, client: Option<usize>) {
        if self.reloads.worker.is_some() {
            self.reloads.next_clients.get_or_insert_default().extend(client);
            return;
        }
        self.reloads.waiting_clients.extend(client);
        match self.start_reader() {
            Ok(worker) => {
                self.reloads.worker = Some(worker);
                service_manager::notify_reloading();
            }
            Err(error) => self.reject(&[error]),
        }
    }

    /// Starts a worker that reads the configuration. The error is a text for the operator.
    fn start_reader(&self) -> Result<Receiver<LoadResult>, String> {
        let (path, context) = (self.config_path.clone(), self.context.clone());
        let programs = self.agents.settings.programs.clone();
        let zenv_path = self.zenv_path.clone();
        let (sender, found) = channel();
        let waker = self.waker.clone();
        let work = move || {
            let failed = || Err(vec!["the worker that reads the configuration has failed".into()]);
            let found = worker::catch_panic(|| read(&path, &context, &programs, &zenv_path));
            // Both fail only if the loop is gone. Then the result is not needed.
            drop(sender.send(found.unwrap_or_else(failed)));
            drop(waker.wake());
        };
        let started = worker::start("reload", work).map(|_| found);
        started.map_err(|error| {
            format!("the worker that reads the configuration cannot be started: {error}")
        })
    }

    /// Starts to check the configuration on disk, for a client.
    pub(super) fn begin_config_check(&mut self, client: usize) {
        if let Some(check) = &mut self.reloads.check {
            check.clients.push(client);
            return;
        }
        match self.start_reader() {
            Ok(worker) => {
                self.reloads.check = Some(ConfigCheck { worker, clients: vec![client] });
            }
            Err(error) => self.clients.take_answer(client, Answer::Admin(Err(error))),
        }
    }

    /// Answers the clients that wait for a check, if it has finished.
    pub(super) fn end_config_check(&mut self) {
        let found = self.reloads.check.as_ref().and_then(|check| check.worker.try_recv().ok());
        let (Some(found), Some(check)) = (found, &mut self.reloads.check) else { return };
        let clients = std::mem::take(&mut check.clients);
        self.reloads.check = None;
        let answer = match found {
            Err(errors) => Err(first_errors(&errors)),
            Ok(found) if found.text == self.config.text() => Ok(String::new()),
            Ok(_) => Ok("it has changed since it was loaded".to_string()),
        };
        for client in clients {
            self.clients.take_answer(client, Answer::Admin(answer.clone()));
        }
    }

    /// Puts in force what the worker has read, if it has finished.
    pub(super) fn end_reload(&mut self, now: Timestamp) {
        let Some(Ok(found)) = self.reloads.worker.as_ref().map(Receiver::try_recv) else {
            return;
        };
        self.reloads.worker = None;
        match found.and_then(|candidate| self.apply(now, &candidate)) {
            Ok(notice) => {
                let waiting = std::mem::take(&mut self.reloads.waiting_clients);
                for client in waiting {
                    self.clients.take_answer(client, Answer::Admin(Ok(notice.clone())));
                }
            }
            Err(errors) => self.reject(&errors),
        }
        if let Some(clients) = self.reloads.next_clients.take() {
            self.reloads.waiting_clients = clients;
            self.begin_reload(None);
        }
        // Also if the next reading could not be started.
        if self.reloads.worker.is_none() {
            service_manager::notify_ready();
        }
    }

    /// Puts a configuration in force that the worker has found to be valid.
    ///
    /// Returns a notice about the settings that wait for a restart, which may be empty.
    fn apply(&mut self, now: Timestamp, candidate: &CheckedConfig) -> Result<String, Vec<String>> {
        let loaded = Config::parse(&self.config_path, &candidate.text, &self.context);
        let loaded = loaded.map_err(|errors| in_lines(&errors))?;
        loaded.warnings.iter().for_each(|warning| log::warn!("{}", warning.in_one_line()));
        candidate.missing.iter().for_each(|warning| log::warn!("{warning}"));
        let notice = self.restart_notice(&loaded.config, candidate.is_other_zenv);
        if !notice.is_empty() {
            log::warn!("{}: {notice}", self.config_path.display());
        }
        self.reconfigure_accounts(&loaded.config);
        self.config = Rc::new(loaded.config);
        self.apply_parameters();
        self.core.handle(now, Event::Configured(self.config.clone()));
        log::info!("{}: configuration loaded", self.config_path.display());
        Ok(notice)
    }

    /// Rejects the new configuration and keeps the current one.
    ///
    /// The log gets all errors. Clients get the first ones, separated by TABs.
    fn reject(&mut self, errors: &[String]) {
        errors.iter().for_each(|error| log::error!("{error}"));
        let path = self.config_path.display();
        log::error!("{path}: not usable; the former configuration stays in force");
        for client in std::mem::take(&mut self.reloads.waiting_clients) {
            self.clients.take_answer(client, Answer::Admin(Err(first_errors(errors))));
        }
    }

    /// Passes parameters of the configuration to those that work by them.
    pub(crate) fn apply_parameters(&mut self) {
        let limits = self.config.parameters.memory();
        self.intake.set_max_messages(limits.map(|limits| limits.messages));
        self.spool_io.obey_obsoletes(self.config.parameters.obey_obsoletes);
    }

    /// Updates the location of the accounts. Once required, a login stays required.
    fn reconfigure_accounts(&mut self, new: &Config) {
        let path = &new.parameters.auth_file;
        if !self.clients.settings.uses_version_2 && accounts::needs_version_2(path.as_deref(), None)
        {
            log::info!("MAILQ version 2 is required from now on");
            self.clients.settings.uses_version_2 = true;
        }
        self.clients.accounts.reconfigure(&new.parameters);
    }

    /// Names the settings that differ from those of the start and take effect at a restart.
    fn restart_notice(&self, new: &Config, is_other_zenv: bool) -> String {
        let started = &self.started_config;
        let (old, parameters) = (&started.parameters, &new.parameters);
        let is_login_kept =
            self.clients.settings.uses_version_2 && self.config.parameters.auth_file.is_some();
        let changes = [
            ("PARAMmailqsock", old.mailq_socket != parameters.mailq_socket),
            ("PARAMnotifysock", old.notify_socket != parameters.notify_socket),
            ("the removal of PARAMauthfile", is_login_kept && parameters.auth_file.is_none()),
            ("sysnice", started.scheduler_niceness != new.scheduler_niceness),
            ("variables of the ZENV file", is_other_zenv),
        ];
        let changes = changes.into_iter().filter(|(_, is_changed)| *is_changed);
        let names: Vec<&str> = changes.map(|(name, _)| name).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!("changes that wait for a restart: {}", names.join(", ")),
        }
    }
}

/// Reads and checks a configuration. Does all lookups that may take long.
fn read(
    path: &Path,
    context: &ConfigContext,
    programs: &[PathBuf],
    zenv_path: &Path,
) -> LoadResult {
    let text = config::read(path).map_err(|error| in_lines(&[error]))?;
    let loaded = Config::parse(path, &text, &id_cache::refreshing_context(context));
    let loaded = loaded.map_err(|errors| in_lines(&errors))?;
    let missing = config_warnings::warnings(&loaded.config, &context.zenv, programs);
    // A file that is missing or cannot be read is reported by the next start.
    let is_other_zenv = Zenv::read(zenv_path).is_ok_and(|zenv| zenv != context.zenv);
    // Without a byte order mark, as the configuration in force has it.
    let text = loaded.config.text().to_vec();
    Ok(CheckedConfig { text, missing, is_other_zenv })
}

fn in_lines(errors: &[Diagnostic]) -> Vec<String> {
    errors.iter().map(Diagnostic::in_one_line).collect()
}

/// The first errors in printable form, separated by TABs.
fn first_errors(errors: &[String]) -> String {
    let first = errors.iter().take(MAX_REPORTED_ERRORS);
    let one_line = |error: &String| printable::line(error).replace('\t', " ");
    let mut first_errors: Vec<String> = first.map(one_line).collect();
    if let more @ 1.. = errors.len().saturating_sub(MAX_REPORTED_ERRORS) {
        first_errors.push(format!("and {more} more, see the log"));
    }
    first_errors.join("\t")
}
