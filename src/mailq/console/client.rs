//! Connects commands to a scheduler: by the control socket, or by the network.

use crate::connect::dial::{Scheduler, dial, dial_control_socket};
use crate::connect::lines::{LineSource, parse_object};
use crate::connect::server::Server;
use crate::connect::session::{Request, Session};
use crate::failure::{self, Failure};
use crate::format::count;
use crate::installation::Installation;
use crate::progress::Progress;
use serde::de::DeserializeOwned;
use std::fs;
use std::os::unix::fs::MetadataExt;
use zsched_sys::users;

/// Number of rows after which the line on progress is updated.
const ROWS_PER_UPDATE: usize = 1000;

/// Connects to the scheduler that the options name.
///
/// By default that is the one of this installation: by its control socket, or by its port if that
/// fails, as it does for users who may not use the socket.
pub(super) fn open(installation: &Installation) -> Result<Scheduler, Failure> {
    let options = &installation.options;
    let is_elsewhere = options.selects_server() || installation.mail_server().is_some();
    if !is_elsewhere && let Ok(session) = dial_control_socket(installation) {
        return Ok(Scheduler::Session(session));
    }
    let server = Server::find(installation)?;
    let dialled = dial(&server, &server.addresses(options)?, installation);
    dialled.map_err(|failure| match &failure {
        // The port is the way of users who may not use the socket.
        Failure::Unavailable(text) if !is_elsewhere => match refused_user(installation) {
            Some(refusal) => Failure::Denied(format!("{refusal}\nmailq: {text}")),
            None => failure,
        },
        _ => failure,
    })
}

/// Connects to a scheduler that takes requests.
pub(super) fn session(installation: &Installation) -> Result<Session, Failure> {
    match open(installation)? {
        Scheduler::Session(session) => Ok(session),
        Scheduler::Dump(_) => Err(advised(Failure::TakesNoRequests, installation)),
    }
}

/// The failure as this user has to be told it.
///
/// A user who may not open the control socket gets the scheduler's version 1.
pub(super) fn advised(failure: Failure, installation: &Installation) -> Failure {
    match failure {
        Failure::TakesNoRequests => refused_user(installation).unwrap_or(failure),
        other => other,
    }
}

/// The failure of a user who may not open the control socket of this installation.
fn refused_user(installation: &Installation) -> Option<Failure> {
    let socket = installation.spool().control_socket();
    let owner =
        installation.asks_own_scheduler().then(|| fs::metadata(&socket).ok()).flatten()?.uid();
    if users::is_root() || users::effective_user() == owner {
        return None;
    }
    let (only, socket) = (failure::only_root_and(owner), socket.display());
    Some(Failure::Denied(format!(
        "{only} may do this, over {socket}; PARAMauthfile in scheduler.cf permits other users to \
         log in"
    )))
}

/// Sends a request and passes each object of the answer to `take`.
pub(super) fn for_each_object<T: DeserializeOwned>(
    session: &mut Session,
    request: Request,
    mut take: impl FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut text = session.ask_for_text(request)?;
    while let Some(line) = text.next()? {
        take(parse_object(line)?)?;
    }
    Ok(())
}

/// Sends a request and collects the objects of the answer.
///
/// Fails if there are more than the session's limit.
pub(super) fn fetch_all<T: DeserializeOwned>(
    session: &mut Session,
    request: Request,
) -> Result<Vec<T>, Failure> {
    let max = session.entries();
    let progress = Progress::start("searching the queue");
    let mut objects = Vec::new();
    for_each_object(session, request, |object| {
        if objects.len() == max {
            return Failure::protocol(format!("there are more than {max} objects"));
        }
        objects.push(object);
        if objects.len() % ROWS_PER_UPDATE == 0 {
            progress.set(format!("{} found", count(objects.len() as u64, "row")));
        }
        Ok(())
    })?;
    Ok(objects)
}

/// Sends a request and returns the first object of the answer.
pub(super) fn fetch_one<T: DeserializeOwned>(
    session: &mut Session,
    request: Request,
) -> Result<T, Failure> {
    let line = request.line.clone();
    let mut found = None;
    for_each_object(session, request, |object| {
        found.get_or_insert(object);
        Ok(())
    })?;
    found.ok_or_else(|| Failure::Protocol(format!("the answer to {line} is empty")))
}
