//! Errors that keep a message out of a mailbox temporarily.

use std::io;
use std::path::PathBuf;
use zsched_agent::{Outcome, Verdict};

/// The reason why a message could not be stored in a mailbox.
///
/// The mailbox is unchanged, unless the text says that a partial letter could not be removed.
#[derive(Debug)]
pub enum MailboxError {
    /// Another program has locked this file for longer than the wait.
    ///
    /// It is the mailbox or its dot lock.
    Locked(PathBuf),
    /// The existing file is not a mailbox that can be trusted.
    Unusable(&'static str),
    /// A system error.
    System(&'static str, io::Error),
}

impl MailboxError {
    /// Converts an error for `map_err`; `what` says what could not be done.
    pub fn with(what: &'static str) -> impl FnOnce(io::Error) -> MailboxError {
        move |error| MailboxError::System(what, error)
    }

    /// The outcome to report. It is always a deferral, because each of these errors can be
    /// repaired.
    pub fn outcome(self) -> Outcome {
        let deferred = |comment| Outcome::new(Verdict::Deferred, "4.2.0", 450, comment);
        match self {
            MailboxError::Locked(path) => deferred("the mailbox is locked")
                .with_text(format!("the mailbox is locked: {}", path.display())),
            MailboxError::Unusable(why) => deferred(why),
            MailboxError::System(what, error) => Outcome::system_error(what, &error),
        }
    }
}
