//! Session of `mailq top` with the scheduler: periodic snapshots, and orders.

use super::state::StatusMessage;
use crate::connect::session::{Request, Session};
use crate::console::arguments::subject;
use crate::console::client;
use crate::console::orders::{self, Verb};
use crate::console::overview::{self, Overview};
use crate::console::zmailer;
use crate::failure::Failure;
use crate::installation::Installation;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Maximum number of destinations requested per sort order.
const MAX_DESTINATIONS: usize = 200;

/// What the worker has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerCommand {
    /// Give an order about the destination of this name.
    Order(Verb, String),
    /// Explain why the destination of this name waits.
    Why(String),
    /// Take a snapshot at once.
    Refresh,
}

/// A report of the worker.
#[derive(Clone, Debug)]
pub(super) enum WorkerReport {
    /// A snapshot of the queue.
    Snapshot(Box<Overview>),
    /// Result of an order, or an error.
    Status(StatusMessage),
    /// Sentences on why something waits.
    Reason(Vec<String>),
}

/// Runs until the channel of commands or of reports is closed.
pub(super) fn run(
    session: Session,
    installation: &Installation,
    interval: Duration,
    commands: &Receiver<WorkerCommand>,
    reports: &Sender<WorkerReport>,
) {
    let mut session = Some(session);
    let mut next = Instant::now();
    loop {
        let command = match commands.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(command) => command,
            Err(RecvTimeoutError::Timeout) => WorkerCommand::Refresh,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let result =
            connected(&mut session, installation).and_then(|session| execute(session, &command));
        let report = result.unwrap_or_else(|failure| {
            let ends_session = failure.ends_session();
            if ends_session {
                // The next one begins with the next snapshot.
                session = None;
            }
            WorkerReport::Status(StatusMessage {
                text: failure.to_string(),
                is_bad: true,
                ends_session,
            })
        });
        let is_snapshot = command == WorkerCommand::Refresh;
        if reports.send(report).is_err() {
            return;
        }
        // After an order, a snapshot shows its result.
        next = if is_snapshot { Instant::now() + interval } else { Instant::now() };
    }
}

/// The session; opens a new one if the last has ended.
fn connected<'s>(
    session: &'s mut Option<Session>,
    installation: &Installation,
) -> Result<&'s mut Session, Failure> {
    Ok(match session {
        Some(session) => session,
        None => session.insert(client::session(installation)?),
    })
}

fn execute(session: &mut Session, command: &WorkerCommand) -> Result<WorkerReport, Failure> {
    let (verb, name) = match command {
        WorkerCommand::Order(verb, name) => (*verb, name),
        WorkerCommand::Why(name) => {
            let request = Request::new(format!("SHOW WHY {}", subject(name)), "TT");
            return Ok(WorkerReport::Reason(session.ask_for_text(request)?.collect()?));
        }
        WorkerCommand::Refresh => {
            return Ok(WorkerReport::Snapshot(Box::new(
                match overview::of_session(session, MAX_DESTINATIONS) {
                    Err(Failure::Denied(_)) => zmailer::of_session(session)?,
                    other => other?,
                },
            )));
        }
    };
    let reply = session.ask_for_line(verb.request(&subject(name)))?;
    let sentences = orders::sentences(verb, true, &orders::outcome_of(&reply)?);
    let sentences: Vec<&str> =
        sentences.iter().map(|sentence| sentence.trim_end_matches('.')).collect();
    let text = format!("{name}: {}", sentences.join("; "));
    Ok(WorkerReport::Status(StatusMessage { text, is_bad: false, ends_session: false }))
}
