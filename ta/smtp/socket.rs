//! A socket whose reads and writes end in time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zsched_agent::StopFlag;

/// Shortest timeout that is given to the system, which takes zero for no timeout.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// A connected socket.
pub struct Socket {
    stream: SocketStream,
    deadline: Instant,
    /// The timeouts that the system has.
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    limit: Duration,
    is_first: bool,
    stop: StopFlag,
    /// False while a signal must not end a wait.
    may_stop: bool,
}

/// The kinds of sockets.
pub enum SocketStream {
    /// TCP.
    Tcp(TcpStream),
    /// A UNIX socket.
    Unix(UnixStream),
}

impl Socket {
    /// Wraps a connected socket. `stop` ends waits.
    pub fn new(stream: SocketStream, stop: StopFlag) -> Socket {
        if let SocketStream::Tcp(stream) = &stream {
            // Commands are sent at once; without it they are only slower.
            stream.set_nodelay(true).ok();
        }
        Socket {
            stream,
            deadline: Instant::now(),
            read_timeout: None,
            write_timeout: None,
            limit: Duration::ZERO,
            is_first: true,
            stop,
            may_stop: true,
        }
    }

    /// Sets the time for all that follows, until the next call.
    pub fn begin(&mut self, limit: Duration, may_stop: bool) {
        self.deadline = Instant::now() + limit;
        (self.limit, self.is_first, self.may_stop) = (limit, true, may_stop);
    }

    /// Returns true if the peer has not received all that was written.
    ///
    /// False where the system cannot say it.
    pub fn has_unacknowledged(&self) -> bool {
        match &self.stream {
            SocketStream::Tcp(stream) => {
                zsched_sys::unacknowledged_len(stream).is_ok_and(|count| count > 0)
            }
            SocketStream::Unix(_) => false,
        }
    }

    /// Makes reads and writes return at once, or wait again.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match &self.stream {
            SocketStream::Tcp(stream) => stream.set_nonblocking(nonblocking),
            SocketStream::Unix(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// The timeout of the next call of the system.
    ///
    /// The first one of a step gets the whole limit: in most cases the system has it already.
    fn timeout(&mut self) -> io::Result<Duration> {
        if self.is_first {
            self.is_first = false;
            return Ok(self.limit.max(MIN_TIMEOUT));
        }
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(left.max(MIN_TIMEOUT)),
        }
    }

    /// What an error of the system means: an interruption is no error unless the agent is stopped.
    fn interpret(&self, error: io::Error) -> Result<(), io::Error> {
        match error.kind() {
            ErrorKind::Interrupted if self.may_stop && self.stop.is_requested() => {
                Err(io::Error::new(ErrorKind::ConnectionAborted, Stopped))
            }
            ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }
}

/// The agent has been stopped while it waited.
#[derive(Debug, thiserror::Error)]
#[error("the agent has been stopped")]
pub struct Stopped;

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let timeout = self.timeout()?;
            if self.read_timeout != Some(timeout) {
                match &self.stream {
                    SocketStream::Tcp(stream) => stream.set_read_timeout(Some(timeout))?,
                    SocketStream::Unix(stream) => stream.set_read_timeout(Some(timeout))?,
                }
                self.read_timeout = Some(timeout);
            }
            let read = match &mut self.stream {
                SocketStream::Tcp(stream) => stream.read(buffer),
                SocketStream::Unix(stream) => stream.read(buffer),
            };
            match read {
                Ok(count) => return Ok(count),
                Err(error) => self.interpret(error)?,
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let timeout = self.timeout()?;
            if self.write_timeout != Some(timeout) {
                match &self.stream {
                    SocketStream::Tcp(stream) => stream.set_write_timeout(Some(timeout))?,
                    SocketStream::Unix(stream) => stream.set_write_timeout(Some(timeout))?,
                }
                self.write_timeout = Some(timeout);
            }
            let written = match &mut self.stream {
                SocketStream::Tcp(stream) => stream.write(bytes),
                SocketStream::Unix(stream) => stream.write(bytes),
            };
            match written {
                Ok(count) => return Ok(count),
                Err(error) => self.interpret(error)?,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
