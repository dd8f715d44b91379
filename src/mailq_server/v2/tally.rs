//! How often clients did what: the `SC.MQ2…` rows of `SHOW COUNTERS`.

use serde::Serialize;

/// Counts since the start, but for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Sessions open now.
    pub parallel: u64,
    /// Connections taken in, also those that were refused.
    pub connects: u64,
    /// Clients from where nobody may log in, and failed logins.
    pub refused_logins: u64,
    /// Sessions that took too long.
    pub timed_out: u64,
    /// Sessions that the client ended without QUIT.
    pub ended: u64,
    /// Errors of reading.
    pub read_errors: u64,
    /// Errors of writing.
    pub write_errors: u64,
    /// Request lines.
    pub requests: u64,
    /// Of these, unknown or not permitted.
    pub refused: u64,
    /// AUTH before the login.
    pub auth: u64,
    /// QUIT and EXIT.
    pub quit: u64,
    /// ETRN, permitted or not.
    pub etrn: u64,
    /// KILL THREAD.
    pub kill_thread: u64,
    /// KILL MSG.
    pub kill_message: u64,
    /// SHOW QUEUE THREADS.
    pub show_threads: u64,
    /// SHOW QUEUE THREADS2.
    pub show_threads2: u64,
    /// SHOW QUEUE SHORT.
    pub show_short: u64,
    /// SHOW SNMP.
    pub show_snmp: u64,
    /// SHOW THREAD.
    pub show_thread: u64,
    /// SHOW COUNTERS.
    pub show_counters: u64,
}
