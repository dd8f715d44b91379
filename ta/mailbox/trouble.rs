//! What keeps a message out of a mailbox, for now.

use std::io;
use std::path::PathBuf;
use zsched_agent::{Outcome, Verdict};

/// Why a message could not be put into a mailbox. The mailbox has no letter that it did not have
/// before, unless the text says that a beginning could not be undone.
#[derive(Debug)]
pub enum Trouble {
    /// Somebody else has locked this file, longer than we care to wait: the mailbox, or its dot
    /// lock.
    Locked(PathBuf),
    /// What is there is no mailbox that we would trust.
    Unusable(&'static str),
    /// The system refused something.
    System(&'static str, io::Error),
}

impl Trouble {
    /// Says what could not be done, for `map_err`.
    pub fn with(what: &'static str) -> impl FnOnce(io::Error) -> Trouble {
        move |error| Trouble::System(what, error)
    }

    /// What to report. Never a failure: all of this can be repaired, and the message waits.
    pub fn outcome(self) -> Outcome {
        let deferred = |comment| Outcome::new(Verdict::Deferred, "4.2.0", 450, comment);
        match self {
            Trouble::Locked(path) => deferred("the mailbox is locked")
                .says(format!("the mailbox is locked: {}", path.display())),
            Trouble::Unusable(why) => deferred(why),
            Trouble::System(what, error) => Outcome::system_trouble(what, &error),
        }
    }
}
