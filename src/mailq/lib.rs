//! The program `mailq`: shows the queue of a running scheduler, and sends orders to it.
//!
//! This crate decides how to reach a scheduler, which requests a command needs, how their answers
//! look on a screen, and which exit status a failure has. It decides nothing about mail: the
//! scheduler says why something waits, and what an order does.
//!
//! It must not know the core or the server. All it has of the queue are bytes of MAILQ, the files
//! of the spool and the status log. These bytes are not trusted: the length of lines, their number
//! and the time they take are limited; what cannot be parsed is reported and skipped; control
//! characters are made visible.
//!
//! Begin with [`options`] and [`run`]: they lead to a command in [`console`], to [`trace`], or
//! without a command to [`classic`], the output of ZMailer's `mailq`. All three use [`connect`];
//! [`message`] reads senders, recipients and subjects from the spool.

#![warn(unreachable_pub)]

mod options;

mod installation;

mod connect;

mod console;
mod trace;
mod stats;

mod message;

mod classic;

mod failure;
mod format;
mod progress;
mod screen;
mod table;
mod warnings;

mod replay;

pub use classic::queue::{QueuedThread, Vertex};
pub use connect::credentials::Credentials;
pub use console::MailqCommand;
pub use failure::Failure;
pub use options::{ClassicOptions, ConnectOptions, MailqOptions};
pub use replay::{read_answer, show_answer, show_answers};

use screen::warn;
use std::io::{self, IsTerminal};

/// Runs the program. Returns the exit status.
pub fn main(options: MailqOptions) -> i32 {
    let is_check = matches!(options.command, Some(MailqCommand::Check(_)));
    let failure = match options.check().and_then(|options| run(&options)) {
        Ok(status) => return status,
        Err(failure) => failure,
    };
    if is_check {
        return console::print_failed_check(&failure);
    }
    if failure.must_be_reported() {
        warn(&failure);
    }
    failure.status()
}

fn run(options: &MailqOptions) -> Result<i32, Failure> {
    let MailqOptions { server_options, classic, command, .. } = options;
    if let Some(command) = command {
        return console::run(command, server_options);
    }
    // Programs read the listing, people the summary.
    if io::stdout().is_terminal() && !classic.has_options() {
        return console::show_summary(server_options);
    }
    classic::run(server_options, classic).map(|()| 0)
}
