//! Why `mailq` ends without having shown everything, and with which status.

use super::denial::Denial;
use std::io;
use zsched_command_line::USAGE;

/// There is nothing of what was asked for.
const NOTHING: i32 = 1;
/// No scheduler can be asked (`EX_UNAVAILABLE`).
const UNAVAILABLE: i32 = 69;
/// The spool or the ZENV file is not there, or cannot be read (`EX_OSFILE`).
const NO_FILE: i32 = 72;
/// The output cannot be written (`EX_IOERR`).
const OUTPUT: i32 = 74;
/// What the other end sends is not MAILQ, or not all of it (`EX_PROTOCOL`).
const PROTOCOL: i32 = 76;

/// The server does not let us (`EX_NOPERM`).
const DENIED: i32 = 77;

/// A reason to end, in words for whoever has called.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// There is nothing to be shown.
    #[error("{0}")]
    Nothing(String),
    /// No scheduler can be reached, or it turns us away.
    #[error("{0}")]
    Unavailable(String),
    /// A scheduler does not let us, or not as who we are.
    #[error("{0}")]
    Denied(Denial),
    /// Something is wrong with the spool or the ZENV file.
    #[error("{0}")]
    Installation(String),
    /// What the other end sends is not what it should be.
    #[error("{0}")]
    Protocol(String),
    /// The same, and everything has been said already.
    #[error("the answer was damaged")]
    Damage,
    /// Standard output takes nothing more.
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    /// The exit status.
    pub fn status(&self) -> i32 {
        match self {
            Failure::Usage(_) => USAGE,
            Failure::Nothing(_) => NOTHING,
            Failure::Unavailable(_) => UNAVAILABLE,
            Failure::Denied(_) => DENIED,
            Failure::Installation(_) => NO_FILE,
            Failure::Protocol(_) | Failure::Damage => PROTOCOL,
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Failure::Output(_) => OUTPUT,
        }
    }

    /// Whether anybody has to be told. Somebody who reads no further, as `head` does, has enough.
    pub fn is_worth_a_word(&self) -> bool {
        match self {
            Failure::Output(error) => error.kind() != io::ErrorKind::BrokenPipe,
            Failure::Damage => false,
            _ => true,
        }
    }
}

impl From<io::Error> for Failure {
    /// Only writing to standard output is passed on without words of its own.
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
