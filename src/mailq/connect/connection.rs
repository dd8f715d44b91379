//! A connection to a server, with timeouts.

use super::lines::Peer;
use super::server::{Server, within};
use crate::failure::{Failure, only_users_of};
use crate::installation::{DaemonState, Installation, daemon_state};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// For connecting to each address of the server, and for each write.
    pub connect: Duration,
    /// Without any data from the server.
    pub idle: Duration,
    /// From opening the connection to the end of the answer.
    pub total: Duration,
}

/// Timeouts of every connection to a server.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    idle: Duration::from_secs(60),
    total: Duration::from_secs(3600),
};

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The calls of a TCP stream serve a UNIX stream as well.
    stream: TcpStream,
    timeouts: Timeouts,
    opened: Instant,
}

/// Failed attempts to connect: each address, and its error.
#[derive(Debug)]
pub(crate) struct ConnectFailure {
    attempts: Vec<(String, io::Error)>,
}

impl Connection {
    /// Connects to the first address that works.
    pub(crate) fn open(
        server: &Server,
        addresses: &[SocketAddr],
        timeouts: Timeouts,
    ) -> Result<Connection, ConnectFailure> {
        let connection = |stream| Connection { stream, timeouts, opened: Instant::now() };
        let mut attempts = Vec::new();
        match server {
            Server::Unix(path) => {
                let path = path.clone();
                // `UnixStream` has no connect with a timeout.
                let opened = within(timeouts.connect, move || UnixStream::connect(path));
                match opened.unwrap_or_else(|| Err(ErrorKind::TimedOut.into())) {
                    Ok(stream) => return Ok(connection(OwnedFd::from(stream).into())),
                    Err(error) => attempts.push((server.to_string(), error)),
                }
            }
            Server::Tcp { .. } => {
                for address in addresses {
                    match TcpStream::connect_timeout(address, timeouts.connect) {
                        Ok(stream) => {
                            // Requests are short and sent one after the other. If this fails, they
                            // are only slower.
                            drop(stream.set_nodelay(true));
                            return Ok(connection(stream));
                        }
                        Err(error) => attempts.push((address.to_string(), error)),
                    }
                }
            }
        }
        Err(ConnectFailure { attempts })
    }
}

impl Peer for Connection {
    fn set_timeouts(&mut self, idle: Duration, total: Duration) {
        self.timeouts = Timeouts { idle, total, ..self.timeouts };
    }
}

/// A write has the same timeout as a connect.
impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.timeouts.connect))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Timeouts { idle, total, .. } = self.timeouts;
        let left = total.saturating_sub(self.opened.elapsed());
        let timeout = |what: &str, time: Duration| {
            let message = format!("{what} after {} seconds", time.as_secs());
            io::Error::new(ErrorKind::TimedOut, message)
        };
        if left.is_zero() {
            return Err(timeout("still not complete", total));
        }
        self.stream.set_read_timeout(Some(idle.min(left)))?;
        match self.stream.read(buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(match left < idle {
                    true => timeout("still not complete", total),
                    false => timeout("no more data", idle),
                })
            }
            other => other,
        }
    }
}

/// What the pid file of an installation says of its scheduler, if that does not run.
pub(crate) fn stopped_scheduler(installation: &Installation) -> Option<String> {
    let pid_file = installation.spool().pid_file();
    let shown = pid_file.display();
    let why = match daemon_state(&pid_file) {
        DaemonState::Dead(pid) => format!("{shown} names process {pid}, which has ended"),
        DaemonState::NoFile if installation.spool().postoffice().is_dir() => {
            format!("there is no {shown}")
        }
        _ => return None,
    };
    Some(format!(
        "the scheduler is not running: {why}; `systemctl start zsched` or `scheduler` starts it"
    ))
}

impl ConnectFailure {
    /// Describes the failed attempts, with advice on what to do.
    pub(crate) fn explain(
        &self,
        server: &Server,
        is_local: bool,
        installation: &Installation,
    ) -> Failure {
        let attempts: Vec<String> = match self.attempts.as_slice() {
            [(name, error)] if *name == server.to_string() => vec![error.to_string()],
            attempts => attempts.iter().map(|(name, error)| format!("{name}: {error}")).collect(),
        };
        let what = format!("cannot connect to {server}: {}", attempts.join("; "));
        match self.stopped_scheduler(is_local, installation) {
            // That is the news; how it was found out comes after it.
            Some(stopped) => Failure::Unavailable(format!("{stopped}\nmailq: {what}")),
            None => {
                let advice = self.advice(server, is_local, installation);
                Failure::Unavailable(format!("{what}\nmailq: {advice}"))
            }
        }
    }

    /// What the pid file says of a scheduler of this host that does not run.
    fn stopped_scheduler(&self, is_local: bool, installation: &Installation) -> Option<String> {
        let is_denied = |(_, error): &(_, io::Error)| error.kind() == ErrorKind::PermissionDenied;
        match !is_local || self.attempts.iter().any(is_denied) {
            true => None,
            false => stopped_scheduler(installation),
        }
    }

    fn advice(&self, server: &Server, is_local: bool, installation: &Installation) -> String {
        let is_all = |kind| self.attempts.iter().all(|(_, error)| error.kind() == kind);
        if is_all(ErrorKind::PermissionDenied) {
            return match server {
                Server::Unix(path) => format!("{} may use it", only_users_of(path)),
                Server::Tcp { .. } => "permission denied for this user".to_string(),
            };
        }
        if !is_local {
            return match is_all(ErrorKind::TimedOut) {
                true => "is the host up, and does a firewall block this port?".to_string(),
                false => "is a scheduler running there, and does its MAILQ port accept other \
                          hosts? See PARAMmailqsock in its scheduler.cf; option -p names another \
                          port"
                    .to_string(),
            };
        }
        let elsewhere = match server {
            Server::Unix(_) => "another path or port",
            Server::Tcp { .. } => "another port or path",
        };
        match daemon_state(&installation.spool().pid_file()) {
            DaemonState::Alive(pid) => format!(
                "a scheduler is running as process {pid}, perhaps with {elsewhere}: see \
                 PARAMmailqsock in its scheduler.cf, and option -p"
            ),
            _ => {
                "is the scheduler running? Option -Z names the ZENV file of its installation, and \
                 -p its port"
                    .to_string()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::lines::{LIMITS, LineSource, Lines};
    use std::net::TcpListener;
    use std::thread;

    const SHORT: Timeouts = Timeouts {
        connect: Duration::from_secs(10),
        idle: Duration::from_millis(100),
        total: Duration::from_millis(500),
    };

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    fn open(addresses: Vec<SocketAddr>) -> Result<Connection, ConnectFailure> {
        let server = Server::Tcp { host: "localhost".to_string(), port: 1 };
        Connection::open(&server, &addresses, SHORT)
    }

    #[test]
    fn open_uses_first_address_that_accepts() {
        let (gone, no_listener) = listener();
        drop(gone);
        let (first, first_address) = listener();
        let (second, second_address) = listener();
        second.set_nonblocking(true).expect("non-blocking");
        let connection = open(vec![no_listener, first_address, second_address]);
        assert!(connection.is_ok());
        first.accept().expect("a connection");
        assert!(second.accept().is_err(), "the others are left alone");
        let refusal = open(vec![no_listener]).expect_err("no server listens");
        assert_eq!(refusal.attempts.len(), 1);
    }

    #[test]
    fn read_without_data_times_out() {
        let (listener, address) = listener();
        let mut connection = open(vec![address]).expect("a connection");
        let (_peer, _) = listener.accept().expect("a connection");
        let started = Instant::now();
        let error = connection.read(&mut [0; 10]).expect_err("nothing comes");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn read_of_slow_stream_times_out() {
        let (listener, address) = listener();
        let mut connection = open(vec![address]).expect("a connection");
        // Only the time for the whole answer is to end, however slow the other side is.
        connection.timeouts.idle = Duration::from_secs(60);
        let (mut peer, _) = listener.accept().expect("a connection");
        let dripping = thread::spawn(move || {
            while peer.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        let error = Lines::new(connection, LIMITS).next().expect_err("it never ends");
        assert!(error.to_string().contains("still not complete"), "{error}");
        dripping.join().expect("the other end has closed");
    }
}
