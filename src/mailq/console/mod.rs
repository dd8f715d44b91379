//! The commands of `mailq`: views and orders, in the requests of `docs/mailq-protocol.md`.
//!
//! ```text
//! arguments ──► client (control socket or server) ──► model ──► views, summary, check, top
//!                                    zmailer ─────────┘ (reports of ZMailer's schedulers)
//! ```
//!
//! Text from a scheduler goes through [`mod@format`] before it is printed, so that it stays in its
//! line and its column. [`output`] escapes unprintable characters.

mod arguments;
mod commands;

mod client;
mod model;

mod overview;
mod summary;
mod views;
mod zmailer;

mod events;
mod orders;
mod passwd;

mod check;
mod top;

mod format;
mod output;
mod table;

pub use commands::Command;

use crate::classic;
use crate::connect::connection::Connection;
use crate::connect::session::{Request, Session};
use crate::failure::Failure;
use crate::installation::Installation;
use crate::options::{MailqOptions, ServerOptions};
use crate::screen::Screen;
use crate::trace;
use arguments::OutputOptions;
use check::CheckState;
use clap::CommandFactory;
use commands::{CheckArgs, OrderArgs};
use orders::{OrderCommand, Verb};
use output::{StyledWriter, Terminal};
use std::io::{self, Write};
use std::time::Duration;
use views::View;
use zsched_format::printable;

/// Runs a command. Returns the exit status.
pub(crate) fn run(command: &Command, server_options: &ServerOptions) -> Result<i32, Failure> {
    match command {
        Command::Check(check) => return Ok(run_check(check, server_options)?),
        Command::Trace(what) => return trace(what, server_options).map(|()| 0),
        _ => {}
    }
    let terminal = Terminal::of_stdout(command.width());
    let out = io::BufWriter::new(io::stdout().lock());
    let mut output = StyledWriter::new(out, terminal.columns, terminal.has_colour);
    let result = execute_command(command, server_options, terminal, &mut output);
    output.flush()?;
    result.map(|()| 0)
}

fn execute_command<W: Write>(
    command: &Command,
    server_options: &ServerOptions,
    terminal: Terminal,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    let installation = || Installation::read(server_options.zenv.as_deref());
    if let Some((view, display)) = command.view() {
        return show_view(&view, display, server_options, &installation()?, terminal, output);
    }
    // Ends the session with QUIT, also after a failure.
    let with = |work: &mut dyn FnMut(&mut Session<Connection>) -> Result<(), Failure>| {
        let mut session = client::session(server_options, &installation()?)?;
        let result = work(&mut session);
        session.quit();
        result
    };
    let send = |request: Request, done: &str, output: &mut StyledWriter<W>| {
        with(&mut |session| orders::send(session, request.clone(), done, output))
    };
    let order = |verb, args: &OrderArgs, all, reason: Option<String>| OrderCommand {
        verb,
        selection: args.selection.clone(),
        all,
        reason,
        options: args.options.clone(),
    };
    let execute = |order: OrderCommand, output: &mut StyledWriter<W>| {
        if order.needs_confirmation() {
            let mut is_something = false;
            with(&mut |session| {
                is_something = order.count(session, output)?;
                Ok(())
            })?;
            // No session is open while the user is asked: a scheduler closes idle ones.
            if !is_something || !order.confirm(output)? {
                return Ok(());
            }
        }
        with(&mut |session| order.execute(session, output))
    };
    match command {
        Command::Hold { args, reason } => {
            execute(order(Verb::Hold, args, false, reason.clone()), output)
        }
        Command::Release { args, all } => execute(order(Verb::Release, args, *all, None), output),
        Command::Retry(args) => execute(order(Verb::Retry, args, false, None), output),
        Command::Expire(args) => execute(order(Verb::Expire, args, false, None), output),
        Command::Delete(args) => execute(order(Verb::Delete, args, false, None), output),
        Command::Reroute(args) => execute(order(Verb::Reroute, args, false, None), output),
        Command::Set { setting, until } => {
            let request = orders::set(setting, until.as_deref())?;
            send(request, "Limit set.", output)
        }
        Command::Unset { setting } => {
            let request = orders::unset(setting)?;
            send(request, "Limit reset to configuration.", output)
        }
        Command::Retire { pid } => {
            let request = Request::new(format!("RETIRE {pid}"), "AGENTS");
            send(request, "Agent ends after its current job.", output)
        }
        Command::Reload => {
            let request = Request::new("RELOAD", "RELOAD");
            send(request, "Configuration reloaded.", output)
        }
        Command::Log { level } => {
            let request = Request::new(format!("LOG {}", level.word()), "LOG");
            send(request, &format!("Log level: {}.", level.word()), output)
        }
        Command::Etrn { host } => {
            // The scheduler has hosts in lower case.
            let request = Request::new(format!("ETRN {}", host.to_ascii_lowercase()), "ETRN");
            with(&mut |session| {
                let reply = session.ask_for_line(request.clone())?;
                Ok(output.line(&classic::answer_text(&reply))?)
            })
        }
        Command::Events { selection, json, .. } => {
            let words =
                selection.words()?.iter().map(|word| format!(" {word}")).collect::<String>();
            let request = Request::new(format!("SUBSCRIBE{words}"), "EVENTS");
            with(&mut |session| events::follow(session, request.clone(), *json, output))
        }
        Command::Top { interval } => {
            let interval = interval_of(*interval)?;
            top::run(server_options, installation()?, interval, terminal)
        }
        Command::Passwd { user, permissions, addresses } => {
            passwd::print(user, permissions, addresses, output)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut MailqOptions::command(), "mailq", &mut script);
            Ok(output.plain(&String::from_utf8_lossy(&script))?)
        }
        // Views, `check` and `trace` are handled before.
        _ => Ok(()),
    }
}

fn trace(what: &trace::TraceOptions, server_options: &ServerOptions) -> Result<(), Failure> {
    let mut screen = Screen::new(io::BufWriter::new(io::stdout().lock()));
    let traced =
        trace::run(what, &Installation::read(server_options.zenv.as_deref())?, &mut screen);
    screen.flush()?;
    traced
}

/// Shows the summary, for a command line without a command.
pub(crate) fn show_summary(server_options: &ServerOptions) -> Result<i32, Failure> {
    run(&Command::Summary(OutputOptions::default()), server_options)
}

fn show_view<W: Write>(
    view: &View,
    display: &OutputOptions,
    server_options: &ServerOptions,
    installation: &Installation,
    terminal: Terminal,
    output: &mut StyledWriter<W>,
) -> Result<(), Failure> {
    let interval = display.watch.map(interval_of).transpose()?;
    loop {
        // A scheduler closes idle connections, so each round opens a new one.
        let mut on_page = output.page();
        let shown = client::open(server_options, installation).and_then(|mut scheduler| {
            match display.json {
                true => view.print_json(&mut scheduler, &mut on_page)?,
                false => view.print(&mut scheduler, &mut on_page)?,
            }
            scheduler.close();
            Ok(())
        });
        if interval.is_some() && terminal.is_terminal {
            output.clear()?;
        }
        output.add(&on_page)?;
        let Some(interval) = interval else {
            return shown;
        };
        match shown {
            // The scheduler may be restarting.
            Err(failure @ (Failure::Unavailable(_) | Failure::Refused(_))) => {
                output.line(&failure.to_string())?;
            }
            other => other?,
        }
        output.flush()?;
        std::thread::sleep(interval);
        if !terminal.is_terminal {
            output.end_line()?;
        }
    }
}

fn interval_of(seconds: f64) -> Result<Duration, Failure> {
    match (0.1..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(Failure::Usage("the interval must be 0.1 to 86400 seconds".to_string())),
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
fn run_check(check: &CheckArgs, server_options: &ServerOptions) -> io::Result<i32> {
    let measured = Installation::read(server_options.zenv.as_deref()).and_then(|installation| {
        let mut scheduler = client::open(server_options, &installation)?;
        let measured = check::measure(&mut scheduler, &check.selection);
        scheduler.close();
        let mut measures = measured?;
        if server_options.is_local(&installation) && check.selection.is_everything() {
            measures.orphans = check::find_orphans(installation.spool());
        }
        Ok(measures)
    });
    let (state, line): (CheckState, String) = match measured {
        Ok(measures) => check.thresholds.evaluate(&measures),
        Err(failure) => check::of_failure(&failure),
    };
    writeln!(io::stdout(), "{}", printable::line(&line))?;
    Ok(state as i32)
}
