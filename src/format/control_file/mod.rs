//! Message control files, which routers write and agents update.
//!
//! A control file is text. Each line begins with a one-byte field id and a one-byte tag. The header
//! blocks `m` and `M` extend to the first empty line.
//!
//! Every program identifies a recipient by the *offset* of its `r` line. So no byte before or
//! inside the recipient area ever moves. The only changes are tag and pid bytes in place
//! ([`mark`]), `d` lines appended at the end ([`diagnostic`]), and recipients that take the place
//! of failed ones ([`Alternative`]).
//!
//! ```text
//! @ 0x00000007                                        format bits
//! i 4711                                              name of both files of the message
//! o 212                                               offset of the body in the message file
//! l <1@relay.example.org>                             text that names the message in logs
//! s local - alice@example.org 1001                    sender:    channel host user privilege
//! r           smtp mx.example.net bob@example.net 1001   recipient: tag, 6 of pid, 4 reserved, quad
//! N NOTIFY=FAILURE,DELAY                              DSN parameters of the recipient above
//! m                                                   headers of the group, to the empty line
//! Received: ...
//! ```
//!
//! Sources: ZMailer `scheduler(8)`, MESSAGE CONTROL FILE SYNTAX, and the behaviour of its programs,
//! documented in `man/control-file.5`.

pub mod compose;
mod contents;
pub mod diagnostic;
pub mod mark;
mod message_id;
pub mod notify;
mod parse;
mod quad;
mod tag;

pub use contents::{MAX_CONTROL_FILE_SIZE, MAX_QUERY_SIZE, USUAL_CONTROL_FILE_SIZE, read_all};
pub use message_id::{bare_message_id, message_id};
pub use parse::{parse, parse_part};
pub use quad::Quad;
pub use tag::{PidField, Tag};

use memchr::memmem::Finder;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::LazyLock;

/// Bits of the `@` line: the columns that recipient lines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// A column of 6 bytes for the pid of the agent that holds the lock.
    pub pid_column: bool,
    /// A column of 4 bytes, reserved for delay reports.
    pub delay_column: bool,
}

/// A range of bytes of the control file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset of the first byte after the range.
    pub end: u32,
}

/// A parsed control file: its text, and the positions of its fields.
///
/// The usual file has one sender, one recipient and one header block, which need no memory of their
/// own.
#[derive(Clone, Debug, Default)]
pub struct ControlFile {
    /// The text of the file.
    pub text: Vec<u8>,
    /// `i`: name of the message file in `queue/` and of the control file in `transport/`.
    ///
    /// Only a file of `T` lines may have none.
    pub name: Option<Span>,
    /// `o`: offset of the body in the message file, in bytes.
    pub body_offset: Option<u64>,
    /// `l`: the text that names the message in logs, usually its Message-ID.
    pub log_id: Option<Span>,
    /// `e`: the address for error reports. A sender line after it takes precedence.
    pub error_address: Option<Span>,
    /// `v`: the file to which verbose progress is appended.
    pub verbose: Option<Span>,
    /// `n`: the envelope id of the message, xtext (RFC 3461, 4.4).
    pub envelope_id: Option<Span>,
    /// `R`: `FULL` or `HDRS`, the content of a report (RFC 3461, 4.3).
    pub return_mode: Option<Span>,
    /// `p`: priority of the message, from 0 (first) to 9, or [`crate::priority::KEPT_PRIORITY`].
    ///
    /// The field is not ZMailer's, and its programs ignore it.
    pub priority: Option<u8>,
    /// `T`: hosts whose threads are to be started (ETRN).
    pub etrn_hosts: Vec<Span>,
    /// `s` lines, in file order.
    pub senders: SmallVec<[Sender; 1]>,
    /// `r` lines, in file order, with any tag.
    pub recipients: SmallVec<[Recipient; 1]>,
    /// `X` lines, in file order, except those that are disabled by their tag.
    pub alternatives: Vec<Alternative>,
    /// Recipients that were appended, but are not enabled yet.
    pub prepared: Vec<PreparedRecipient>,
    /// `x`: messages that this one replaces, by spool id or Message-ID.
    pub obsoletes: Vec<Span>,
    /// `m` blocks, in file order.
    pub headers: SmallVec<[HeaderBlock; 1]>,
    /// Offset of an `m` or `M` block that no empty line ends.
    pub unterminated_block: Option<u32>,
    /// True if that block is the end of an append that a kill has cut short.
    pub has_torn_append: bool,
    /// `d` lines, in file order.
    pub diagnostics: Vec<DiagnosticLine>,
    /// Lines that cannot be delivered, but must not be lost.
    ///
    /// They are malformed recipients, and recipients with an unknown tag.
    pub undeliverable_lines: Vec<ControlFileError>,
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
    /// Offset of the line, which identifies the recipient in every report.
    pub offset: u32,
    /// The state of the recipient.
    pub tag: Tag,
    /// The pid column, if the file has one.
    pub lock: Option<PidField>,
    /// Channel, host, user and privilege as written (the scheduler folds case, agents do not).
    pub quad: Quad,
    /// Index of its sender in [`ControlFile::senders`].
    pub sender: Option<u32>,
    /// Index of its headers in [`ControlFile::headers`].
    pub headers: Option<u32>,
    /// Its `N` line, if it has one.
    pub notify: Option<NotifyLine>,
}

/// An `X` line: a recipient that is tried only when the one before it in its class has failed.
///
/// The lines of one sender and one header block with the same number are a class, in file order.
/// An `r` line that is appended later makes one of them a recipient
/// ([`notify::AlternativeOf`]).
#[derive(Clone, Copy, Debug)]
pub struct Alternative {
    /// Offset of the line.
    pub offset: u32,
    /// Blank until it is a recipient.
    pub tag: Tag,
    /// Number of its class.
    pub class: u32,
    /// Channel, host, user and privilege as written.
    pub quad: Quad,
    /// Index of its sender in [`ControlFile::senders`].
    pub sender: Option<u32>,
    /// Index of its headers in [`ControlFile::headers`].
    pub headers: Option<u32>,
    /// Its `N` line, if it has one.
    pub notify: Option<NotifyLine>,
}

/// An appended recipient with the tag [`PREPARED`], and its sender.
#[derive(Clone, Copy, Debug)]
pub struct PreparedRecipient {
    /// Offset of the `r` line.
    pub offset: u32,
    /// Offset of the `s` line before it, which has the same tag.
    pub sender: Option<u32>,
}

/// Tag of an appended `s` or `r` line.
///
/// The line is not on disk yet as a whole.
///
/// All programs ignore such a line. So a recipient that a crash has cut short is never used.
pub const PREPARED: u8 = b'*';

/// Id of the line that ends an append of recipients.
///
/// Its value is the length of the append up to this line, for programs that read the file from its
/// end. The field is not ZMailer's, and its programs ignore it.
pub const END_OF_APPEND: u8 = b'A';

/// Returns true if lines that were appended to a control file may have recipients.
pub fn has_appended_recipients(appended: &[u8]) -> bool {
    let end = [b'\n', END_OF_APPEND, b' '];
    appended.starts_with(&end[1..]) || memchr::memmem::find(appended, &end).is_some()
}

/// Finds the first empty line after other lines. Returns the position of the line end before it.
///
/// The finder is built once: to build it takes longer than to search the headers of most messages.
pub fn find_empty_line(text: &[u8]) -> Option<usize> {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\n\n"));
    FINDER.find(text)
}

/// An `N` line: the DSN parameters of one recipient.
#[derive(Clone, Copy, Debug)]
pub struct NotifyLine {
    /// Offset of the line.
    pub offset: u32,
    /// The text after id and tag.
    pub value: Span,
}

/// An `m` block: the message headers of one group of recipients.
#[derive(Clone, Copy, Debug)]
pub struct HeaderBlock {
    /// Offset of the `m`.
    pub offset: u32,
    /// The headers with their last line end, without the empty line that ends the block.
    pub text: Span,
}

/// A `d` line: a diagnostic for the report to the sender.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosticLine {
    /// Offset of the line.
    pub offset: u32,
    /// True if the report about it has been sent.
    pub reported: bool,
    /// The text after id and tag.
    pub value: Span,
}

/// An error in a control file, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct ControlFileError {
    /// Offset of the line, in bytes.
    pub offset: usize,
    /// The error message.
    pub reason: String,
    /// True for an `@` line with unknown format bits: a newer program wrote it.
    pub unknown_format: bool,
}

impl fmt::Display for ControlFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}: {}", self.offset, self.reason)
    }
}

impl Error for ControlFileError {}

/// A malformed file is invalid data. The error can be taken out again by `downcast`.
impl From<ControlFileError> for io::Error {
    fn from(error: ControlFileError) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, error)
    }
}

impl ControlFileError {
    /// Creates an error at an offset.
    pub fn new(offset: usize, reason: impl Into<String>) -> ControlFileError {
        ControlFileError { offset, reason: reason.into(), unknown_format: false }
    }
}

impl ControlFile {
    /// The bytes of a span.
    pub fn get(&self, span: Span) -> &[u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The name of the message file and control file, from the `i` line.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.map(|span| self.get(span))
    }

    /// The header block of a recipient.
    pub fn headers_of(&self, recipient: &Recipient) -> Option<&HeaderBlock> {
        self.headers.get(recipient.headers? as usize)
    }

    /// The sender of a recipient.
    pub fn sender_of(&self, recipient: &Recipient) -> Option<&Sender> {
        self.senders.get(recipient.sender? as usize)
    }

    /// The envelope sender of a recipient; `None` for the null sender of error messages.
    pub fn sender_address(&self, recipient: &Recipient) -> Option<&[u8]> {
        let quad = self.sender_of(recipient)?.quad;
        let address = self.get(quad.user);
        let is_null = self.get(quad.channel) == b"error" || matches!(address, b"" | b"-" | b"<>");
        (!is_null).then_some(address)
    }

    /// Returns true if a recipient's sender is that of the message.
    ///
    /// The sender of a list's member is the owner of the list.
    ///
    /// The message of a list has a new envelope, to which the DSN parameters of the sender's `MAIL`
    /// command do not apply (RFC 3461, 5.2.7.3).
    pub fn has_original_envelope(&self, recipient: &Recipient) -> bool {
        let address = |sender: &Sender| self.get(sender.quad.user);
        self.sender_of(recipient).map(address) == self.senders.first().map(address)
    }

    /// The envelope id of a recipient's envelope, in xtext (RFC 3461, 4.4).
    pub fn envelope_id_of(&self, recipient: &Recipient) -> Option<&[u8]> {
        let id = self.envelope_id.filter(|_| self.has_original_envelope(recipient));
        id.map(|id| self.get(id).trim_ascii())
    }

    /// `FULL` or `HDRS` of a recipient's envelope (RFC 3461, 4.3).
    pub fn return_mode_of(&self, recipient: &Recipient) -> Option<&[u8]> {
        let mode = self.return_mode.filter(|_| self.has_original_envelope(recipient));
        mode.map(|mode| self.get(mode).trim_ascii())
    }

    /// The text of a quad, as written.
    pub fn text_of(&self, quad: &Quad) -> &[u8] {
        &self.text[quad.channel.start as usize..quad.privilege.end as usize]
    }

    /// The `X` line that begins at `offset`.
    pub fn alternative_at(&self, offset: u32) -> Option<&Alternative> {
        let index = self.alternatives.binary_search_by_key(&offset, |line| line.offset).ok()?;
        Some(&self.alternatives[index])
    }

    /// The recipient whose line begins at `offset`.
    pub fn recipient_at(&self, offset: u32) -> Option<&Recipient> {
        let index = self.recipients.binary_search_by_key(&offset, |r| r.offset).ok()?;
        Some(&self.recipients[index])
    }
}

impl Span {
    fn new(start: usize, end: usize) -> Span {
        // The parser refuses files beyond `u32::MAX` bytes before it creates any span.
        Span { start: start as u32, end: end as u32 }
    }
}
