//! `mailbox`: delivers to mailboxes of local users, mbox or Maildir.
//!
//! The steps for one recipient are: find the user ([`address`]), find the owner of the mailbox
//! ([`owner`]), compose the letter ([`letter`]), and store it. [`store`] uses the
//! [`folder`] of all mailboxes, and does not wait long for one that was locked a moment ago
//! ([`lock_backoff`]). It delivers to a [`maildir`], or to an [`mbox`] with [`quoting`] and a
//! [`dotlock`]. After any error the letter is not in the mailbox and the recipient is deferred.
//! Only a recipient that cannot exist fails.
//!
//! An agent that is killed while appending to an mbox file leaves a lock that says so
//! ([`lock_text`]). The next agent breaks the lock ([`stale`]), and removes the partial letter
//! ([`undo_partial`]).

mod options;

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
use options::MailboxOptions;
use owner::{NotFound, Users};
use std::process::ExitCode;
use store::Store;
use zsched_agent::{Delivery, Halt, Job, Message, Outcome, Verdict};
use zsched_command_line::sysexits::EX_USAGE;
use zsched_spool::processes;

fn main() -> ExitCode {
    let options: MailboxOptions = zsched_command_line::parse();
    let users = options.users();
    let mut store = match options.store() {
        Ok(store) => store,
        Err(why) => {
            eprintln!("mailbox: {why}");
            std::process::exit(EX_USAGE);
        }
    };
    processes::remember_boot_time();
    zsched_agent::serve("mailbox", &options.scope.scope("local"), |job| {
        deliver_all(job, &users, &mut store)
    })
}

fn deliver_all(job: &mut Job<'_>, users: &Users, store: &mut Store) -> Result<(), Halt> {
    let message = job.message()?;
    job.deliver_each(|delivery| deliver(delivery, &message, users, store))
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::fs;
    use zsched_agent::Scope;
    use zsched_agent::testing::TestJob;

    const CONTROL_FILE: &str = "\
@ 0x00000007
i 7
o 0
s local - alice@x 0
r           local - bob 0
r           local - ../bob 0
r           local - |program 0
r           local - /dev/null 0
m
Subject: test

";

    #[test]
    fn outcome_depends_on_address() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("text");
        let options = MailboxOptions::parse_from(["mailbox", "-u", "-d", path]);
        let (users, mut store) = (options.users(), options.store().expect("a store"));
        let run = TestJob::new(CONTROL_FILE)
            .with_body("body\n")
            .run(&Scope::channel("local"), |job| deliver_all(job, &users, &mut store));
        let status = |user: &str| run.report(user).status.as_str();
        assert_eq!((status("bob"), status("/dev/null")), ("ok3", "ok3"));
        assert_eq!((status("../bob"), status("|program")), ("error2", "error2"));
        let statuses: Vec<&str> = run.notes.iter().map(|note| note.notary[2].as_str()).collect();
        assert_eq!(
            statuses,
            ["5.3.3 (cannot deliver to files and programs)", "5.1.1 (no such user)"]
        );
        let mailbox = fs::read_to_string(folder.path().join("bob")).expect("a mailbox");
        assert!(mailbox.ends_with("Subject: test\n\nbody\n\n"), "{mailbox}");
    }
}
