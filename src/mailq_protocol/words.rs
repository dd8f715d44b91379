//! The first and the recurring lines of the server.

/// The first line of a session of MAILQ version 2.
pub const GREETING: &str = "version zmailer 2.0\n";
/// The first line over the control socket.
pub const CONTROL_GREETING: &str = "version zsched 1.0\n";
/// Sent after the greeting to a client that may not log in from its address.
pub const NO_ACCESS: &str = "550 NO ACCESS FOR YOU\n";
/// Maximum length of the reason of a hold, in bytes: it is stored with each held message.
pub const MAX_REASON_LEN: usize = 200;
/// Begins the refusal of a request about something that does not exist.
pub const NOTHING_MATCHES: &str = "no matching ";
/// Precedes an answer of several lines.
pub const UNTIL_DOT: &str = "+OK until LF.LF";
