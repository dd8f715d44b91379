//! What clients have brought to the SMTP server.

use serde::{Deserialize, Serialize};

/// Counters of the SMTP server: `POSTOFFICE/.smtpserver.traffic`.
///
/// The server writes the file some seconds after a change, and when it ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SmtpTraffic {
    /// When the file was written, in seconds since 1970.
    pub time: f64,
    /// Start of the server, in seconds since 1970.
    pub started: f64,
    /// True if the server has ended since.
    pub ended: bool,
    /// Process id of the server.
    pub pid: u32,
    /// Open connections.
    pub connections: u64,
    /// Messages that were accepted since the start.
    pub messages: u64,
    /// Recipients of these messages.
    pub recipients: u64,
    /// Size of these messages, in bytes.
    pub bytes: u64,
    /// Connections, recipients and messages that were refused (5xx) since the start.
    pub refused: u64,
    /// Connections, recipients and messages that were put off (4xx) since the start.
    pub deferred: u64,
    /// Failed logins since the start.
    pub failed_logins: u64,
    /// What was counted in the last 1, 5 and 15 minutes.
    pub recent: Vec<RecentSmtpCounts>,
    /// The most frequent replies to what was not accepted.
    pub reasons: Vec<SmtpReason>,
    /// The last alarms, the oldest first.
    pub alarms: Vec<SmtpAlarm>,
}

/// What was counted in the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentSmtpCounts {
    /// The span, in minutes.
    pub minutes: u64,
    /// The part of it since the start of the server, in seconds.
    pub seconds: f64,
    /// Messages that were accepted.
    pub messages: u64,
    /// Recipients of these messages.
    pub recipients: u64,
    /// What was refused.
    pub refused: u64,
    /// What was put off.
    pub deferred: u64,
}

/// A reply to mail that was not accepted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SmtpReason {
    /// The reply, with its codes.
    pub reply: String,
    /// How often it was given since the start.
    pub count: u64,
}

/// A client or a login that has reached a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SmtpAlarm {
    /// The time, in seconds since 1970.
    pub time: f64,
    /// What has happened, in words.
    pub text: String,
}
