//! What keeps a message out of a mailbox, for now.

use std::io;
use zsched::agent::library::{Outcome, Verdict};

/// Why a message could not be put into a mailbox. The mailbox is as it was.
#[derive(Debug)]
pub enum Trouble {
    /// Somebody else has locked the mailbox, longer than we care to wait.
    Locked,
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
            Trouble::Locked => deferred("the mailbox is locked"),
            Trouble::Unusable(why) => deferred(why),
            Trouble::System(what, error) => Outcome::system_trouble(what, &error),
        }
    }
}
