//! The commands of `mailq`: views and orders, in the requests of `docs/mailq-protocol.md`.
//!
//! ```text
//! arguments ──► source (control socket or server) ──► model ──► views, summary, check, top
//!                                    classic ─────────┘ (reports of ZMailer's schedulers)
//! ```
//!
//! Text from a scheduler goes through [`words`] before it is printed, so that it stays in its line
//! and its column. [`paper`] escapes unprintable characters.

mod arguments;
mod check;
mod classic;
mod commands;
mod events;
mod model;
mod orders;
mod overview;
mod paper;
mod passwd;
mod source;
mod summary;
mod table;
mod top;
mod views;
mod words;

pub use commands::Command;

use super::connection::Connection;
use super::failure::Failure;
use super::installation::Installation;
use super::options::{Options, Reach};
use super::screen::Screen;
use super::session::{Request, Session};
use super::show;
use super::trace;
use arguments::Display;
use check::State;
use clap::CommandFactory;
use commands::{Agreement, Check};
use orders::{Order, Verb};
use paper::{Paper, Terminal};
use std::io::{self, Write};
use std::time::Duration;
use views::View;
use zsched_format::printable;

/// Runs a command. Returns the exit status.
pub fn run(command: &Command, reach: &Reach) -> Result<i32, Failure> {
    match command {
        Command::Check(check) => return Ok(run_check(check, reach)?),
        Command::Trace(what) => return trace(what, reach).map(|()| 0),
        _ => {}
    }
    let terminal = Terminal::of_stdout(command.width());
    let out = io::BufWriter::new(io::stdout().lock());
    let mut paper = Paper::new(out, terminal.columns, terminal.has_colour);
    let result = carry_out(command, reach, terminal, &mut paper);
    paper.flush()?;
    result.map(|()| 0)
}

fn carry_out<W: Write>(
    command: &Command,
    reach: &Reach,
    terminal: Terminal,
    paper: &mut Paper<W>,
) -> Result<(), Failure> {
    let installation = || Installation::read(reach.zenv.as_deref());
    if let Some((view, display)) = command.view() {
        return show_view(&view, display, reach, &installation()?, terminal, paper);
    }
    // Ends the session with QUIT, also after a failure.
    let with = |work: &mut dyn FnMut(&mut Session<Connection>) -> Result<(), Failure>| {
        let mut session = source::session(reach, &installation()?)?;
        let result = work(&mut session);
        session.quit();
        result
    };
    let send = |request: Request, done: &str, paper: &mut Paper<W>| {
        with(&mut |session| orders::send(session, request.clone(), done, paper))
    };
    let order = |verb, agreement: &Agreement, all, reason: Option<String>| Order {
        verb,
        selection: agreement.selection.clone(),
        all,
        reason,
        manner: agreement.manner.clone(),
    };
    let give = |order: Order, paper: &mut Paper<W>| {
        if order.needs_a_yes() {
            let mut is_something = false;
            with(&mut |session| {
                is_something = order.count(session, paper)?;
                Ok(())
            })?;
            // No session is open while the user is asked: a scheduler closes idle ones.
            if !is_something || !order.is_meant(paper)? {
                return Ok(());
            }
        }
        with(&mut |session| order.give(session, paper))
    };
    match command {
        Command::Hold { agreement, reason } => {
            give(order(Verb::Hold, agreement, false, reason.clone()), paper)
        }
        Command::Release { agreement, all } => {
            give(order(Verb::Release, agreement, *all, None), paper)
        }
        Command::Retry(agreement) => give(order(Verb::Retry, agreement, false, None), paper),
        Command::Expire(agreement) => give(order(Verb::Expire, agreement, false, None), paper),
        Command::Delete(agreement) => give(order(Verb::Delete, agreement, false, None), paper),
        Command::Reroute(agreement) => give(order(Verb::Reroute, agreement, false, None), paper),
        Command::Set { setting, until } => {
            let request = orders::set(setting, until.as_deref())?;
            send(request, "Set.", paper)
        }
        Command::Unset { setting } => {
            let request = orders::unset(setting)?;
            send(request, "As the configuration says.", paper)
        }
        Command::Retire { pid } => {
            let request = Request::new(format!("RETIRE {pid}"), "AGENTS");
            send(request, "It ends after its present job.", paper)
        }
        Command::Reload => {
            let request = Request::new("RELOAD", "RELOAD");
            send(request, "The configuration was read again.", paper)
        }
        Command::Log { level } => {
            let request = Request::new(format!("LOG {}", level.word()), "LOG");
            send(request, &format!("It logs {}.", level.word()), paper)
        }
        Command::Etrn { host } => {
            // The scheduler knows hosts in lower case.
            let request = Request::new(format!("ETRN {}", host.to_ascii_lowercase()), "ETRN");
            with(&mut |session| {
                let said = session.ask_for_line(request.clone())?;
                Ok(paper.line(&show::said(&said))?)
            })
        }
        Command::Events { selection, json, .. } => {
            let words =
                selection.words()?.iter().map(|word| format!(" {word}")).collect::<String>();
            let request = Request::new(format!("SUBSCRIBE{words}"), "EVENTS");
            with(&mut |session| events::follow(session, request.clone(), *json, paper))
        }
        Command::Top { interval } => {
            let interval = interval_of(*interval)?;
            top::run(reach, installation()?, interval, terminal)
        }
        Command::Passwd { user, permissions, addresses } => {
            passwd::print(user, permissions, addresses, paper)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Options::command(), "mailq", &mut script);
            Ok(paper.plain(&String::from_utf8_lossy(&script))?)
        }
        // Views, `check` and `trace` are handled before.
        _ => Ok(()),
    }
}

fn trace(what: &trace::Options, reach: &Reach) -> Result<(), Failure> {
    let mut screen = Screen::new(io::BufWriter::new(io::stdout().lock()));
    let traced = trace::run(what, &Installation::read(reach.zenv.as_deref())?, &mut screen);
    screen.flush()?;
    traced
}

/// Shows the summary, for a command line without a command.
pub fn show_summary(reach: &Reach) -> Result<i32, Failure> {
    run(&Command::Summary(Display::default()), reach)
}

fn show_view<W: Write>(
    view: &View,
    display: &Display,
    reach: &Reach,
    installation: &Installation,
    terminal: Terminal,
    paper: &mut Paper<W>,
) -> Result<(), Failure> {
    let interval = display.watch.map(interval_of).transpose()?;
    loop {
        // A scheduler closes idle connections, so each round opens a new one.
        let mut on_page = paper.page();
        let shown = source::open(reach, installation).and_then(|mut scheduler| {
            match display.json {
                true => view.print_json(&mut scheduler, &mut on_page)?,
                false => view.print(&mut scheduler, &mut on_page)?,
            }
            scheduler.leave();
            Ok(())
        });
        if interval.is_some() && terminal.is_one {
            paper.clear()?;
        }
        paper.add(&on_page)?;
        let Some(interval) = interval else {
            return shown;
        };
        match shown {
            // The scheduler may be restarting.
            Err(failure @ Failure::Unavailable(_)) => paper.line(&failure.to_string())?,
            other => other?,
        }
        paper.flush()?;
        std::thread::sleep(interval);
        if !terminal.is_one {
            paper.end_line()?;
        }
    }
}

fn interval_of(seconds: f64) -> Result<Duration, Failure> {
    match (0.1..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(Failure::Usage("it can be shown every 0.1 to 86400 seconds".to_string())),
    }
}

/// Prints the line of a check that failed. Returns the exit status.
pub fn check_in_vain(failure: &Failure) -> i32 {
    let (state, line) = check::of_failure(failure);
    // If standard output is closed, the exit status has to do.
    drop(writeln!(io::stdout(), "{}", printable::line(&line)));
    state as i32
}

/// Runs `mailq check`. Returns the exit status.
///
/// Monitoring programs read one line of standard output, so failures are printed there, too.
fn run_check(check: &Check, reach: &Reach) -> io::Result<i32> {
    let measured = Installation::read(reach.zenv.as_deref()).and_then(|installation| {
        let mut scheduler = source::open(reach, &installation)?;
        let measured = check::measure(&mut scheduler, &check.selection);
        scheduler.leave();
        let mut measures = measured?;
        if reach.is_local(&installation) && check.selection.is_everything() {
            measures.orphans = check::find_orphans(installation.spool());
        }
        Ok(measures)
    });
    let (state, line): (State, String) = match measured {
        Ok(measures) => check.thresholds.judge(&measures),
        Err(failure) => check::of_failure(&failure),
    };
    writeln!(io::stdout(), "{}", printable::line(&line))?;
    Ok(state as i32)
}
