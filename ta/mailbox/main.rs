//! `mailbox`: delivers to the mailboxes of local users, as mbox files or Maildir folders.
//!
//! For one recipient: who is it ([`address`]), whose mailbox is that ([`owner`], [`accounts`]), what goes into it
//! ([`letter`]), and how does it get there and stay there: [`store`] with the [`folder`] of all and
//! its memory of [`busy`] mailboxes, then [`maildir`], or [`mbox`] with its [`quoting`] and its
//! [`dotlock`]. Whatever goes wrong on the way leaves the letter out of the mailbox and the recipient
//! deferred; only a recipient that cannot exist fails.
//!
//! An agent that is killed over an mbox file leaves a lock that says so ([`lock_text`]). The next one
//! breaks it ([`stale`]), and takes back the part of a letter that is behind it ([`remains`]).

mod accounts;
mod address;
mod busy;
mod dotlock;
mod folder;
mod letter;
mod lock_text;
mod maildir;
mod mbox;
mod options;
mod owner;
mod quoting;
mod remains;
mod stale;
mod store;
mod trouble;
mod wait;

use address::Destination;
use letter::Letter;
use options::Options;
use owner::{NotFound, Users};
use std::process::ExitCode;
use store::Store;
use zsched_agent::{Delivery, Message, Outcome, Verdict};
use zsched_spool::processes;

/// Exit status for options that make no sense (`EX_USAGE` of `sysexits.h`).
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let options: Options = zsched_command_line::parse();
    let users = options.users();
    let mut store = match options.store() {
        Ok(store) => store,
        Err(why) => {
            eprintln!("mailbox: {why}");
            return ExitCode::from(USAGE);
        }
    };
    processes::remember_boot_time();
    zsched_agent::serve("mailbox", &options.scope.scope("local"), |job| {
        let message = job.message()?;
        job.each(|delivery| deliver(delivery, &message, &users, &mut store))
    })
}

fn deliver(
    delivery: &Delivery<'_>,
    message: &Message,
    users: &Users,
    store: &mut Store,
) -> Outcome {
    let name = match address::destination(delivery.user()) {
        Destination::Nowhere => return delivered("discarded"),
        Destination::Unsupported => {
            return failed("5.3.3", "cannot deliver to files and programs");
        }
        Destination::Nobody => return failed("5.1.1", "no such user"),
        Destination::User(name) => name,
    };
    let owner = match users.find(&name, store) {
        Ok(owner) => owner,
        Err(NotFound::NoSuchUser) => {
            return failed("5.1.1", "no such user").says(format!("there is no user {name} here"));
        }
        Err(NotFound::Unknown(error)) => {
            return Outcome::system_trouble("cannot look up the user", &error);
        }
    };
    match store.deliver(&owner, &Letter { delivery, message }) {
        Ok(()) => delivered("delivered to the mailbox"),
        Err(trouble) => trouble.outcome(),
    }
}

fn delivered(comment: &'static str) -> Outcome {
    Outcome::new(Verdict::Delivered, "2.2.0", 250, comment)
}

fn failed(status: &'static str, comment: &'static str) -> Outcome {
    Outcome::new(Verdict::Failed, status, 550, comment)
}
