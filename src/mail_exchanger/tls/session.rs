//! A connection that TLS protects, and the facts about it.

use super::error::TlsError;
use crate::connection::Connection;
use rustls::{ClientConnection, HandshakeKind, ProtocolVersion, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use std::time::Instant;

/// A stream that TLS protects.
///
/// A peer that closes its connection without `close_notify` has sent the end: replies of SMTP and
/// LMTP tell themselves if they are complete.
pub struct TlsStream<S: Read + Write> {
    stream: StreamOwned<ClientConnection, S>,
    session: TlsSession,
}

/// The facts about a TLS session, for diagnostics and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSession {
    /// Version, such as `TLSv1.3`.
    pub version: &'static str,
    /// Cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// Length of the cipher's key, in bits.
    pub bits: u16,
    /// True if an earlier session goes on.
    pub is_resumed: bool,
    /// How the host was verified.
    pub verified: Verified,
    /// Where the policy is from ([`crate::TlsPolicy::reason`]).
    pub policy: String,
}

/// How a host was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Not at all: the policy does not ask for it.
    NotAsked,
    /// By a certificate from a known authority.
    ByAuthority,
    /// By TLSA records.
    ByDane,
    /// The certificate is not accepted, but the policy only tests.
    Failed(TlsError),
}

impl<S: Read + Write> TlsStream<S> {
    pub(super) fn new(
        connection: ClientConnection,
        stream: S,
        verified: Verified,
        policy: &str,
    ) -> TlsStream<S> {
        let cipher = connection.negotiated_cipher_suite();
        let name = cipher.map(|cipher| format!("{:?}", cipher.suite())).unwrap_or_default();
        let session = TlsSession {
            version: match connection.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLS",
            },
            bits: if name.contains("AES_128") { 128 } else { 256 },
            cipher: name.replace("TLS13_", "TLS_"),
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            verified,
            policy: policy.to_string(),
        };
        TlsStream { stream: StreamOwned::new(connection, stream), session }
    }

    /// The facts about the session.
    pub fn session(&self) -> &TlsSession {
        &self.session
    }

    /// The stream below.
    pub fn inner(&self) -> &S {
        &self.stream.sock
    }

    /// The stream below, to set its deadline.
    pub fn inner_mut(&mut self) -> &mut S {
        &mut self.stream.sock
    }

    /// Sends the end of the session to the peer (close_notify). Errors are ignored.
    pub fn close(mut self) {
        self.stream.conn.send_close_notify();
        self.stream.conn.complete_io(&mut self.stream.sock).ok();
    }
}

impl TlsStream<Connection> {
    /// Sets when reads and writes fail from now on.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.inner_mut().set_deadline(deadline);
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            done => done,
        }
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl fmt::Display for TlsSession {
    /// Formats as `TLSv1.3 with cipher TLS_AES_256_GCM_SHA384 (256 bits), verified by DANE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with cipher {} ({} bits), ", self.version, self.cipher, self.bits)?;
        match &self.verified {
            Verified::NotAsked => write!(f, "not verified")?,
            Verified::ByAuthority => write!(f, "verified by an authority")?,
            Verified::ByDane => write!(f, "verified by DANE")?,
            Verified::Failed(error) => write!(f, "not verified: {error}")?,
        }
        if self.is_resumed { write!(f, ", resumed") } else { Ok(()) }
    }
}
