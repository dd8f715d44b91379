//! Message control files: what the router wrote, and what agents and scheduler note in it.
//!
//! A control file is text. Each line begins with a one-byte field id and a one-byte tag; the header
//! blocks `m` and `M` run to the first empty line. A recipient is known everywhere by the *offset* of
//! its `r` line, so no byte before or inside the recipient area ever moves: the only changes are tag
//! and pid bytes in place ([`mark`]) and `d` lines appended at the end ([`diagnostic`]).
//!
//! ```text
//! @ 0x00000007                                        format bits
//! i 4711                                              name of both files of the message
//! o 212                                               offset of the body in the message file
//! l <1@relay.example.org>                             text that names the message in logs
//! s local - alice@example.org 1001                    sender:    channel host user privilege
//! r           smtp mx.example.net bob@example.net 1001   recipient: tag, 6 of pid, 4 reserved, quad
//! N NOTIFY=FAILURE,DELAY                              DSN wishes of the recipient above
//! m                                                   headers of the group, to the empty line
//! Received: ...
//! ```
//!
//! Sources: ZMailer `scheduler(8)`, MESSAGE CONTROL FILE SYNTAX, and its programs' behaviour, set
//! down in `man/control-file.5`.

pub mod compose;
mod contents;
pub mod diagnostic;
pub mod mark;
mod message_id;
pub mod notify;
mod parse;
mod quad;
mod tag;

pub use contents::{LARGE, LARGEST, contents};
pub use message_id::message_id;
pub use parse::{parse, parse_part};
pub use quad::Quad;
pub use tag::{PidField, Tag};

use serde::{Deserialize, Serialize};

/// Bits of the `@` line: which columns the file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Recipient lines have a column of 6 bytes for the pid of the agent that holds the lock.
    pub pid_column: bool,
    /// Recipient lines have a column of 4 bytes, reserved for delay reports.
    pub delay_column: bool,
}

/// A stretch of the control file's text, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset of the first byte after the stretch.
    pub end: u32,
}

/// A parsed control file: its text, and where the fields are in it.
#[derive(Clone, Debug)]
pub struct ControlFile {
    /// The file as it was read.
    pub text: Vec<u8>,
    /// `i`: name of the message file in `queue/` and of the control file in `transport/`. Only a
    /// file of `T` lines has none.
    pub name: Option<Span>,
    /// `o`: offset of the body in the message file, in bytes.
    pub body_offset: Option<u64>,
    /// `l`: the text that names the message in logs, usually its Message-ID.
    pub log_id: Option<Span>,
    /// `e`: the address for error reports; a sender line after it wins over it.
    pub error_address: Option<Span>,
    /// `v`: the file that verbose progress is appended to.
    pub verbose: Option<Span>,
    /// `n`: the envelope id of the message, xtext (RFC 3461, 4.4).
    pub envelope_id: Option<Span>,
    /// `R`: `FULL` or `HDRS`, what a report returns (RFC 3461, 4.3).
    pub return_mode: Option<Span>,
    /// `p`: how urgent the message is, 0 to 9, 0 first. Not one of ZMailer's fields, and ignored by its
    /// programs.
    pub priority: Option<u8>,
    /// `x`: older messages that this one replaces.
    pub obsoletes: Vec<Span>,
    /// `T`: hosts whose threads are to be started (ETRN).
    pub turns: Vec<Span>,
    /// `s` lines, in file order.
    pub senders: Vec<Sender>,
    /// `r` lines, in file order, whatever their tag.
    pub recipients: Vec<Recipient>,
    /// `m` blocks, in file order.
    pub headers: Vec<HeaderBlock>,
    /// Offset of the `m` or `M` block that no empty line ends before the end of the file.
    pub block_without_end: Option<u32>,
    /// `d` lines, in file order.
    pub diagnostics: Vec<DiagnosticLine>,
    /// Lines nobody can deliver, but that must not be lost: `X` alternatives, and recipients that
    /// cannot be read or whose tag is none of ours.
    pub undeliverable: Vec<ControlFileError>,
}

/// An `s` line.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Offset of the line.
    pub offset: u32,
    /// Channel, host, user and privilege of the sender.
    pub quad: Quad,
}

/// An `r` line.
#[derive(Clone, Copy, Debug)]
pub struct Recipient {
    /// Offset of the line: the name of this recipient in every report about it.
    pub offset: u32,
    /// What has become of it so far.
    pub tag: Tag,
    /// The pid column, where the file has one.
    pub lock: Option<PidField>,
    /// Channel, host, user and privilege, as written (the scheduler folds case, agents do not).
    pub quad: Quad,
    /// Which of [`ControlFile::senders`] it belongs to.
    pub sender: Option<u32>,
    /// Which of [`ControlFile::headers`] it belongs to.
    pub headers: Option<u32>,
    /// Its `N` line, if it has one.
    pub notify: Option<NotifyLine>,
}

/// An `N` line: the DSN wishes of one recipient.
#[derive(Clone, Copy, Debug)]
pub struct NotifyLine {
    /// Offset of the line.
    pub offset: u32,
    /// Everything behind id and tag.
    pub value: Span,
}

/// An `m` block: the message headers of one group of recipients.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBlock {
    /// Offset of the `m`.
    pub offset: u32,
    /// The headers, last line end included, without the empty line that ends the block.
    pub text: Span,
}

/// A `d` line: a diagnostic that is, or was, owed to the sender.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticLine {
    /// Offset of the line.
    pub offset: u32,
    /// Whether the report about it has been sent.
    pub reported: bool,
    /// Everything behind id and tag.
    pub value: Span,
}

/// Why a control file cannot be used, and where in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("offset {offset}: {reason}")]
pub struct ControlFileError {
    /// Offset of the line, in bytes.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: String,
    /// The line is an `@` line with format bits that we do not know: a newer program wrote it.
    pub unknown_format: bool,
}

impl ControlFileError {
    /// An error at an offset.
    pub fn new(offset: usize, reason: impl Into<String>) -> ControlFileError {
        ControlFileError { offset, reason: reason.into(), unknown_format: false }
    }
}

impl ControlFile {
    /// The bytes of a span of this file.
    pub fn get(&self, span: Span) -> &[u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The name of the message and control file, as the `i` line gives it.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.map(|span| self.get(span))
    }

    /// The header block that belongs to a recipient.
    pub fn headers_of(&self, recipient: &Recipient) -> Option<&HeaderBlock> {
        self.headers.get(recipient.headers? as usize)
    }

    /// The sender that a recipient was written under.
    pub fn sender_of(&self, recipient: &Recipient) -> Option<&Sender> {
        self.senders.get(recipient.sender? as usize)
    }

    /// The envelope sender of a recipient. `None` for the null sender of error messages.
    pub fn sender_address(&self, recipient: &Recipient) -> Option<&[u8]> {
        let quad = self.sender_of(recipient)?.quad;
        let address = self.get(quad.user);
        let is_null = self.get(quad.channel) == b"error" || matches!(address, b"" | b"-" | b"<>");
        (!is_null).then_some(address)
    }

    /// The recipient whose line begins at `offset`.
    pub fn recipient_at(&self, offset: u32) -> Option<&Recipient> {
        let index = self.recipients.binary_search_by_key(&offset, |r| r.offset).ok()?;
        Some(&self.recipients[index])
    }
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        // The parser refuses files beyond u32::MAX bytes before it makes any span.
        Span { start: start as u32, end: end as u32 }
    }
}
