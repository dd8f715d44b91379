//! Reports to the senders of mail: what was delivered, what is late, what has failed.
//!
//! [`compose`] turns facts about some recipients of one message into a submission for the router:
//! the envelope, then a message in the form of RFC 3462 (`multipart/report`) with
//!
//! 1. a text for people ([`human`]),
//! 2. the same for programs, a block for each recipient (RFC 3464; [`delivery_status`]),
//! 3. the original message, or its headers ([`original`]).
//!
//! Begin with [`compose`]. This crate must not know where the facts are from, which sender gets
//! which report (`NOTIFY`), or what happens to the submission. It opens no file, reads no clock and
//! no environment: the same facts always give the same bytes.
//!
//! Addresses, answers of remote hosts and the original message are written by strangers. Each of
//! them is cut and put into one line where a format has lines, and nothing in them can end a part
//! or a header. Time and memory are linear in the size of the facts, and a report without its
//! original has at most [`MAX_LEN_WITHOUT_ORIGINAL`] bytes.
//!
//! Forms of ZMailer change sender, subject and text of a report, and add recipients ([`Form`]).

#![warn(unreachable_pub)]

mod action;
mod address;
mod boundary;
mod delivery_status;
mod envelope;
mod field;
mod form;
mod headers;
mod human;
mod language;
mod message;
mod notary;
mod original;
#[cfg(test)]
mod tests;

pub use action::{DsnAction, action_of};
pub use form::{Form, FormError, FormErrorKind, read_form_file};
pub use jiff::tz::TimeZone;
pub use language::languages;
/// Maximum number of recipients that a report lists.
///
/// A report about more recipients counts the others, and does not name them: make several reports.
pub use zsched_format::control_file::diagnostic::MAX_REPORTED_RECIPIENTS;

use zsched_format::time::Timestamp;

/// Maximum length of a report without the original message, in bytes.
pub const MAX_LEN_WITHOUT_ORIGINAL: usize = 16 * 1024 * 1024;

/// The facts of a report.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The program that reports.
    pub kind: ReportKind,
    /// Domain name of this installation.
    pub reporting_mta: &'a str,
    /// `user@host` that submits the report, for the line `rcvdfrom`.
    pub submitter: &'a str,
    /// Unique id of the report, for its Message-ID and its boundary.
    ///
    /// It has letters, digits, `-` and `.`; other characters are left out.
    pub id: &'a str,
    /// The address for reports.
    ///
    /// `None` or empty for a message that is a report itself. Only the addresses of the form get
    /// the report then ("double fault").
    pub sender: Option<&'a [u8]>,
    /// Spool id of the message.
    pub spool_id: &'a str,
    /// `ENVID` of the message, in xtext.
    pub envelope_id: Option<&'a [u8]>,
    /// Arrival of the message.
    pub arrival: Timestamp,
    /// Date of the report.
    pub now: Timestamp,
    /// Time zone of the dates.
    pub zone: TimeZone,
    /// The recipients to report; others are left out, and so are those without an [`DsnAction`].
    pub recipients: Vec<RecipientStatus<'a>>,
    /// The headers of the message, each line with its line end.
    pub headers: &'a [u8],
    /// The body of the message; `None` if only its headers go back.
    pub body: Option<&'a [u8]>,
}

/// The program that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// The scheduler: the subject of a form gets the number of recipients of each action.
    Delivery,
    /// The agent `errormail`, about what the router refused.
    ///
    /// The subject of the form stays. A report that cannot be delivered is dropped.
    Routing,
}

/// What happened to a recipient.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecipientStatus<'a> {
    /// The address on the recipient's line.
    pub address: &'a [u8],
    /// The channel on that line.
    pub channel: &'a [u8],
    /// The host on that line.
    pub host: &'a [u8],
    /// `ORCPT`: `type;xtext`.
    pub original_recipient: Option<&'a [u8]>,
    /// `INRCPT`: `type;xtext`.
    pub arrived_as: Option<&'a [u8]>,
    /// Notary data: address, action, status, diagnostic code, remote host and agent.
    ///
    /// Fields may be missing, and more may follow.
    pub notary: &'a [u8],
    /// Text of the agent for people, in which a CR stands for a line break.
    pub text: &'a [u8],
    /// Time of the last attempt; `None` if there was none, or if it is unknown.
    pub time: Option<Timestamp>,
    /// When a late recipient expires.
    pub retry_until: Option<Timestamp>,
}

/// Composes a report: a complete file for `POSTOFFICE/router`.
///
/// Returns `None` if the report goes to no address, or is about no recipient.
pub fn compose(report: &Report<'_>, form: &Form) -> Option<Vec<u8>> {
    envelope::has_recipients(report, form).then(|| compose_unaddressed(report, form))?
}

/// Composes a report, even if it goes to no address.
///
/// Returns `None` if it is about no recipient.
pub fn compose_unaddressed(report: &Report<'_>, form: &Form) -> Option<Vec<u8>> {
    let outcomes = notary::outcomes(report);
    if outcomes.is_empty() {
        return None;
    }
    let mut file = envelope::envelope(report, form);
    message::write(report, form, &outcomes, &mut file);
    Some(file)
}
