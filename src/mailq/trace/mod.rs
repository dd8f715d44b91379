//! `mailq trace`: the history of a message, from log and live queue.
//!
//! ```text
//! STATUSLOG, SMTPSTATUSLOG ──► log_files ───────┐
//! control files in the spool ──► spool_search ──┼──► histories ──► print, as text or JSON
//! SHOW JSON WHY over the control socket ────────┘
//! ```
//!
//! The log has the past attempts, holds and releases; the spool the recipients that are left; the
//! scheduler the next attempt. If one of them is missing, the others are shown. Only lines that
//! match are kept of the log, and only the newest if there are very many.

mod subject;

pub(crate) mod log_files;
mod smtp;
mod spool_search;

mod histories;
mod holds;
mod print;

use crate::connect::dial::dial_control_socket;
use crate::connect::lines::parse_object;
use crate::connect::session::Request;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::progress::Progress;
use crate::screen::{Screen, warn};
use clap::Args;
use histories::{History, HistorySearch, NextStep};
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use subject::TraceSubject;

/// Maximum number of messages per batch of questions to the scheduler.
const MAX_PIPELINED_REQUESTS: usize = 50;

/// Arguments of `mailq trace`.
#[derive(Args, Clone, Debug)]
pub struct TraceOptions {
    /// A message, a recipient, a host or a destination
    ///
    /// A message is named by its spool id, its Message-ID, or the number that submit prints. A word
    /// is a host; or the local part or the domain of an address.
    #[arg(value_name = "WHAT")]
    pub what: String,

    /// The status log
    ///
    /// By default it is STATUSLOG of the ZENV file, and that of the SMTP server, SMTPSTATUSLOG.
    /// FILE.1, FILE.2 and so on, also packed by gzip as FILE.2.gz, are read before it.
    #[arg(long, value_name = "FILE")]
    pub status_log: Option<PathBuf>,

    /// Print one JSON object per message, each on a line
    #[arg(long)]
    pub json: bool,

    /// Maximum line length
    ///
    /// By default, lines fit the terminal. Elsewhere their length has no limit.
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// Traces a message or a recipient.
pub(crate) fn run(
    options: &TraceOptions,
    installation: &Installation,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let mut histories = HistorySearch::about(TraceSubject::parse(&options.what));
    let log = options.status_log.as_deref().or(installation.status_log());
    let in_spool = spool_search::find(installation.spool(), &mut histories);
    let in_log = {
        let _progress = Progress::start("reading the status log");
        read_log(log, &mut histories)
    };
    let mut found = histories.finish();
    let refused = match installation.smtp_status_log().filter(|_| options.status_log.is_none()) {
        Some(log) => smtp::add_arrivals(log, &histories.subject, &mut found),
        None => Ok(Vec::new()),
    };
    let (refused, in_smtp_log) = match refused {
        Ok(refused) => (refused, Ok(())),
        Err(failure) => (Vec::new(), Err(failure)),
    };
    if let (Some(id), true) = (histories.spool_id(), found.is_empty()) {
        // It may be untried, and in a spool that this user may not read.
        found.push(History { spool_id: id.to_string(), ..History::default() });
    }
    let asked = ask(installation, &mut found);
    for history in &mut found {
        history.look_in_router(installation.spool());
    }
    found.retain(|history| !history.is_empty());
    let is_searched = in_spool.is_ok() && in_log.is_ok() && in_smtp_log.is_ok();
    // The failures say what could not be searched.
    let traced = match found.is_empty() && refused.is_empty() && is_searched {
        true => Err(Failure::no_mail(format_args!("{} (nor in the status log)", options.what))),
        false => print::print(screen, &found, &refused, options.json, &TimeZone::system())
            .map_err(Failure::Output),
    };
    screen.flush()?;
    histories.warn();
    // All failures are reported. The first one sets the exit status.
    let mut failures =
        [in_spool, in_log, in_smtp_log, asked, traced].into_iter().filter_map(Result::err);
    let Some(first) = failures.next() else {
        return Ok(());
    };
    failures.filter(Failure::must_be_reported).for_each(warn);
    Err(first)
}

/// Reads the log, and reads it again if messages match.
///
/// Failures that concern a host as a whole are in lines about other messages, and reports name
/// messages by their spool ids. Only after the first reading is it known which of those matter.
fn read_log(log: Option<&Path>, histories: &mut HistorySearch) -> Result<(), Failure> {
    let Some(path) = log else {
        warn("no status log: name it with option --status-log, or with STATUSLOG in the ZENV file");
        return Ok(());
    };
    let damage = log_files::read(path, |line| histories.take(line))?;
    damage.warn(path);
    if histories.needs_second_pass() {
        log_files::read(path, |line| histories.take_in_second_pass(line))?;
    }
    Ok(())
}

/// Asks the scheduler what each message waits for.
fn ask(installation: &Installation, histories: &mut [History]) -> Result<(), Failure> {
    if histories.is_empty() {
        return Ok(());
    }
    let mut session = dial_control_socket(installation)?;
    for some in histories.chunks_mut(MAX_PIPELINED_REQUESTS) {
        for history in &*some {
            let line = format!("SHOW JSON WHY {}", history.spool_id);
            session.send(Request::without_permission(line))?;
        }
        for history in some {
            match session.text() {
                Ok(text) => {
                    let lines = text.collect()?;
                    let waits = lines.iter().map(|line| parse_object(line.as_bytes()));
                    history.add_waits(waits.collect::<Result<_, Failure>>()?);
                }
                // The message is not queued.
                Err(Failure::Refused(_) | Failure::NotFound(_)) => {
                    history.next = NextStep::NotQueued;
                }
                Err(other) => return Err(other),
            }
        }
    }
    Ok(())
}
