//! `mailbox`: delivers to the mailboxes of local users, as mbox files or Maildir folders.
//!
//! The steps for one recipient are: find the user ([`address`]), find the owner of the mailbox
//! ([`owner`], [`accounts`]), compose the letter ([`letter`]), and store it. [`store`] uses the
//! [`folder`] of all mailboxes, and does not wait long for one that was locked a moment ago
//! ([`lock_backoff`]). It delivers to a [`maildir`], or to an [`mbox`] with [`quoting`] and a
//! [`dotlock`]. After any error the letter is not in the mailbox and the recipient is deferred. Only
//! a recipient that cannot exist fails.
//!
//! An agent that is killed while appending to an mbox file leaves a lock that says so
//! ([`lock_text`]). The next agent breaks the lock ([`stale`]), and removes the partial letter
//! ([`undo_partial`]).

mod options;

mod accounts;
mod address;
mod owner;

mod folder;
mod letter;
mod lock_backoff;
mod mailbox_error;
mod store;
mod wait;

mod maildir;
mod mbox;
mod quoting;

mod dotlock;
mod lock_text;
mod stale;
mod undo_partial;

use address::Destination;
use letter::Letter;
use options::Options;
use owner::{NotFound, Users};
use std::process::ExitCode;
use store::Store;
use zsched_agent::{Delivery, Message, Outcome, Verdict};
use zsched_spool::processes;

/// Exit status for invalid options (`EX_USAGE` of `sysexits.h`).
const EX_USAGE: u8 = 64;

fn main() -> ExitCode {
    let options: Options = zsched_command_line::parse();
    let users = options.users();
    let mut store = match options.store() {
        Ok(store) => store,
        Err(why) => {
            eprintln!("mailbox: {why}");
            return ExitCode::from(EX_USAGE);
        }
    };
    processes::remember_boot_time();
    zsched_agent::serve("mailbox", &options.scope.scope("local"), |job| {
        let message = job.message()?;
        job.deliver_each(|delivery| deliver(delivery, &message, &users, &mut store))
    })
}

fn deliver(
    delivery: &Delivery<'_>,
    message: &Message,
    users: &Users,
    store: &mut Store,
) -> Outcome {
    let name = match address::destination(delivery.user()) {
        Destination::Discard => return delivered("discarded"),
        Destination::Unsupported => {
            return failed("5.3.3", "cannot deliver to files and programs");
        }
        Destination::NoSuchName => return failed("5.1.1", "no such user"),
        Destination::User(name) => name,
    };
    let owner = match users.find(&name, store) {
        Ok(owner) => owner,
        Err(NotFound::NoSuchUser) => {
            return failed("5.1.1", "no such user")
                .with_text(format!("there is no user {name} here"));
        }
        Err(NotFound::Unknown(error)) => {
            return Outcome::system_error("cannot look up the user", &error);
        }
    };
    match store.deliver(&owner, &Letter { delivery, message }) {
        Ok(()) => delivered("delivered to the mailbox"),
        Err(error) => error.outcome(),
    }
}

fn delivered(comment: &'static str) -> Outcome {
    Outcome::new(Verdict::Delivered, "2.2.0", 250, comment)
}

fn failed(status: &'static str, comment: &'static str) -> Outcome {
    Outcome::new(Verdict::Failed, status, 550, comment)
}
