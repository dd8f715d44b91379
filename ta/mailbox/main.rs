//! `mailbox`: delivers to the mailboxes of local users, as mbox files or Maildir folders.
//!
//! For one recipient: who is it ([`address`]), whose mailbox is that ([`owner`]), what goes into it
//! ([`letter`]), and how does it get there and stay there: [`store`] with the [`folder`] of all and
//! its memory of [`busy`] mailboxes, then [`maildir`], or [`mbox`] with its [`quoting`] and its
//! [`dotlock`]. Whatever goes wrong on the way leaves the letter out of the mailbox and the recipient
//! deferred; only a recipient that cannot exist fails.
//!
//! An agent that is killed over an mbox file leaves a lock that says so ([`lock_text`]). The next one
//! breaks it ([`stale`]), and takes back the part of a letter that is behind it ([`remains`]).

mod address;
mod busy;
mod dotlock;
mod folder;
mod letter;
mod lock_text;
mod maildir;
mod mbox;
mod owner;
mod quoting;
mod remains;
mod stale;
mod store;
mod trouble;

use address::Destination;
use busy::Busy;
use clap::Parser;
use letter::Letter;
use owner::{NotFound, Users};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use store::Store;
use zsched::agent::library::{self, Delivery, Message, Outcome, ScopeOptions, Verdict};
use zsched::{processes, sys};

const DEFAULT_FOLDER: &str = "/var/mail";

/// Transport agent that delivers to local mailboxes
#[derive(Parser)]
#[command(name = "mailbox", disable_help_flag = true)]
struct Options {
    #[command(flatten)]
    scope: ScopeOptions,

    /// Folder of the mailboxes [default: /var/mail]; with a slash at its end, as -M
    #[arg(short = 'd', long, value_name = "DIR")]
    directory: Option<PathBuf>,

    /// Make new mailboxes as Maildir folders, not as mbox files
    #[arg(short = 'M', long)]
    maildir: bool,

    /// Every sensible name has a mailbox, whether or not there is such a user; implied by -d where
    /// the agent does not run as root
    #[arg(short = 'u', long)]
    any_user: bool,

    /// How long to wait for a mailbox that somebody else has locked
    #[arg(short = 'w', long, value_name = "SECONDS", default_value_t = 15)]
    wait: u32,
}

fn main() -> ExitCode {
    let options: Options = zsched::command_line::parse();
    let (users, mut store) = (options.users(), options.store());
    processes::remember_boot_time();
    library::serve("mailbox", &options.scope.scope("local"), |job| {
        let message = job.message()?;
        job.each(|delivery| deliver(delivery, &message, &users, &mut store))
    })
}

impl Options {
    fn store(&self) -> Store {
        let folder = self.directory.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER));
        // A path compares without its last slash, so this has to look at the text.
        let ends_with_slash = folder.as_os_str().as_encoded_bytes().ends_with(b"/");
        Store {
            folder,
            new_ones_are_folders: self.maildir || ends_with_slash,
            patience: Duration::from_secs(self.wait.into()),
            busy: Busy::default(),
        }
    }

    fn users(&self) -> Users {
        let anyone = self.any_user || (self.directory.is_some() && !sys::users::is_root());
        if anyone { Users::Anyone } else { Users::OfTheSystem }
    }
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
    let owner = match users.find(&name, &store.folder) {
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
