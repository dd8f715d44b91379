//! A connection: its socket, its TLS, its session and what it holds.

use crate::network::Network;
use crate::session::Session;
use crate::tls;
use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Instant;
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
    pub(super) client: Network,
    /// It counts for its client.
    pub(super) is_counted: bool,
    pub(super) deadline: Instant,
    pub(super) progress: u64,
    pub(super) failed_logins: u32,
    /// The login for which it counts.
    pub(super) counted_login: Option<String>,
    /// The greeting is still to come.
    pub(super) awaits_greeting: bool,
    pub(super) is_readable: bool,
    /// The peer has sent its last byte.
    pub(super) is_at_end: bool,
    /// Everything is sent, and so is the end of the connection.
    pub(super) is_shut: bool,
    output: Vec<u8>,
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
            is_counted: false,
            deadline,
            progress: 0,
            failed_logins: 0,
            counted_login: None,
            awaits_greeting: true,
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
            Some(tls) => {
                let mut result = Ok(());
                while !self.output.is_empty() && result.is_ok() {
                    match tls.writer().write(&self.output) {
                        Ok(0) => break,
                        Ok(count) => drop(self.output.drain(..count)),
                        Err(error) => result = Err(error),
                    }
                }
                while tls.wants_write() && result.is_ok() {
                    result = tls.write_tls(&mut self.stream).map(drop);
                }
                result
            }
        };
        match sent {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(error) => return Err(error),
        }
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        Ok(self.output.is_empty())
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
        match self.awaits_greeting {
            true => self.session.set_tls(facts),
            false => self.session.tls_started(facts),
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

/// Writes as much as the socket takes.
fn send(stream: &mut TcpStream, output: &mut Vec<u8>) -> io::Result<()> {
    while !output.is_empty() {
        let count = stream.write(output)?;
        output.drain(..count);
    }
    Ok(())
}
