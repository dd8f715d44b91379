//! Connects to a scheduler, and detects the version of its protocol.

use super::connection::{Connection, TIMEOUTS};
use super::greeting;
use super::lines::{LIMITS, Lines};
use super::server::Server;
use super::session::Session;
use crate::failure::Failure;
use crate::installation::Installation;
use std::net::SocketAddr;

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
            Scheduler::Dump(_) => Err(Failure::TakesNoRequests),
        }
    }
}

/// Connects to a server, and logs in if it requires that.
pub(crate) fn dial(
    server: &Server,
    addresses: &[SocketAddr],
    installation: &Installation,
) -> Result<Scheduler, Failure> {
    if *server == Server::Unix(installation.spool().control_socket()) {
        return dial_control_socket(installation).map(Scheduler::Session);
    }
    let credentials = installation.options.credentials()?;
    let mut lines = connect(server, addresses, installation)?;
    Ok(match greeting::read(&mut lines, server)? {
        1 => Scheduler::Dump(lines),
        _ => Scheduler::Session(Session::log_in(lines, server, &credentials)?),
    })
}

/// Connects to the control socket of this installation's scheduler.
///
/// A user who may open the socket need not log in.
pub(crate) fn dial_control_socket(installation: &Installation) -> Result<Session, Failure> {
    let server = Server::Unix(installation.spool().control_socket());
    Session::on_control_socket(connect(&server, &[], installation)?, &server)
}

fn connect(
    server: &Server,
    addresses: &[SocketAddr],
    installation: &Installation,
) -> Result<Lines, Failure> {
    let connection = Connection::open(server, addresses, TIMEOUTS)
        .map_err(|failure| failure.explain(server, server.is_local(addresses), installation))?;
    let mut lines = Lines::new(connection, LIMITS);
    lines.is_echoed = installation.options.debug;
    Ok(lines)
}
