//! Connections with a deadline, and how they are opened.
//!
//! Addresses are tried one after the other; one that does not answer soon gets company from the
//! next (happy eyeballs, RFC 8305).

use crate::route::Endpoint;
use crate::source::Source;
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A connection whose reads and writes fail with `TimedOut` at a deadline.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    deadline: Instant,
    peer: Endpoint,
}

/// A socket that does not block.
#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Connection {
    /// Makes a connection of a TCP socket that is open, such as one of a test.
    pub fn of_tcp(socket: TcpStream, deadline: Instant) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let peer = Endpoint::Tcp(socket.peer_addr()?);
        Ok(Connection { socket: Socket::Tcp(socket), deadline, peer })
    }

    /// Makes a connection of a UNIX socket that is open.
    pub fn of_unix(
        socket: UnixStream,
        peer: Endpoint,
        deadline: Instant,
    ) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        Ok(Connection { socket: Socket::Unix(socket), deadline, peer })
    }

    /// Sets when reads and writes fail from now on.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Where it is connected to.
    pub fn peer(&self) -> &Endpoint {
        &self.peer
    }

    /// The address that it comes from; `None` for a UNIX socket.
    pub fn local_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            Socket::Unix(_) => None,
        }
    }

    /// The socket itself, without a deadline. It does not block.
    pub fn into_socket(self) -> OwnedFd {
        match self.socket {
            Socket::Tcp(socket) => socket.into(),
            Socket::Unix(socket) => socket.into(),
        }
    }

    /// Repeats an operation that would block, until the deadline.
    fn until_deadline<T>(
        &mut self,
        flags: PollFlags,
        mut operation: impl FnMut(&mut Socket) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match operation(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(flags)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"));
        }
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&self.as_fd(), flags)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until_deadline(PollFlags::IN, |socket| match socket {
            Socket::Tcp(socket) => socket.read(buffer),
            Socket::Unix(socket) => socket.read(buffer),
        })
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.until_deadline(PollFlags::OUT, |socket| match socket {
            Socket::Tcp(socket) => socket.write(bytes),
            Socket::Unix(socket) => socket.write(bytes),
        })
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.until_deadline(PollFlags::OUT, |socket| match socket {
            Socket::Tcp(socket) => socket.write_vectored(slices),
            Socket::Unix(socket) => socket.write_vectored(slices),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// No endpoint could be connected to.
#[derive(Debug, thiserror::Error)]
pub struct ConnectError {
    /// What became of each endpoint that was tried.
    pub attempts: Vec<(Endpoint, io::Error)>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.attempts.is_empty() {
            return write!(f, "no address to connect to");
        }
        for (number, (endpoint, error)) in self.attempts.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            write!(f, "{separator}connect to {endpoint}: {error}")?;
        }
        Ok(())
    }
}

/// Connects to the first endpoint that accepts.
///
/// Each next one is begun when the last has failed, or has not answered for `delay`.
pub(crate) async fn connect(
    endpoints: &[Endpoint],
    source: &Source,
    delay: Duration,
    deadline: Instant,
) -> Result<Connection, ConnectError> {
    let mut waiting = endpoints.iter();
    let mut pending = FuturesUnordered::new();
    let mut begun: Vec<&Endpoint> = Vec::new();
    let mut attempts = Vec::new();
    loop {
        let next = waiting.next();
        if let Some(endpoint) = next {
            begun.push(endpoint);
            pending.push(attempt(endpoint, source, deadline));
        } else if pending.is_empty() {
            return Err(ConnectError { attempts });
        }
        let until =
            if waiting.len() > 0 { (Instant::now() + delay).min(deadline) } else { deadline };
        match tokio::time::timeout_at(until.into(), pending.next()).await {
            Ok(Some((_, Ok(connection)))) => return Ok(connection),
            Ok(Some((endpoint, Err(error)))) => {
                begun.retain(|other| *other != endpoint);
                attempts.push((endpoint.clone(), error));
            }
            Ok(None) => {}
            Err(_) if Instant::now() >= deadline => {
                let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "timed out");
                attempts.extend(begun.into_iter().map(|late| (late.clone(), timed_out())));
                return Err(ConnectError { attempts });
            }
            Err(_) => {}
        }
    }
}

async fn attempt<'a>(
    endpoint: &'a Endpoint,
    source: &Source,
    deadline: Instant,
) -> (&'a Endpoint, io::Result<Connection>) {
    (endpoint, open(endpoint, source, deadline).await)
}

async fn open(endpoint: &Endpoint, source: &Source, deadline: Instant) -> io::Result<Connection> {
    let address = match endpoint {
        Endpoint::Tcp(address) => *address,
        Endpoint::Unix(path) => {
            let socket = tokio::net::UnixStream::connect(path).await?.into_std()?;
            return Connection::of_unix(socket, endpoint.clone(), deadline);
        }
    };
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    if let Some(local) = source.address_for(&address) {
        socket.bind(SocketAddr::new(local, 0)).map_err(|error| {
            io::Error::new(error.kind(), format!("bind to source address {local}: {error}"))
        })?;
    }
    Connection::of_tcp(socket.connect(address).await?.into_std()?, deadline)
}
