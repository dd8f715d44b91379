//! The commands of `mailq`: views and orders, in the requests of `docs/mailq-protocol.md`.
//!
//! ```text
//! arguments ──► client (control socket or server) ──► schema ──► views, summary, check, top
//!                                    zmailer ──────────┘ (reports of ZMailer's schedulers)
//! ```
//!
//! Text from a scheduler goes through [`crate::format`] before it is printed, so that it stays in
//! its line and its column. [`crate::screen`] escapes unprintable characters.

mod arguments;
mod commands;

mod client;

mod ages;
mod bulk;
mod overview;
mod smtp_traffic;
mod summary;
mod views;
mod zmailer;

mod events;
mod limits;
mod messages;
mod orders;
mod passwd;

mod check;
mod top;

pub use commands::MailqCommand;

use crate::connect::session::Request;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::message::cat;
use crate::message::files::MessageFiles;
use crate::options::{ConnectOptions, MailqOptions};
use crate::screen::{Screen, Terminal};
use crate::stats;
use crate::trace;
use arguments::{OutputOptions, keyword, quoted};
use check::CheckState;
use clap::CommandFactory;
use commands::CheckArgs;
use orders::OrderCommand;
use std::io::{self, Write};
use views::{View, Viewer};
use zsched_format::printable;

/// Runs a command. Returns the exit status.
pub(crate) fn run(command: &MailqCommand, server_options: &ConnectOptions) -> Result<i32, Failure> {
    match command {
        MailqCommand::Check(check) => return Ok(run_check(check, server_options)?),
        MailqCommand::Cat(what) => {
            return cat::run(what, Installation::read(server_options)?.spool()).map(|()| 0);
        }
        _ => {}
    }
    let terminal = Terminal::of_stdout(command.width());
    let mut screen = Screen::of_stdout(terminal);
    let result = execute_command(command, server_options, terminal, &mut screen);
    screen.flush()?;
    result.map(|()| 0)
}

fn execute_command(
    command: &MailqCommand,
    server_options: &ConnectOptions,
    terminal: Terminal,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let installation = || Installation::read(server_options);
    let session = || client::session(&installation()?);
    if let MailqCommand::View(view) = command {
        return show_view(view, &installation()?, terminal, screen);
    }
    if let Some(order) = OrderCommand::of(command) {
        return order.execute(session, screen);
    }
    let send = |request: Request, done: &str, screen: &mut Screen<'_>| {
        orders::send(&mut session()?, request, done, screen)
    };
    match command {
        MailqCommand::Set { setting, until } => {
            limits::set(setting, until.as_deref())?.send(&mut session()?, screen)
        }
        MailqCommand::Unset { all: true, .. } => limits::unset_all(&mut session()?, screen),
        MailqCommand::Unset { setting, .. } => {
            limits::unset(setting)?.send(&mut session()?, screen)
        }
        MailqCommand::Retire { pid } => {
            let request = Request::new(format!("RETIRE {pid}"), "AGENTS");
            send(request, "Agent ends after its current job", screen)
        }
        MailqCommand::Reload => {
            let request = Request::new("RELOAD", "RELOAD");
            send(request, "Configuration reloaded", screen).map_err(|failure| match failure {
                Failure::Refused(errors) => {
                    Failure::Refused(format!("{errors}\nThe former configuration stays in force."))
                }
                other => other,
            })
        }
        MailqCommand::Job { export: true, order: Some(_), .. } => {
            Failure::usage("--export goes without another order")
        }
        MailqCommand::Job { id, export: true, .. } => bulk::export(&installation()?, id, screen),
        MailqCommand::Job { id, order: Some(order), .. } => {
            let (words, result) = bulk::order(order);
            send(Request::new(format!("JOB {} {words}", quoted(id)), "SET"), &result, screen)
        }
        MailqCommand::Job { id, order: None, .. } => {
            bulk::show(&mut session()?, installation()?.spool(), id, screen)
        }
        MailqCommand::Log { level } => {
            let level = keyword(*level);
            let request = Request::new(format!("LOG {level}"), "LOG");
            send(request, &format!("Log level: {level}"), screen)
        }
        MailqCommand::Etrn { host } => orders::etrn(&mut session()?, host, screen),
        MailqCommand::Events { what, json, .. } => {
            let request = events::request(what.as_deref())?;
            let installation = installation()?;
            let mut files = MessageFiles::new(installation.spool());
            events::follow(&mut session()?, request, *json, &mut files, screen)
        }
        MailqCommand::Top { interval } => top::run(installation()?, *interval, terminal),
        MailqCommand::Passwd { user, permissions, addresses } => {
            passwd::print(user, permissions, addresses, screen)
        }
        MailqCommand::Completions { shell } => {
            zsched_command_line::print_completions(*shell, &mut MailqOptions::command());
            Ok(())
        }
        MailqCommand::Trace(what) => trace::run(what, &installation()?, screen),
        MailqCommand::Stats(what) => stats::run(what, &installation()?, screen),
        // Views, orders, `check` and `cat` are handled before.
        _ => Ok(()),
    }
}

/// Shows the summary, for a command line without a command.
pub(crate) fn show_summary(server_options: &ConnectOptions) -> Result<i32, Failure> {
    run(&MailqCommand::View(View::Summary(OutputOptions::default())), server_options)
}

fn show_view(
    view: &View,
    installation: &Installation,
    terminal: Terminal,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let output = view.output();
    loop {
        // The screen is cleared when there is something new to show.
        screen.hold();
        if output.watch.is_some() && terminal.is_terminal {
            screen.clear()?;
        }
        // A scheduler closes idle connections, so each round opens a new one.
        let mut files = MessageFiles::new(installation.spool());
        let spool = installation.asks_own_scheduler().then(|| installation.spool());
        let shown = client::open(installation).and_then(|mut scheduler| {
            let (scheduler, files) = (&mut scheduler, &mut files);
            view.show(&mut Viewer { scheduler, spool, files, screen })
        });
        let shown = shown.map_err(|failure| client::advised(failure, installation));
        if shown.is_err() && matches!(view, View::Summary(_)) && !output.json {
            // The files say what they can without the scheduler.
            spool.map_or(Ok(()), |spool| smtp_traffic::print_alone(spool, screen))?;
        }
        screen.release()?;
        screen.flush()?;
        files.print_note();
        let Some(interval) = output.watch else {
            return shown;
        };
        match shown {
            // The scheduler may be restarting.
            Err(
                failure @ (Failure::Unavailable(_)
                | Failure::Refused(_)
                | Failure::TakesNoRequests
                | Failure::NotFound(_)),
            ) => {
                writeln!(screen, "{failure}")?;
            }
            other => other?,
        }
        screen.flush()?;
        std::thread::sleep(interval);
        if !terminal.is_terminal {
            screen.line(&[])?;
        }
    }
}

/// Prints the line of a check that failed. Returns the exit status.
pub(crate) fn print_failed_check(failure: &Failure) -> i32 {
    let (state, line) = check::of_failure(failure);
    // If standard output is closed, the exit status has to do.
    drop(writeln!(io::stdout(), "{}", printable::line(&line)));
    state as i32
}

/// Runs `mailq check`. Returns the exit status.
///
/// Monitoring programs read one line of standard output, so failures are printed there, too.
fn run_check(check: &CheckArgs, server_options: &ConnectOptions) -> io::Result<i32> {
    let mut of_files = Vec::new();
    let measured = Installation::read(server_options).and_then(|installation| {
        if installation.asks_own_scheduler() && check.what.is_none() {
            of_files = check::warnings(installation.spool());
            let traffic = smtp_traffic::read(installation.spool());
            of_files.extend(traffic.iter().flat_map(smtp_traffic::warnings));
        }
        let measured = check::measure(&mut client::open(&installation)?, check.what.as_deref());
        let mut measures = measured.map_err(|failure| client::advised(failure, &installation))?;
        if installation.asks_own_scheduler() && check.what.is_none() {
            measures.spool = Some(check::SpoolState::read(installation.spool()));
            let traffic = smtp_traffic::read(installation.spool());
            measures.warnings.extend(traffic.iter().flat_map(smtp_traffic::warnings));
        }
        Ok(measures)
    });
    let (state, line): (CheckState, String) = match measured {
        Ok(measures) => check.thresholds.evaluate(&measures),
        Err(failure) => {
            let (state, line) = check::of_failure(&failure);
            // The files say what they can without the scheduler.
            (state, [vec![line], of_files].concat().join("; ").replace('|', "/"))
        }
    };
    let terminal = Terminal::of_stdout(check.width);
    let mut screen = Screen::of_stdout(terminal);
    screen.wrapped(&line)?;
    screen.flush()?;
    Ok(state as i32)
}
