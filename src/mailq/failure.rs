//! Failures of `mailq`, and their exit statuses.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zsched_command_line::sysexits::{
    EX_IOERR, EX_NOPERM, EX_OSFILE, EX_PROTOCOL, EX_UNAVAILABLE, EX_USAGE,
};
use zsched_mailq_protocol::words::NOTHING_MATCHES;
use zsched_sys::users;

/// Nothing matches what the command names.
const NOTHING: i32 = 1;

/// A reason to end, with its error text.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Nothing matches what the command names.
    #[error("{0}")]
    NotFound(String),
    /// No scheduler can be reached, or it refuses the connection.
    #[error("{0}")]
    Unavailable(String),
    /// A scheduler of version 1 got a request.
    #[error(
        "this scheduler speaks MAILQ version 1, and takes no requests; with PARAMauthfile in its \
         scheduler.cf, it would speak version 2"
    )]
    TakesNoRequests,
    /// A scheduler does not permit the login or the request.
    #[error("{0}")]
    Denied(String),
    /// A scheduler cannot fulfil the request. The session continues.
    #[error("{0}")]
    Refused(String),
    /// Something is wrong with the spool or the ZENV file.
    #[error("{0}")]
    Installation(String),
    /// The answer violates the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The answer violates the protocol, and the warnings are printed already.
    #[error("the answer was damaged")]
    Damaged,
    /// Standard output cannot be written.
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    /// Fails because the command line is wrong.
    pub fn usage<T>(what: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::Usage(what.into()))
    }

    /// Fails because the answer violates the protocol.
    pub fn protocol<T>(what: impl Into<String>) -> Result<T, Failure> {
        Err(Failure::Protocol(what.into()))
    }

    /// No mail matches; `subject` is what the command names, and may say how that was read.
    pub fn no_mail(subject: impl std::fmt::Display) -> Failure {
        Failure::NotFound(format!("{NOTHING_MATCHES}mail now: {subject}"))
    }

    /// The exit status.
    pub fn status(&self) -> i32 {
        match self {
            Failure::Usage(_) => EX_USAGE,
            Failure::NotFound(_) => NOTHING,
            Failure::Unavailable(_) | Failure::Refused(_) | Failure::TakesNoRequests => {
                EX_UNAVAILABLE
            }
            Failure::Denied(_) => EX_NOPERM,
            Failure::Installation(_) => EX_OSFILE,
            Failure::Protocol(_) | Failure::Damaged => EX_PROTOCOL,
            Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => 0,
            Failure::Output(_) => EX_IOERR,
        }
    }

    /// Returns true if the session with the scheduler can be used no longer.
    pub fn ends_session(&self) -> bool {
        !matches!(
            self,
            Failure::Usage(_) | Failure::Denied(_) | Failure::Refused(_) | Failure::NotFound(_)
        )
    }

    /// Returns true if the failure has to be reported.
    ///
    /// A closed pipe is not an error: a reader such as `head` has read enough. A damaged
    /// answer is reported already.
    pub fn must_be_reported(&self) -> bool {
        match self {
            Failure::Output(error) => error.kind() != ErrorKind::BrokenPipe,
            Failure::Damaged => false,
            _ => true,
        }
    }
}

impl From<io::Error> for Failure {
    /// Converts an error of standard output.
    ///
    /// All other input and output errors get a text of their own.
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// The failure to read a file; if this user may not, with the users that may.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => {
            let users = only_users_of(path);
            Failure::Denied(format!("{shown}: permission denied; {users} may read it"))
        }
        _ => Failure::Installation(format!("{shown}: {error}")),
    }
}

/// The users of a file: `only root and zsched`.
///
/// For a file that this user may not even look at, they are those of its folder.
pub(crate) fn only_users_of(path: &Path) -> String {
    let known = path.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
    only_root_and(known.map_or(0, |known| known.uid()))
}

/// Root and the user of this number.
pub(crate) fn only_root_and(user: u32) -> String {
    if user == 0 {
        return "only root".to_string();
    }
    let name = users::account_of(user).ok().flatten().map(|account| account.name);
    format!("only root and {}", name.unwrap_or_else(|| format!("user {user}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_rights_names_users() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let denied = unreadable(&path, &ErrorKind::PermissionDenied.into());
        let own = users::effective_user_name();
        let users =
            if users::is_root() { "only root".into() } else { format!("only root and {own}") };
        let expected = format!("{}: permission denied; {users} may read it", path.display());
        assert_eq!((denied.to_string(), denied.status()), (expected, 77));
        assert_eq!(only_root_and(4_000_000_000), "only root and user 4000000000");
        assert_eq!(unreadable(&path, &ErrorKind::NotFound.into()).status(), 72);
    }
}
