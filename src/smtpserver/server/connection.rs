//! A connection: its socket, its TLS, its session and what it holds.

use super::usage::Subject;
use crate::network::Network;
use crate::session::Session;
use crate::tls;
use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};
use zsched_spool::SubmissionFile;

/// Maximum number of bytes of replies that wait for a client that does not read.
const MAX_OUTPUT: usize = 64 << 10;

/// A connection.
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    pub(super) session: Session,
    pub(super) tls: Option<Box<ServerConnection>>,
    /// TLS begins when the output is sent, with this.
    pub(super) next_tls: Option<Arc<rustls::ServerConfig>>,
    /// The submission that is being written.
    pub(super) file: Option<SubmissionFile>,
    /// Number of the request that is being carried out.
    pub(super) ticket: Option<u64>,
    /// Whom it counts for.
    pub(super) client: Network,
    pub(super) subject: Subject,
    /// The login that it counts for, too.
    pub(super) login: Option<Subject>,
    pub(super) deadline: Instant,
    pub(super) progress: u64,
    pub(super) greeting: Greeting,
    /// Memory that is counted for it, in bytes.
    pub(super) memory: usize,
    pub(super) is_readable: bool,
    /// The peer has sent its last byte.
    pub(super) is_at_end: bool,
    /// Everything is sent, and so is the end of the connection.
    pub(super) is_shut: bool,
    output: Vec<u8>,
}

/// When a connection gets its greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// After this delay, which begins when TLS is agreed on.
    Delayed(Duration),
    /// At this time. Nothing may come before.
    At(Instant),
    Sent,
}

/// What reading has brought.
pub(super) enum ReadOutcome {
    Bytes(usize),
    Nothing,
    End,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        session: Session,
        client: Network,
        subject: Subject,
        delay: Duration,
        deadline: Instant,
    ) -> Connection {
        Connection {
            stream,
            session,
            tls: None,
            next_tls: None,
            file: None,
            ticket: None,
            client,
            subject,
            login: None,
            deadline,
            progress: 0,
            greeting: Greeting::Delayed(delay),
            memory: 0,
            // The socket may have bytes before its first event.
            is_readable: true,
            is_at_end: false,
            is_shut: false,
            output: Vec::new(),
        }
    }

    /// Returns true while TLS is being agreed on.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Returns true if bytes of the peer are of use now.
    pub(super) fn may_read(&self) -> bool {
        let is_wanted = self.session.wants_input() || self.is_handshaking();
        is_wanted && !self.is_at_end && self.output.len() < MAX_OUTPUT
    }

    /// Reads what the peer has sent, without TLS.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        if self.tls.is_some() {
            return self.read_tls(buffer);
        }
        match self.stream.read(buffer) {
            Ok(0) => Ok(ReadOutcome::End),
            Ok(count) => Ok(ReadOutcome::Bytes(count)),
            Err(error) => self.not_read(error),
        }
    }

    fn not_read(&mut self, error: io::Error) -> io::Result<ReadOutcome> {
        match error.kind() {
            ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(ReadOutcome::Nothing)
            }
            ErrorKind::Interrupted => Ok(ReadOutcome::Nothing),
            _ => Err(error),
        }
    }

    fn read_tls(&mut self, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        let Some(tls) = &mut self.tls else { return Ok(ReadOutcome::Nothing) };
        loop {
            if !tls.is_handshaking() {
                match tls.reader().read(buffer) {
                    Ok(0) => return Ok(ReadOutcome::End),
                    Ok(count) => return Ok(ReadOutcome::Bytes(count)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            let was_handshaking = tls.is_handshaking();
            match tls.read_tls(&mut self.stream) {
                Ok(0) => return Ok(ReadOutcome::End),
                Ok(_) => {}
                Err(error) => return self.not_read(error),
            }
            if let Err(error) = tls.process_new_packets() {
                // The peer gets the alert that says why.
                drop(tls.write_tls(&mut self.stream));
                return Err(io::Error::other(format!("TLS: {error}")));
            }
            if was_handshaking {
                return Ok(ReadOutcome::Nothing);
            }
        }
    }

    /// Sends output. Returns true if all of it is sent.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        self.output.append(&mut self.session.take_output());
        let sent = match &mut self.tls {
            None => send(&mut self.stream, &mut self.output),
            Some(tls) => send_by_tls(tls, &mut self.stream, &mut self.output),
        };
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        let is_sent = self.output.is_empty();
        if is_sent {
            self.output = Vec::new();
        }
        Ok(is_sent)
    }

    /// Memory that it takes besides what any connection does, in bytes.
    pub(super) fn used_memory(&self) -> usize {
        self.session.memory() + self.output.capacity()
    }

    /// Begins TLS.
    pub(super) fn begin_tls(&mut self, config: Arc<rustls::ServerConfig>) -> io::Result<()> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// Notifies the session that TLS has begun.
    pub(super) fn note_tls(&mut self) {
        let Some(tls) = &self.tls else { return };
        let facts = tls::facts(tls);
        match self.greeting {
            Greeting::Sent => self.session.tls_started(facts),
            _ => self.session.set_tls(facts),
        }
    }

    /// Sends the end of the connection.
    pub(super) fn shut(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            drop(tls.write_tls(&mut self.stream));
        }
        // The peer may be gone.
        drop(self.stream.shutdown(Shutdown::Write));
        self.is_shut = true;
    }
}

/// Writes all output, or as much as the socket takes.
fn send(stream: &mut impl Write, output: &mut Vec<u8>) -> io::Result<()> {
    let mut sent = 0;
    let result = loop {
        match output.get(sent..).filter(|rest| !rest.is_empty()).map(|rest| stream.write(rest)) {
            None => break Ok(()),
            Some(Ok(0)) => break Err(ErrorKind::WriteZero.into()),
            Some(Ok(count)) => sent += count,
            Some(Err(error)) => break Err(error),
        }
    };
    output.drain(..sent);
    result
}

/// Does the same by TLS, which takes a part of the output at a time.
fn send_by_tls(
    tls: &mut ServerConnection,
    stream: &mut TcpStream,
    output: &mut Vec<u8>,
) -> io::Result<()> {
    let mut sent = 0;
    let result = loop {
        // It takes nothing while its own buffer is full.
        let count = match tls.writer().write(&output[sent..]) {
            Ok(count) => count,
            Err(error) => break Err(error),
        };
        sent += count;
        match tls.wants_write() {
            true => match tls.write_tls(stream) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) => break Err(error),
            },
            false if count == 0 => break Ok(()),
            false => {}
        }
    };
    output.drain(..sent);
    result
}
