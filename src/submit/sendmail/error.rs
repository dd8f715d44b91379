//! Why `sendmail` did not do what was asked, and its exit status (`sysexits.h`).

use crate::message::SubmitError;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use zsched_command_line::sysexits::{
    EX_CANTCREAT, EX_CONFIG, EX_DATAERR, EX_IOERR, EX_NOPERM, EX_OSERR, EX_TEMPFAIL,
    EX_UNAVAILABLE, EX_USAGE,
};
use zsched_format::address_list::AddressListError;
use zsched_spool::describe_folder_error;

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendmailError {
    /// The command line cannot be used.
    #[error("{0}")]
    Usage(String),
    /// An address of the command line cannot be used.
    #[error("the {0} {1:?} is not an address: {2}")]
    Address(&'static str, String, AddressListError),
    /// Recipients cannot be taken from the headers.
    #[error("the message is not sent: {0}")]
    Headers(#[from] SubmitError),
    /// An address in a header is too long.
    #[error("an address has more than {0} bytes")]
    LongAddress(usize),
    /// The message is for too many.
    #[error("the message has more than {0} recipients")]
    ManyRecipients(usize),
    /// The headers do not fit into memory.
    #[error("the headers of the message have more than {0} bytes")]
    LongHeaders(usize),
    /// The installation does not take messages of this size.
    #[error("the message has more than {0} bytes (MAXMESSAGESIZE)")]
    LargeMessage(u64),
    /// Standard input cannot be read.
    #[error("standard input: {0}")]
    Input(io::Error),
    /// The ZENV file cannot be used.
    #[error("{0}")]
    Config(String),
    /// The caller has no name, and has given none.
    #[error("user {0} has no account, so -f must name the sender")]
    NoAccount(u32),
    /// The user database does not answer.
    #[error("the name of user {0} is unknown: {1}")]
    Accounts(u32, io::Error),
    /// The rights of the caller's caller cannot be given up.
    #[error("cannot become the real user: {0}")]
    Rights(io::Error),
    /// The message cannot be written to the spool.
    #[error("{}", describe_folder_error(.0, .1))]
    Spool(PathBuf, io::Error),
    /// Another program cannot be started.
    #[error("{0}")]
    Program(String),
}

impl SendmailError {
    /// The exit status. Programs try again after `EX_TEMPFAIL` only.
    pub(crate) fn status(&self) -> i32 {
        match self {
            SendmailError::Usage(_) | SendmailError::Address(..) => EX_USAGE,
            SendmailError::Headers(_)
            | SendmailError::LongAddress(_)
            | SendmailError::ManyRecipients(_)
            | SendmailError::LongHeaders(_)
            | SendmailError::LargeMessage(_) => EX_DATAERR,
            SendmailError::Input(_) => EX_IOERR,
            SendmailError::Config(_) => EX_CONFIG,
            SendmailError::NoAccount(_) => EX_OSERR,
            SendmailError::Accounts(..) => EX_TEMPFAIL,
            SendmailError::Rights(_) => EX_NOPERM,
            SendmailError::Program(_) => EX_UNAVAILABLE,
            SendmailError::Spool(_, error) => match error.kind() {
                ErrorKind::PermissionDenied => EX_NOPERM,
                // The limit of the caller (`ulimit -f`), which remains.
                ErrorKind::FileTooLarge => EX_CANTCREAT,
                _ => EX_TEMPFAIL,
            },
        }
    }
}
