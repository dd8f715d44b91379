//! The programs `sendmail` and `submit`, which take one message from standard input.
//!
//! [`sendmail`] writes a submission for the router. `submit` writes a control file for the
//! scheduler, without routing: the caller chooses the channel and, if needed, the host. With
//! `--bulk` it writes a bulk job, for very many recipients, and with `--listen` those of programs.
//!
//! This crate decides which header lines a message lacks, which addresses it is for, and how both
//! become files. How files get into the spool safely is the spool's matter.
//!
//! It must not know the scheduler, the router, the SMTP server or their configurations: it sends
//! the name of the message to a socket, and the message is found without that, too. What only they
//! know, their programs do (`sendmail -bv`, `-bs`).
//!
//! Begin with [`ComposedMessage::compose`] for `submit`, and with [`sendmail::main`].

#![warn(unreachable_pub)]

pub mod sendmail;
mod times;

mod options;

mod bulk;
mod message;

pub use message::SubmitError;
pub use options::SubmitOptions;

use message::Message;
use std::io::{self, Read, Write};
use std::path::Path;
use zsched_command_line::sysexits::{EX_DATAERR, EX_USAGE};
use zsched_format::control_file::compose::{Address, Group, Recipient};
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_spool::submit::Submitter;
use zsched_spool::{SpoolName, describe_folder_error};
use zsched_sys as sys;

/// Exit status for other errors, which may be temporary.
const EXIT_FAILURE: i32 = 1;
/// User id of `nobody`, with whose rights recipients are delivered to.
const NOBODY_UID: i64 = 65534;

/// Why the message was not submitted.
#[derive(Debug)]
struct Failure {
    status: i32,
    reason: String,
}

impl Failure {
    fn new(status: i32, reason: impl Into<String>) -> Failure {
        Failure { status, reason: reason.into() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new(EXIT_FAILURE, error.to_string())
    }
}

/// Runs the program. Returns the exit status.
pub fn main(options: &SubmitOptions) -> i32 {
    match run(options) {
        Ok(()) => 0,
        Err(Failure { status, reason }) => {
            print_error(&reason);
            status
        }
    }
}

/// Prints a message on standard error.
fn print_error(text: &str) {
    printable::print_error("submit", text);
}

fn run(options: &SubmitOptions) -> Result<(), Failure> {
    options.check().map_err(|reason| Failure::new(EX_USAGE, reason))?;
    let words = options.times.words(Timestamp::now());
    let words = words.map_err(|reason| Failure::new(EX_USAGE, reason))?.join(" ");
    let zenv = options.installation.read_zenv(true)?;
    let submitter = Submitter {
        spool: options.installation.spool(&zenv)?,
        level: options.installation.level(&zenv),
        sync: true,
    };
    let socket = submitter.spool.notify_socket(zenv.get("SCHEDULERNOTIFY"));
    if let Some(path) = &options.bulk.listen {
        return bulk::server::serve(path, &submitter.spool, &socket);
    }
    if options.bulk.is_wanted() {
        return bulk::submit(&submitter.spool, &socket, options);
    }
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let mut submission = ComposedMessage::compose(&text, options)
        .map_err(|reason| Failure::new(EX_DATAERR, reason.to_string()))?;
    for recipient in &mut submission.group.recipients {
        recipient.notify = format!("{} {words}", recipient.notify).trim().to_string();
    }
    let in_spool = |error| {
        Failure::new(EXIT_FAILURE, describe_folder_error(submitter.spool.transport(), &error))
    };
    let submitted = submitter.submit(
        &submission.text,
        &submission.id,
        vec![submission.group],
        options.priority,
    );
    let name = submitted.map_err(in_spool)?;
    // The message is in the spool and will be delivered. Errors from here on must not make the
    // caller submit it again.
    announce(&submitter, &socket, &name);
    Ok(())
}

/// The parts of a message for the spool.
#[derive(Debug)]
pub struct ComposedMessage {
    /// The message: headers, empty line, body.
    pub text: Vec<u8>,
    /// Its Message-ID.
    pub id: String,
    /// Sender, recipients and a copy of the headers.
    pub group: Group,
}

impl ComposedMessage {
    /// Composes the message from standard input and the command line.
    ///
    /// The options must have been [checked](SubmitOptions::check).
    pub fn compose(text: &[u8], options: &SubmitOptions) -> Result<ComposedMessage, SubmitError> {
        let message = Message::new(text, options)?;
        Ok(ComposedMessage {
            text: message.text(),
            id: message.id(),
            group: Group {
                sender: sender(options.sender()),
                recipients: message
                    .recipients
                    .iter()
                    .map(|user| recipient(options, user))
                    .collect(),
                headers: message.headers(),
                ..Group::default()
            },
        })
    }
}

/// Notifies the scheduler, and prints the name of the message for the caller.
fn announce(submitter: &Submitter, socket: &Path, name: &SpoolName) {
    if let Err(error) = submitter.notify(socket, std::slice::from_ref(name)) {
        print_error(&format!("{name} is queued; the scheduler will find it by itself: {error}"));
    }
    let mut output = io::stdout();
    if let Err(error) = writeln!(output, "{name}").and_then(|()| output.flush()) {
        print_error(&format!("{name} is queued, but its name cannot be printed: {error}"));
    }
}

/// The sender. A message without error reports has the channel `error`, as a router writes it.
fn sender(user: Option<&str>) -> Address {
    let privilege = i64::from(sys::users::real_user());
    match user {
        Some(user) => Address::new("local", "", user, privilege),
        None => Address::new("error", "<>", "<>", privilege),
    }
}

fn recipient(options: &SubmitOptions, user: &str) -> Recipient {
    let domain = user.rsplit_once('@').map_or("", |(_, domain)| domain);
    let default = if options.channel == "local" { "" } else { domain };
    let host = options.host.as_deref().unwrap_or(default);
    let notify = options.notify.as_ref().map(|when| format!("NOTIFY={}", when.to_uppercase()));
    Recipient {
        address: Address::new(&options.channel, host, user, NOBODY_UID),
        notify: notify.unwrap_or_default(),
        end: None,
    }
}
