//! Output without a command: what ZMailer's `mailq` prints, and totals.
//!
//! ```text
//! version 1: a dump ──► v1 ───────┬──► queue ──► listing, totals
//! version 2: requests ──► v2 ──┬──┘                │
//!                              └───────────────────┘
//! either version ──► report_reader     spool ──► status, details
//! ```

mod show;

pub(crate) mod v1;
pub(crate) mod v2;

pub(crate) mod queue;

pub(crate) mod details;
mod listing;
pub(crate) mod report_reader;
mod status;
mod totals;

pub(crate) use show::{ClassicOutput, answer_text};

use crate::connect::dial::{Scheduler, dial, dial_control_socket};
use crate::connect::server::Server;
use crate::connect::session::Request;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::options::{ClassicOptions, ConnectOptions};
use crate::screen::{Screen, Terminal, warn};

/// Prints what the options ask for on standard output.
pub(crate) fn run(
    server_options: &ConnectOptions,
    options: &ClassicOptions,
) -> Result<(), Failure> {
    let mut screen = Screen::of_stdout(Terminal::default());
    let shown = print(server_options, options, &mut screen);
    screen.flush()?;
    shown
}

fn print(
    server_options: &ConnectOptions,
    options: &ClassicOptions,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let installation = Installation::read(server_options)?;
    if let Some(subject) = &options.why {
        let request = Request::without_permission(format!("SHOW WHY {subject}"));
        // A wrong subject is an error of the command line, even without a scheduler.
        request.check()?;
        return dial_control_socket(&installation)?.ask_for_text(request)?.print(screen);
    }
    let mut output = ClassicOutput::new(options, installation.spool())?;
    if options.shared_memory {
        warn(
            "shared memory (-M) is not supported; asking the scheduler for its queue (-QQQQ shows \
             its counters)",
        );
    }
    let only_status = options.status > 1 && options.sizes == 0;
    if only_status {
        return status::print(screen, &installation, true);
    }
    let server = Server::find(&installation)?;
    let addresses = server.addresses(server_options)?;
    let is_local = server.is_local(&addresses);
    if !is_local {
        screen.line(&[b"[", server.host().as_bytes(), b"]"])?;
    }
    // An error in the spool does not keep the scheduler from being asked.
    let status = match options.status {
        0 => Ok(()),
        _ => status::print(screen, &installation, is_local),
    };
    screen.flush()?;
    let shown = match dial(&server, &addresses, &installation)? {
        Scheduler::Dump(mut lines) => output.dump(&mut lines, screen),
        Scheduler::Session(mut session) => output.session(&mut session, screen),
    };
    // Warnings follow the output, even where both go to the same place.
    screen.flush()?;
    let verdict = output.verdict();
    shown.and(verdict).and(status)
}
