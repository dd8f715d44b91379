//! The first and the recurring lines of the server.

/// The first line of a session of MAILQ version 2.
pub const GREETING: &str = "version zmailer 2.0\n";
/// The first line over the control socket.
pub const CONTROL_GREETING: &str = "version zsched 1.0\n";
/// What a client is told behind the greeting from where nobody may log in.
pub const NO_ACCESS: &str = "550 NO ACCESS FOR YOU\n";
/// What comes before an answer of several lines.
pub const UNTIL_DOT: &str = "+OK until LF.LF";
