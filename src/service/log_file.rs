//! The log of a service: standard error, or a file that takes its place.

use crate::with_path;
use env_logger::Target;
use log::{Level, LevelFilter, Record};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zsched_format::log_limiter::{LogLimiter, Suppressed};
use zsched_format::printable;
use zsched_sys as sys;

/// Mode of a new log. It is not readable by all: it has addresses.
pub const LOG_MODE: u32 = 0o640;
/// Format of the time before each line.
const STAMP: &str = "%Y-%m-%d %H:%M:%S%.3f";
/// Maximum number of warnings of one kind in a period. The next one says how many were left out.
const MAX_WARNINGS_PER_PERIOD: u32 = 30;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// Starts logging to a file, or to standard error. The file takes the place of standard error.
pub fn start(path: Option<&Path>) -> io::Result<()> {
    take_place_of_output(path)?;
    start_logger(STAMP, LevelFilter::Info, None, Some(WarningLimits::default()));
    Ok(())
}

/// Opens the log again, after it was renamed.
pub fn reopen(path: Option<&Path>) {
    match take_place_of_output(path) {
        Ok(()) => log::info!("log reopened"),
        Err(error) => log::error!("{error}; the former log stays"),
    }
}

/// Starts the logger of all crates of zsched, with printable text only.
///
/// `stamp` is the form of the time, as for `strftime`. `out` is standard error by default. Without
/// limits, the callers limit the lines that others can cause.
pub fn start_logger(
    stamp: &'static str,
    level: LevelFilter,
    out: Option<Box<dyn Write + Send + 'static>>,
    limits: Option<WarningLimits>,
) {
    env_logger::Builder::new()
        .filter_module("zsched", level)
        .format(move |out, record| match limits.as_ref().map(|limits| limits.permit(record)) {
            None => printable::write_log_line(out, stamp, record),
            Some(None) => Ok(()),
            Some(Some(more)) => {
                let args = format_args!("{}{more}", record.args());
                let record = Record::builder().level(record.level()).args(args).build();
                printable::write_log_line(out, stamp, &record)
            }
        })
        .target(out.map_or(Target::Stderr, Target::Pipe))
        .write_style(env_logger::WriteStyle::Never)
        .init();
}

/// Limits on errors and warnings, which a hostile client or submission could repeat at any rate.
///
/// Lines about mail are of the level `info`, and are not limited.
#[derive(Default)]
pub struct WarningLimits {
    /// By the line of source code that logs.
    limiters: Mutex<HashMap<(&'static str, u32), LogLimiter>>,
}

impl WarningLimits {
    /// Returns the suffix of a line to log now, `None` to leave it out.
    fn permit(&self, record: &Record<'_>) -> Option<Suppressed> {
        let place = record.file_static().zip(record.line());
        let Some(place) = place.filter(|_| record.level() <= Level::Warn) else {
            return Some(Suppressed::default());
        };
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || LogLimiter::new(MAX_WARNINGS_PER_PERIOD, PERIOD);
        limiters.entry(place).or_insert_with(new).permit(Instant::now())
    }
}

/// Opens a file that grows by lines. A new one gets `mode`.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(mode).open(path)
}

fn take_place_of_output(path: Option<&Path>) -> io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let file = open_to_append(path, LOG_MODE).map_err(with_path(path))?;
    sys::redirect_output(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_kind_are_limited_and_lines_about_mail_are_not() {
        let limits = WarningLimits::default();
        let count = |level, line| {
            let record = |line| {
                Record::builder().level(level).file_static(Some("x.rs")).line(Some(line)).build()
            };
            (0..100).filter(|_| limits.permit(&record(line)).is_some()).count()
        };
        assert_eq!(count(Level::Warn, 1), MAX_WARNINGS_PER_PERIOD as usize);
        assert_eq!(count(Level::Error, 1), 0, "of the same place");
        assert_eq!(count(Level::Error, 2), MAX_WARNINGS_PER_PERIOD as usize);
        assert_eq!(count(Level::Info, 3), 100);
    }
}
