//! `mailq stats`: what a status log says, counted.
//!
//! It answers what pflogsumm answers for Postfix: how much was delivered, deferred and given up,
//! how long it took, for which destinations, and for which reasons.

mod print;
mod tally;

use crate::failure::Failure;
use crate::format::span_argument;
use crate::installation::Installation;
use crate::progress::Progress;
use crate::screen::Screen;
use crate::trace::log_files::{self, LogLine};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use std::path::PathBuf;
use tally::Tally;

/// Arguments of `mailq stats`.
#[derive(Args, Clone, Debug)]
pub struct StatsOptions {
    /// The status log
    ///
    /// By default it is STATUSLOG of the ZENV file, and that of the SMTP server, SMTPSTATUSLOG.
    /// FILE.1, FILE.2 and so on, also packed by gzip as FILE.2.gz, are read before it.
    #[arg(value_name = "FILE")]
    pub status_log: Option<PathBuf>,

    /// Count only what happened since this time ago, such as 24h
    #[arg(long, value_name = "SPAN", value_parser = span_argument)]
    pub since: Option<f64>,

    /// Maximum number of rows of each table
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    pub limit: usize,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Maximum line length
    ///
    /// By default, lines fit the terminal. Elsewhere their length has no limit.
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<usize>,
}

/// Counts a status log and prints the result.
pub(crate) fn run(
    options: &StatsOptions,
    installation: &Installation,
    screen: &mut Screen<'_>,
) -> Result<(), Failure> {
    let Some(path) = options.status_log.as_deref().or(installation.status_log()) else {
        return Failure::usage("no status log: name it, or set STATUSLOG in the ZENV file");
    };
    let ago = |seconds| Timestamp::now().checked_sub(SignedDuration::from_secs_f64(seconds));
    let since = options.since.and_then(|seconds| ago(seconds).ok());
    let mut tally = Tally::default();
    let progress = Progress::start("reading the status log");
    // A log that is named may be that of the SMTP server.
    let of_smtp = installation.smtp_status_log().filter(|_| options.status_log.is_none());
    for path in [path].into_iter().chain(of_smtp) {
        let mut without_time = 0;
        let damage = log_files::read(path, |line| {
            let time = match &line {
                LogLine::Status(line) => &line.time,
                LogLine::Smtp(line) => &line.time,
                LogLine::Report(_) | LogLine::Hold(_) => return,
            };
            match (time.parse::<Timestamp>(), &line) {
                (Ok(time), _) if since.is_some_and(|since| time < since) => {}
                (Ok(time), LogLine::Status(line)) => tally.add(time, line),
                (Ok(_), LogLine::Smtp(line)) => tally.smtp.add(line),
                (Ok(_), _) => {}
                (Err(_), _) => without_time += 1,
            }
        })?;
        damage.with_unreadable(without_time).warn(path);
    }
    drop(progress);
    match options.json {
        true => print::print_json(&tally, options.limit, screen)?,
        false => print::print_text(&tally, options.limit, screen)?,
    }
    Ok(())
}
