//! The dialogue of SMTP and LMTP, as state machines without sockets or clocks.
//!
//! [`Handshake`] goes from the greeting to a session that takes mail, [`Transaction`] sends one
//! message to some recipients. Both implement [`Dialogue`]: the caller asks for the [`Step`] to do,
//! does it, and passes on each [`Reply`] that a [`ReplyParser`] finds in the bytes of the peer.

mod authentication;
mod capabilities;
mod envelope;
mod handshake;
mod reply;
mod transaction;

pub use authentication::{Credentials, Mechanism};
pub use capabilities::{Capabilities, Extensions, Limits};
pub use envelope::{DeliverBy, Envelope, EnvelopeRecipient, Refusal, is_safe_address};
pub use handshake::{Handshake, HandshakeFailure, HandshakeOptions, TlsUse};
pub use reply::{Reply, ReplyError, ReplyParser};
pub use transaction::{Exchange, RecipientState, Transaction, TransactionOptions};

/// What the caller does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Waits for a reply, at most as long as the phase allows.
    Receive(Phase),
    /// Begins TLS on the connection, then calls `tls_started` or gives up.
    StartTls,
    /// Sends the message, encoded in this form.
    SendContent(ContentForm),
    /// The dialogue is over.
    Finished,
}

/// A wait for the peer, for its time limit (RFC 5321, 4.5.3.2) and for diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The connection is made.
    Connect,
    /// The greeting is awaited.
    Greeting,
    /// A reply to EHLO, HELO, LHLO, STARTTLS or AUTH is awaited.
    Hello,
    /// A reply to MAIL, RCPT or RSET is awaited.
    Command,
    /// A reply to DATA is awaited.
    Data,
    /// The message is sent.
    Content,
    /// The reply to the end of the message is awaited.
    End,
    /// QUIT is sent.
    Quit,
}

impl Phase {
    /// The phase in words: `while waiting for the greeting`.
    pub fn words(self) -> &'static str {
        match self {
            Phase::Connect => "while connecting",
            Phase::Greeting => "while waiting for the greeting",
            Phase::Hello => "while waiting for the reply to EHLO, STARTTLS or AUTH",
            Phase::Command => "while waiting for the reply to MAIL or RCPT",
            Phase::Data => "while waiting for the reply to DATA",
            Phase::Content => "while sending the message",
            Phase::End => "while waiting for the reply to the end of the message",
            Phase::Quit => "while ending the session",
        }
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentForm {
    /// A message in lines, ended by a dot (DATA).
    ///
    /// Lines with a leading dot get another one.
    Dotted,
    /// As counted before (BDAT).
    Counted,
}

/// A dialogue as a state machine.
pub trait Dialogue {
    /// What to do next. It does not change until it has been done.
    fn step(&mut self) -> Step;

    /// Takes the reply that [`Step::Receive`] has waited for.
    fn on_reply(&mut self, reply: Reply);

    /// The whole message has been sent.
    fn on_content_sent(&mut self) {}
}

/// The protocol of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// SMTP (RFC 5321).
    #[default]
    Smtp,
    /// LMTP (RFC 2033): one reply a recipient after the end of the message.
    Lmtp,
}
