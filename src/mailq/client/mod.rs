//! The program `mailq`: asks a running scheduler for its queue, and shows it to people.
//!
//! ```text
//! options ──► installation (ZENV, POSTOFFICE) ──► server ──► connection ──► lines ──► greeting
//!                                                                                        │
//!                        listing, summary ◄── queue ◄── v1 ◄──────── version 1 ◄─────────┤
//!                                  report ◄───────────────┘          version 2 ◄─────────┘
//! ```
//!
//! Nothing the other end sends is trusted: lines, their number and the time they take are bounded,
//! what cannot be understood is complained about and passed over, and a terminal is never sent bytes
//! that it would obey. Version 2 is recognized, but not spoken yet: its dialogue belongs beside
//! [`v1`], and ends in a [`queue::Queue`] too.

mod complaints;
mod connection;
mod details;
mod failure;
mod greeting;
mod installation;
mod lines;
mod listing;
mod notes;
mod options;
mod pid;
pub mod queue;
mod report;
mod screen;
mod server;
mod status;
mod summary;
mod v1;
mod why;

pub use failure::Failure;
pub use options::Options;

use crate::scheduler::Selection;
use crate::spool::Spool;
use crate::sys::users;
use complaints::Complaints;
use connection::{Connection, PATIENCE};
use details::ControlFiles;
use greeting::Version;
use installation::Installation;
use lines::{Echo, LIMITS, Lines};
use listing::Wishes;
use queue::Queue;
use screen::{Screen, complain};
use server::Server;
use std::io::{self, IsTerminal, Read, Write};

/// Runs the program. Returns the exit status.
pub fn main(options: &Options) -> i32 {
    let is_terminal = io::stdout().is_terminal();
    let mut screen = Screen::new(io::BufWriter::new(io::stdout().lock()), is_terminal);
    let result = run(options, &mut screen);
    let flushed = screen.flush().map_err(Failure::Output);
    let Err(failure) = result.and(flushed) else {
        return 0;
    };
    if failure.is_worth_a_word() {
        complain(&failure);
    }
    failure.status()
}

fn run<W: Write>(options: &Options, screen: &mut Screen<W>) -> Result<(), Failure> {
    let owner = owner(options)?;
    let installation = Installation::read(options.zenv.as_deref())?;
    if let Some(subject) = &options.why {
        return why::print(subject, &installation, screen);
    }
    if options.shared_memory {
        complain("this scheduler has no shared memory segment; asking it for its queue");
    }
    let only_status = options.status > 1 && options.sizes == 0;
    if only_status {
        return status::print(screen, &installation, true);
    }
    let server = Server::find(options, &installation)?;
    let addresses = server.addresses(options.family())?;
    let is_local = addresses.are_local();
    if !is_local {
        screen.line(&[b"[", server.host().as_bytes(), b"]"])?;
    }
    // What is wrong with the spool does not keep the scheduler from being asked.
    let status = match options.status {
        0 => Ok(()),
        _ => status::print(screen, &installation, is_local),
    };
    screen.flush()?;
    let connection = Connection::open(&server, &addresses, PATIENCE)
        .map_err(|refusal| refusal.explain(&server, is_local, &installation))?;
    let mut lines = Lines::new(connection, LIMITS);
    if options.debug {
        lines.echo = Some(Echo::to_stderr());
    }
    let shown = match greeting::read(&mut lines, &server)? {
        Version::One => {
            let mut files = ControlFiles::new(installation.spool());
            let mut complaints = Complaints::default();
            let shown =
                show_version_1(options, owner, &mut files, &mut lines, screen, &mut complaints);
            // What is wrong stands behind what is shown, wherever both go.
            screen.flush()?;
            complaints.print();
            shown.and_then(|()| files.verdict()).and_then(|()| complaints.verdict())
        }
        Version::Two => Err(greeting::refuse_version_2(&mut lines, &server)),
    };
    shown.and(status)
}

/// Shows an answer that is at hand, from the line behind its greeting on, as it would be shown if a
/// scheduler had sent it; on a terminal, or not. Returns how many complaints there are about it.
pub fn show_answer<W: Write>(
    options: &Options,
    spool: &Spool,
    answer: impl Read,
    out: W,
    is_terminal: bool,
) -> Result<u64, Failure> {
    let owner = owner(options)?;
    let (mut files, mut complaints) = (ControlFiles::new(spool), Complaints::default());
    let (mut lines, mut screen) = (Lines::new(answer, LIMITS), Screen::new(out, is_terminal));
    show_version_1(options, owner, &mut files, &mut lines, &mut screen, &mut complaints)?;
    screen.flush()?;
    Ok(complaints.count())
}

/// Reads an answer that is at hand, from the line behind its greeting on: the queue, and the lines of the
/// report. An answer that gives cause for a single complaint is an error.
pub fn read_answer(answer: &[u8]) -> Result<(Queue, Vec<Vec<u8>>), Failure> {
    let (mut lines, mut complaints) = (Lines::new(answer, LIMITS), Complaints::default());
    let queue = v1::read(&mut lines, &mut complaints)?;
    complaints.verdict()?;
    let mut report = Vec::new();
    while let Some(line) = lines.next()? {
        report.push(line.to_vec());
    }
    Ok((queue, report))
}

/// Shows what a scheduler sends behind the greeting of version 1.
fn show_version_1<R: Read, W: Write>(
    options: &Options,
    owner: Option<u32>,
    files: &mut ControlFiles<'_>,
    lines: &mut Lines<R>,
    screen: &mut Screen<W>,
    complaints: &mut Complaints,
) -> Result<(), Failure> {
    let wishes = Wishes {
        selection: selection(options),
        owner,
        verbose: options.verbosity(),
        sizes: options.sizes,
    };
    if options.report > 0 {
        v1::skip_to_report(lines)?;
        return report::print(screen, lines, &wishes.selection, options.report);
    }
    let queue = v1::read(lines, complaints)?;
    match options.summary {
        true => summary::print(screen, &queue, &report::oldest(lines)?, &wishes, files),
        false => listing::print(screen, &queue, &wishes, files),
    }
}

/// Whose messages alone are shown, if `-i` or `-u` says so.
fn owner(options: &Options) -> Result<Option<u32>, Failure> {
    match &options.user {
        Some(name) => match users::user_id(name) {
            Some(id) => Ok(Some(id)),
            None => Err(Failure::Usage(format!("there is no user {name}"))),
        },
        None => Ok(options.mine.then(users::effective_user)),
    }
}

/// Which threads are shown. The scheduler knows channels and hosts in lower case.
fn selection(options: &Options) -> Selection {
    let lower = |name: &Option<String>| {
        name.as_ref().map(|name| name.to_ascii_lowercase().into_bytes().into_boxed_slice())
    };
    Selection { channel: lower(&options.channel), host: lower(&options.host) }
}
