//! Request counters: the `SC.MQ2…` rows of `SHOW COUNTERS`.

use serde::Serialize;

/// Counts since the start, except `parallel`, which is a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounters {
    /// Sessions open now.
    pub parallel: u64,
    /// Accepted connections, including those that were then refused.
    pub connects: u64,
    /// Clients that may not log in from their address, and failed logins.
    pub refused_logins: u64,
    /// Sessions that timed out.
    pub timed_out: u64,
    /// Sessions that the client closed without QUIT.
    pub ended: u64,
    /// Read errors.
    pub read_errors: u64,
    /// Write errors.
    pub write_errors: u64,
    /// Request lines.
    pub requests: u64,
    /// Requests that were unknown or not permitted.
    pub refused: u64,
    /// Login attempts: AUTH and AUTH2.
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
