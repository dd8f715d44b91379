//! The configuration is read again, on SIGUSR1 and RELOAD.
//!
//! A worker reads the file, looks up the users and groups it names, and looks for the programs of its agents:
//! a disk, LDAP or NIS may take long over that, and delivery goes on meanwhile. The loop reads the same text
//! with the worker's answers, and puts it in force as a whole, or not at all.

use super::{Daemon, account_names, accounts, check};
use mio::Waker;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use zsched_config::{self as config, Config, Context, Diagnostic};
use zsched_core::Event;
use zsched_format::printable;
use zsched_format::time::Timestamp;

/// So many errors of a configuration are told to whoever has asked for it; the log has all.
const MOST_TOLD: usize = 20;

/// A configuration that may be put in force.
struct Candidate {
    text: Vec<u8>,
    /// Agents that cannot be started, one a line.
    missing: Vec<String>,
}

/// What a worker has found: a configuration, or all that is wrong with it, one a line.
type Found = Result<Candidate, Vec<String>>;

/// The readings of the configuration.
#[derive(Default)]
pub struct Reloads {
    worker: Option<Receiver<Found>>,
    /// Clients that asked for the reading under way.
    asked: Vec<usize>,
    /// Another one was asked for since it began: the file may have changed.
    next: Option<Vec<usize>>,
}

/// The worker's end: what it finds, or that it has ended without, wakes the loop.
struct Reply {
    sender: Option<Sender<Found>>,
    waker: Arc<Waker>,
}

impl Reply {
    fn send(mut self, found: Found) {
        // It fails only if the loop is gone, and then nothing needs to be known.
        drop(self.sender.take().map(|sender| sender.send(found)));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // The loop must see the end when it wakes up.
        drop(self.sender.take());
        drop(self.waker.wake());
    }
}

impl Daemon {
    /// Begins to read the configuration again, for a client if one has asked for it.
    pub(super) fn begin_reload(&mut self, client: Option<usize>) {
        if self.reloads.worker.is_some() {
            self.reloads.next.get_or_insert_default().extend(client);
            return;
        }
        self.reloads.asked.extend(client);
        let (path, context) = (self.config_path.clone(), self.context.clone());
        let programs = self.agents.programs().to_vec();
        let (sender, found) = channel();
        let reply = Reply { sender: Some(sender), waker: self.waker.clone() };
        let worker = thread::Builder::new().name("reload".to_string());
        match worker.spawn(move || reply.send(read(&path, &context, &programs))) {
            Ok(_) => self.reloads.worker = Some(found),
            Err(error) => self.refuse(&[format!("no thread to read the configuration: {error}")]),
        }
    }

    /// Puts in force what a worker has read, if one is through.
    pub(super) fn end_reload(&mut self, now: Timestamp) {
        let found = match self.reloads.worker.as_ref().map(Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return,
            Some(Ok(found)) => found,
            Some(Err(TryRecvError::Disconnected)) => {
                Err(vec!["the worker that reads the configuration has failed".to_string()])
            }
        };
        self.reloads.worker = None;
        match found.and_then(|candidate| self.put_in_force(now, &candidate)) {
            Ok(()) => {
                let asked = std::mem::take(&mut self.reloads.asked);
                asked.into_iter().for_each(|client| self.clients.done(client, Ok(())));
            }
            Err(errors) => self.refuse(&errors),
        }
        if let Some(clients) = self.reloads.next.take() {
            self.reloads.asked = clients;
            self.begin_reload(None);
        }
    }

    /// Takes a configuration that a worker has found to be good.
    fn put_in_force(&mut self, now: Timestamp, candidate: &Candidate) -> Result<(), Vec<String>> {
        let loaded = Config::parse(&self.config_path, &candidate.text, &self.context);
        let loaded = loaded.map_err(|errors| in_lines(&errors))?;
        loaded.warnings.iter().for_each(|warning| log::warn!("{}", warning.in_one_line()));
        candidate.missing.iter().for_each(|warning| log::warn!("{warning}"));
        self.report_unchangeable(&loaded.config);
        self.change_accounts(&loaded.config);
        self.config = Rc::new(loaded.config);
        self.limit_memory();
        self.core.handle(now, Event::Configured(self.config.clone()));
        log::info!("{}: in force from now on", self.config_path.display());
        Ok(())
    }

    /// Leaves the configuration as it is. The log has all errors; clients get those that are worth a look at
    /// once, with TABs between them.
    fn refuse(&mut self, errors: &[String]) {
        errors.iter().for_each(|error| log::error!("{error}"));
        let path = self.config_path.display();
        log::error!("{path}: not usable; the former configuration stays in force");
        for client in std::mem::take(&mut self.reloads.asked) {
            self.clients.done(client, Err(told(errors)));
        }
    }

    /// As many messages as the configuration says may be in memory.
    pub(super) fn limit_memory(&mut self) {
        let limits = self.config.parameters.memory();
        self.intake.set_limit(limits.map(|limits| limits.messages));
    }

    /// The accounts may be in another file now. A login that was demanded once is demanded for ever.
    fn change_accounts(&mut self, new: &Config) {
        let path = &new.parameters.auth_file;
        if !self.clients.speaks_version_2() && accounts::demand_login(path.as_deref(), None) {
            log::info!("MAILQ version 2 is spoken from now on");
            self.clients.speak_version_2();
        }
        self.clients.accounts().change(&new.parameters);
    }

    /// Sockets stay where they are for as long as the scheduler runs.
    fn report_unchangeable(&self, new: &Config) {
        let (old, new) = (&self.config.parameters, &new.parameters);
        let sockets = |parameters: &zsched_config::Parameters| {
            let notify: Option<PathBuf> = parameters.notify_socket.clone();
            (parameters.mailq_socket.clone(), notify)
        };
        if sockets(old) != sockets(new) {
            log::warn!(
                "new values of PARAMmailqsock and PARAMnotifysock take effect at the next start"
            );
        }
    }
}

/// Reads and checks a configuration, with everything that may take long.
fn read(path: &Path, context: &Context, programs: &[PathBuf]) -> Found {
    let text = config::read(path).map_err(|error| in_lines(&[error]))?;
    let loaded = Config::parse(path, &text, &account_names::looked_up(context));
    let loaded = loaded.map_err(|errors| in_lines(&errors))?;
    let missing = check::warnings(&loaded.config, &context.zenv, programs);
    Ok(Candidate { text, missing })
}

fn in_lines(errors: &[Diagnostic]) -> Vec<String> {
    errors.iter().map(Diagnostic::in_one_line).collect()
}

/// The first errors in printable form, with TABs between them.
fn told(errors: &[String]) -> String {
    let first = errors.iter().take(MOST_TOLD);
    let one_line = |error: &String| printable::line(error).replace('\t', " ");
    let mut told: Vec<String> = first.map(one_line).collect();
    if let more @ 1.. = errors.len().saturating_sub(MOST_TOLD) {
        told.push(format!("and {more} more, see the log"));
    }
    told.join("\t")
}
