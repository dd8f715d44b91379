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

mod at_hand;
mod collect_v2;
mod complaints;
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
mod why;

pub use at_hand::{read_answer, show_answer, show_answers};
pub use console::Command;
pub use credentials::Credentials;
pub use denial::Denial;
pub use failure::Failure;
pub use options::{Classic, Options, Reach};

use dial::Scheduler;
use installation::Installation;
use screen::{Screen, complain};
use server::Server;
use show::Show;
use std::io::{self, IsTerminal, Write};

/// Runs the program. Returns the exit status.
pub fn main(options: Options) -> i32 {
    let is_check = matches!(options.command, Some(Command::Check(_)));
    let failure = match options.check().and_then(|options| run(&options)) {
        Ok(status) => return status,
        Err(failure) => failure,
    };
    if is_check {
        return console::check_in_vain(&failure);
    }
    if failure.is_worth_a_word() {
        complain(&failure);
    }
    failure.status()
}

fn run(options: &Options) -> Result<i32, Failure> {
    let Options { reach, classic, command, .. } = options;
    let is_terminal = io::stdout().is_terminal();
    if let Some(command) = command {
        return console::run(command, reach);
    }
    // Programs read the listing, people the summary.
    if is_terminal && !classic.is_given() {
        return console::show_summary(reach);
    }
    let mut screen = Screen::new(io::BufWriter::new(io::stdout().lock()));
    let shown = show(reach, classic, &mut screen);
    screen.flush()?;
    shown.map(|()| 0)
}

fn show<W: Write>(reach: &Reach, classic: &Classic, screen: &mut Screen<W>) -> Result<(), Failure> {
    let installation = Installation::read(reach.zenv.as_deref())?;
    if let Some(subject) = &classic.why {
        return why::print(subject, &installation, reach.debug, screen);
    }
    let mut show = Show::new(classic, installation.spool())?;
    if classic.shared_memory {
        complain(
            "shared memory (-M) is not supported; asking the scheduler for its queue (-QQQQ shows \
             its counters)",
        );
    }
    let only_status = classic.status > 1 && classic.sizes == 0;
    if only_status {
        return status::print(screen, &installation, true);
    }
    let server = Server::find(reach, &installation)?;
    let addresses = server.addresses(reach.family())?;
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
    let credentials = reach.credentials()?;
    let shown = match dial::dial(&server, &addresses, &installation, &credentials, reach.debug)? {
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
