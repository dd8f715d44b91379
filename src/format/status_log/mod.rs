//! Status log: a JSON object for each attempt at a recipient, and for each report to a sender.
//!
//! ```text
//!  core: Action::Status ──► writer (src/daemon/spool_io): finds sender, recipient, message id in the
//!                                  │                   control file, composes the line
//!                                  ├──bounded──► appender (src/daemon/logging/background.rs)
//!        reporter (reports that it has sent)
//!  later: mailq trace ◄── FILE, FILE.1, FILE.2.gz
//! ```
//!
//! `docs/status-log.md` describes the fields; a test checks that it has them all.

mod hold;
mod report;
mod smtp;
mod tls;

pub use hold::{HoldLine, HoldOrder};
pub use report::ReportLine;
pub use smtp::{SmtpClient, SmtpLine, SmtpStatus};
pub use tls::TlsLine;

use crate::time::{Timestamp, format_time};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Maximum length of a line that a reader must expect, in bytes.
///
/// A line has some texts of 2 kB, each byte of which may need six, and addresses.
pub const MAX_LINE_LEN: usize = 256 * 1024;

/// Line about a recipient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusLine<'a> {
    /// Time of the result, RFC 3339 in UTC, with milliseconds.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// Spool id of the message.
    #[serde(borrow)]
    pub spool_id: Cow<'a, str>,
    /// Message-ID, with its angle brackets.
    pub message_id: Option<Cow<'a, str>>,
    /// Address of the sender.
    pub sender: Option<Cow<'a, str>>,
    /// Address of the recipient.
    pub recipient: Option<Cow<'a, str>>,
    /// Channel of the recipient.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Host of the recipient.
    #[serde(borrow)]
    pub host: Cow<'a, str>,
    /// Pid of the agent that made the attempt.
    pub agent: Option<u32>,
    /// Result for the recipient.
    pub status: DeliveryStatus,
    /// Status word of the agent's report.
    pub report: Option<Cow<'a, str>>,
    /// Status code of RFC 3463.
    pub code: Option<Cow<'a, str>>,
    /// Answer of the remote system, from notary data.
    pub reply: Option<Cow<'a, str>>,
    /// Remote system.
    pub remote: Option<Cow<'a, str>>,
    /// Text of the report, for people.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// Number of other messages put off with this one, without an attempt.
    ///
    /// They are for the same host.
    pub others: u32,
    /// Time from the arrival of the message to `time`, in seconds.
    pub delay: f64,
    /// Parts of `delay`.
    pub delays: StatusDelays,
}

impl StatusLine<'_> {
    /// Copies borrowed texts.
    pub fn into_owned(self) -> StatusLine<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        StatusLine {
            time: own(self.time),
            spool_id: own(self.spool_id),
            message_id: self.message_id.map(own),
            sender: self.sender.map(own),
            recipient: self.recipient.map(own),
            channel: own(self.channel),
            host: own(self.host),
            agent: self.agent,
            status: self.status,
            report: self.report.map(own),
            code: self.code.map(own),
            reply: self.reply.map(own),
            remote: self.remote.map(own),
            text: own(self.text),
            others: self.others,
            delay: self.delay,
            delays: self.delays,
        }
    }

    /// Arrival of the message, in milliseconds since the epoch.
    pub fn arrived_at(&self) -> Option<i64> {
        let time: jiff::Timestamp = self.time.parse().ok()?;
        Some(time.as_millisecond().saturating_sub((self.delay * 1000.0) as i64))
    }
}

/// Parts of the delay, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusDelays {
    /// From the arrival of the message until it was routed.
    pub router: f64,
    /// From then until this attempt began, or until `time` without an attempt.
    pub queue: f64,
    /// Duration of this attempt.
    pub attempt: Option<f64>,
}

/// Result for a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryStatus {
    /// Delivered. Final.
    Delivered,
    /// Failed for now; it will be tried again.
    Deferred,
    /// Failed. Final.
    Failed,
    /// Too old to be tried again, or given up by an operator. Final.
    Expired,
    /// Deleted by an operator. Final.
    Deleted,
    /// Given back to the router by an operator; the router makes a new message of it. Final.
    Rerouted,
}

impl DeliveryStatus {
    /// All results.
    pub const ALL: [DeliveryStatus; 6] = [
        DeliveryStatus::Delivered,
        DeliveryStatus::Deferred,
        DeliveryStatus::Failed,
        DeliveryStatus::Expired,
        DeliveryStatus::Deleted,
        DeliveryStatus::Rerouted,
    ];

    /// Word for the result in the log.
    pub fn word(self) -> &'static str {
        match self {
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Deferred => "deferred",
            DeliveryStatus::Failed => "failed",
            DeliveryStatus::Expired => "expired",
            DeliveryStatus::Deleted => "deleted",
            DeliveryStatus::Rerouted => "rerouted",
        }
    }

    /// Returns true if there will be no more attempts.
    pub fn is_final(self) -> bool {
        self != DeliveryStatus::Deferred
    }
}

/// Line in place of lines that could not be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostLines<'a> {
    /// Time at which writing was possible again, as in [`StatusLine::time`].
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// Number of missing lines.
    pub lost: u64,
}

impl LostLines<'_> {
    /// The line about this number of missing lines, with its line end.
    pub fn line(lost: u64) -> Vec<u8> {
        let time = format_time(Timestamp::now());
        format!("{{\"time\":\"{time}\",\"lost\":{lost}}}\n").into_bytes()
    }
}

/// A duration in the form of the log: seconds, with milliseconds. Zero if `to` is before `from`.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).as_millis() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::format_time;

    #[test]
    fn times_have_milliseconds() {
        let time = Timestamp::from_parts(1_795_255_449, 852_372_354);
        assert_eq!(format_time(time), "2026-11-21T10:04:09.852Z");
        assert_eq!(format_time(Timestamp::EPOCH), "1970-01-01T00:00:00.000Z");
        let later = Timestamp::from_parts(1_795_255_450, 0);
        assert_eq!((seconds(time, later), seconds(later, time)), (0.147, 0.0));
    }

    #[test]
    fn status_words_match_serialized_names() {
        for status in DeliveryStatus::ALL {
            let written = serde_json::to_value(status).expect("written");
            assert_eq!(written, status.word());
        }
    }
}
