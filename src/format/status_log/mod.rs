//! The status log: one JSON object a line, for each attempt at a recipient and for each end of one.
//!
//! ```text
//!  core: Action::Status ──► writer (src/daemon/files): finds sender, recipient, message id in the
//!                                  │                   control file, composes the line
//!                                  └──bounded──► appender (src/daemon/status_log): one write a batch
//!  later: mailq trace ◄── FILE, FILE.1, FILE.2.gz
//! ```
//!
//! What is in a line is described in `docs/status-log.md`, from field to field; a test holds the two
//! together.

mod code;

pub use code::enhanced_code;

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The longest line that a reader has to expect, in bytes: some texts of 2 kB, each byte of which may need
/// six, and addresses.
pub const LONGEST_LINE: usize = 256 * 1024;

/// One line about a recipient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// When it was decided, RFC 3339 in UTC, with milliseconds.
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The message.
    #[serde(borrow)]
    pub spool_id: Cow<'a, str>,
    /// Its Message-ID, with its angle brackets.
    pub message_id: Option<Cow<'a, str>>,
    /// The address of the sender.
    pub sender: Option<Cow<'a, str>>,
    /// The address of the recipient.
    pub recipient: Option<Cow<'a, str>>,
    /// Where the recipient was to go: the channel...
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// ...and the host.
    #[serde(borrow)]
    pub host: Cow<'a, str>,
    /// The process of the agent that tried.
    pub agent: Option<u32>,
    /// What has become of the recipient.
    pub status: Status,
    /// The word of the agent's report.
    pub report: Option<Cow<'a, str>>,
    /// The status code of RFC 3463.
    pub code: Option<Cow<'a, str>>,
    /// The remote system's answer, as notary data has it.
    pub reply: Option<Cow<'a, str>>,
    /// The remote system.
    pub remote: Option<Cow<'a, str>>,
    /// What was said, for people.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// Messages for the same host that have to wait as well because of this, without an attempt.
    pub others: u32,
    /// From when the message came in to `time`, in seconds.
    pub delay: f64,
    /// Parts of it.
    pub delays: Delays,
}

impl Entry<'_> {
    /// The same, on its own.
    pub fn into_owned(self) -> Entry<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Entry {
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

    /// When the message came in, in milliseconds since the epoch.
    pub fn came(&self) -> Option<i64> {
        let time: jiff::Timestamp = self.time.parse().ok()?;
        Some(time.as_millisecond().saturating_sub((self.delay * 1000.0) as i64))
    }
}

/// Where the time went, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// From when the message came in until it was routed.
    pub router: f64,
    /// From then until this attempt began; without one, until `time`.
    pub queue: f64,
    /// What this attempt took.
    pub attempt: Option<f64>,
}

/// What has become of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is done. Final.
    Delivered,
    /// It will be tried again.
    Deferred,
    /// It cannot be done. Final.
    Failed,
    /// It was too old to be tried again, or an operator has given it up. Final.
    Expired,
    /// An operator has deleted it. Final.
    Deleted,
    /// An operator has given it back to the router, which will make a new message of it. Final.
    Rerouted,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 6] = [
        Status::Delivered,
        Status::Deferred,
        Status::Failed,
        Status::Expired,
        Status::Deleted,
        Status::Rerouted,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Status::Delivered => "delivered",
            Status::Deferred => "deferred",
            Status::Failed => "failed",
            Status::Expired => "expired",
            Status::Deleted => "deleted",
            Status::Rerouted => "rerouted",
        }
    }

    /// Whether nothing more will be tried.
    pub fn is_final(self) -> bool {
        self != Status::Deferred
    }
}

/// A line that stands where others are missing: they could not be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap<'a> {
    /// When writing was possible again, as in [`Entry::time`].
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// How many lines are missing.
    pub lost: u64,
}

/// A time as the log has it: `2026-11-21T10:04:09.852Z`.
pub fn shown(time: Timestamp) -> String {
    let nanoseconds = time.subsec_nanoseconds() as i32;
    let instant = jiff::Timestamp::new(time.seconds(), nanoseconds).unwrap_or_default();
    instant.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// A length of time as the log has it: seconds, with milliseconds. Zero if `to` is before `from`.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).as_millis() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds() {
        let time = Timestamp::from_parts(1_795_255_449, 852_372_354);
        assert_eq!(shown(time), "2026-11-21T10:04:09.852Z");
        assert_eq!(shown(Timestamp::EPOCH), "1970-01-01T00:00:00.000Z");
        let later = Timestamp::from_parts(1_795_255_450, 0);
        assert_eq!((seconds(time, later), seconds(later, time)), (0.147, 0.0));
    }

    #[test]
    fn words_are_those_of_the_log() {
        for status in Status::ALL {
            let written = serde_json::to_value(status).expect("written");
            assert_eq!(written, status.word());
        }
    }
}
