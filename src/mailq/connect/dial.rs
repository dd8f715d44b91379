//! Connects to a scheduler, and detects the version of its protocol.

use super::connection::{Connection, TIMEOUTS};
use super::credentials::Credentials;
use super::greeting;
use super::lines::{LIMITS, Lines};
use super::server::{Addresses, Server};
use super::session::Session;
use crate::failure::Failure;
use crate::installation::Installation;

/// A connected scheduler.
pub(crate) enum Scheduler {
    /// MAILQ version 1, after its greeting.
    ///
    /// It sends everything at once and takes no requests.
    Dump(Lines),
    /// MAILQ version 2, after the login. It answers requests.
    Session(Session),
}

impl Scheduler {
    /// The session with a scheduler that takes requests.
    pub(crate) fn session(&mut self) -> Result<&mut Session, Failure> {
        match self {
            Scheduler::Session(session) => Ok(session),
            Scheduler::Dump(_) => Err(no_requests()),
        }
    }

    /// Ends the session, if there is one.
    pub(crate) fn close(self) {
        if let Scheduler::Session(session) = self {
            session.quit();
        }
    }
}

/// The failure of a request to a version 1 scheduler.
pub(crate) fn no_requests() -> Failure {
    Failure::Unavailable(
        "this scheduler speaks MAILQ version 1, and takes no requests; with PARAMauthfile in its \
         scheduler.cf, it would speak version 2"
            .to_string(),
    )
}

/// Connects to a server, and logs in if it requires that.
pub(crate) fn dial(
    server: &Server,
    addresses: &Addresses,
    installation: &Installation,
    credentials: &Credentials,
    is_echoed: bool,
) -> Result<Scheduler, Failure> {
    let mut lines = connect(server, addresses, installation, is_echoed)?;
    Ok(match greeting::read(&mut lines, server)? {
        1 => Scheduler::Dump(lines),
        _ => Scheduler::Session(Session::log_in(lines, server, credentials)?),
    })
}

/// Connects to the control socket of this installation's scheduler.
///
/// A user who may open the socket need not log in.
pub(crate) fn dial_control_socket(
    installation: &Installation,
    is_echoed: bool,
) -> Result<Session, Failure> {
    let path = installation.spool().control_socket();
    let server = Server::Unix(path.clone());
    let lines = connect(&server, &Addresses::Path(path), installation, is_echoed)?;
    Session::on_control_socket(lines, &server)
}

fn connect(
    server: &Server,
    addresses: &Addresses,
    installation: &Installation,
    is_echoed: bool,
) -> Result<Lines, Failure> {
    let connection = Connection::open(server, addresses, TIMEOUTS)
        .map_err(|failure| failure.explain(server, addresses.are_local(), installation))?;
    let mut lines = Lines::new(connection, LIMITS);
    lines.is_echoed = is_echoed;
    Ok(lines)
}
