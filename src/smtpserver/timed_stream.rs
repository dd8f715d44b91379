//! A connection to a service, which may send bytes slowly or never.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A socket with timeouts.
pub(crate) trait Socket: Read + Write {
    fn set_read_timeout(&self, time: Duration) -> io::Result<()>;
    fn set_write_timeout(&self, time: Duration) -> io::Result<()>;
}

impl Socket for UnixStream {
    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        UnixStream::set_read_timeout(self, Some(time))
    }

    fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        UnixStream::set_write_timeout(self, Some(time))
    }
}

impl Socket for TcpStream {
    fn set_read_timeout(&self, time: Duration) -> io::Result<()> {
        TcpStream::set_read_timeout(self, Some(time))
    }

    fn set_write_timeout(&self, time: Duration) -> io::Result<()> {
        TcpStream::set_write_timeout(self, Some(time))
    }
}

/// A stream whose reads end at a time, however slowly bytes come.
pub(crate) struct TimedStream<S> {
    stream: S,
    end: Instant,
}

impl<S: Socket> TimedStream<S> {
    /// Wraps a stream. Reads fail after `max_time`, and so does a write that takes as long.
    pub(crate) fn new(stream: S, max_time: Duration) -> io::Result<TimedStream<S>> {
        stream.set_write_timeout(max_time)?;
        Ok(TimedStream { stream, end: Instant::now() + max_time })
    }
}

impl<S: Socket> Read for TimedStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        self.stream.read(buffer)
    }
}

impl<S: Socket> Write for TimedStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_bytes_do_not_put_off_the_end() {
        let (mut peer, stream) = UnixStream::pair().expect("a pair");
        let sender = std::thread::spawn(move || while peer.write_all(b"x").is_ok() {});
        let mut stream = TimedStream::new(stream, Duration::from_millis(100)).expect("set");
        let error = io::copy(&mut stream, &mut io::sink()).expect_err("it would go on for ever");
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        drop(stream);
        sender.join().expect("it ends when nothing is read");
    }
}
