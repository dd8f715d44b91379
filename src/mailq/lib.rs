//! The program `mailq`: asks a running scheduler for its queue and shows it.
//!
//! ```text
//! options ──► installation (ZENV, POSTOFFICE) ──► server ──► dial ──► connection, lines, greeting
//!                                                                         │
//!      listing, summary ◄── queue ◄── v1 ◄──────── version 1: a dump ◄────┤
//!                report ◄───────────────┘                                 │
//!  listing_v2, collect_v2 ◄── v2 ◄── session ◄──── version 2: requests ◄──┘
//! ```
//!
//! [`trace`] is separate: it joins the queue with the status log.
//!
//! Data from the other end is not trusted. The length of lines, their number and the time they take
//! are limited. Lines that cannot be parsed are reported and skipped. Control characters are made
//! visible.

mod collect_v2;
mod connection;
mod console;
mod credentials;
mod denial;
mod details;
mod dial;
mod failure;
mod greeting;
mod installation;
mod lines;
mod listing;
mod listing_v2;
mod notes;
mod options;
mod pid;
pub mod queue;
mod replay;
mod report;
mod screen;
mod server;
mod session;
mod show;
mod status;
mod summary;
mod trace;
mod v1;
mod v2;
mod warnings;
mod why;

pub use console::Command;
pub use credentials::Credentials;
pub use denial::Denial;
pub use failure::Failure;
pub use options::{ClassicOptions, MailqOptions, ServerOptions};
pub use replay::{read_answer, show_answer, show_answers};

use dial::Scheduler;
use installation::Installation;
use screen::{Screen, warn};
use server::Server;
use show::ClassicOutput;
use std::io::{self, IsTerminal, Write};

/// Runs the program. Returns the exit status.
pub fn main(options: MailqOptions) -> i32 {
    let is_check = matches!(options.command, Some(Command::Check(_)));
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
    let is_terminal = io::stdout().is_terminal();
    if let Some(command) = command {
        return console::run(command, server_options);
    }
    // Programs read the listing, people the summary.
    if is_terminal && !classic.has_options() {
        return console::show_summary(server_options);
    }
    let mut screen = Screen::new(io::BufWriter::new(io::stdout().lock()));
    let shown = show(server_options, classic, &mut screen);
    screen.flush()?;
    shown.map(|()| 0)
}

fn show<W: Write>(
    server_options: &ServerOptions,
    classic: &ClassicOptions,
    screen: &mut Screen<W>,
) -> Result<(), Failure> {
    let installation = Installation::read(server_options.zenv.as_deref())?;
    if let Some(subject) = &classic.why {
        return why::print(subject, &installation, server_options.debug, screen);
    }
    let mut show = ClassicOutput::new(classic, installation.spool())?;
    if classic.shared_memory {
        warn(
            "shared memory (-M) is not supported; asking the scheduler for its queue (-QQQQ shows \
             its counters)",
        );
    }
    let only_status = classic.status > 1 && classic.sizes == 0;
    if only_status {
        return status::print(screen, &installation, true);
    }
    let server = Server::find(server_options, &installation)?;
    let addresses = server.addresses(server_options.family())?;
    let is_local = addresses.are_local();
    if !is_local {
        screen.line(&[b"[", server.host().as_bytes(), b"]"])?;
    }
    // An error in the spool does not keep the scheduler from being asked.
    let status = match classic.status {
        0 => Ok(()),
        _ => status::print(screen, &installation, is_local),
    };
    screen.flush()?;
    let credentials = server_options.credentials()?;
    let shown =
        match dial::dial(&server, &addresses, &installation, &credentials, server_options.debug)? {
            Scheduler::Dump(mut lines) => show.dump(&mut lines, screen),
            Scheduler::Session(mut session) => {
                let shown = show.session(&mut session, screen);
                session.quit();
                shown
            }
        };
    // Warnings follow the output, even where both go to the same place.
    screen.flush()?;
    let verdict = show.verdict();
    shown.and(verdict).and(status)
}
