//! Why a message was not queued, and the exit status (`sysexits.h`).

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

const EX_USAGE: u8 = 64;
const EX_DATAERR: u8 = 65;
const EX_NOINPUT: u8 = 66;
const EX_TEMPFAIL: u8 = 75;

/// Why a message was not queued.
#[derive(Debug)]
pub enum EnqueueError {
    /// The command line cannot be used.
    Usage(String),
    /// Standard input cannot be read.
    Input(io::Error),
    /// Standard input has no message.
    EmptyMessage,
    /// The first line is that of a mailbox, and cannot be used.
    FromLine(&'static str),
    /// The installation does not take messages of this size, in bytes.
    LargeMessage(u64),
    /// The ZENV file cannot be used.
    Config(PathBuf, String),
    /// The rights of the program cannot be given up or taken.
    Rights(io::Error),
    /// The drop folder cannot be used.
    Folder(PathBuf, String),
    /// The message cannot be written.
    Write(io::Error),
}

impl EnqueueError {
    /// The exit status. A mail system tries again after `EX_TEMPFAIL`.
    ///
    /// So all that an operator can mend is temporary.
    pub fn status(&self) -> u8 {
        match self {
            EnqueueError::Usage(_) => EX_USAGE,
            EnqueueError::EmptyMessage => EX_NOINPUT,
            EnqueueError::FromLine(_) | EnqueueError::LargeMessage(_) => EX_DATAERR,
            _ => EX_TEMPFAIL,
        }
    }
}

impl fmt::Display for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnqueueError::Usage(why) => write!(
                f,
                "{}\nusage: enqueue [-Z file] [-f sender] domain/list/function",
                why.escape_debug()
            ),
            EnqueueError::Input(error) if error.kind() == ErrorKind::TimedOut => {
                f.write_str("standard input: nothing came for too long")
            }
            EnqueueError::Input(error) => write!(f, "standard input: {error}"),
            EnqueueError::EmptyMessage => f.write_str("standard input has no message"),
            EnqueueError::FromLine(why) => write!(f, "the first line, a From_ line, {why}"),
            EnqueueError::LargeMessage(limit) => {
                write!(f, "the message has more than {limit} bytes (MAXMESSAGESIZE)")
            }
            EnqueueError::Config(path, why) | EnqueueError::Folder(path, why) => {
                write!(f, "{}: {why}", path.to_string_lossy().escape_debug())
            }
            EnqueueError::Rights(error) => write!(f, "cannot change the group: {error}"),
            EnqueueError::Write(error) => write!(f, "cannot write the message: {error}"),
        }
    }
}
