//! The log of a service: standard error, or a file that takes its place. A worker writes it.

use crate::{AppendedFile, BackgroundLog, with_path, worker};
use env_logger::Target;
use log::{Level, LevelFilter, Record};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use zsched_format::log_limiter::{LogLimiters, Suppressed};
use zsched_format::printable;

/// Mode of a new log. It is not readable by all: it has addresses.
pub const LOG_MODE: u32 = 0o640;
/// Format of the time before each line.
const STAMP: &str = "%Y-%m-%d %H:%M:%S%.3f";
/// Maximum number of warnings of one kind in a period. The next one says how many were left out.
const MAX_WARNINGS_PER_PERIOD: u32 = 30;
/// Length of a period.
const PERIOD: Duration = Duration::from_secs(60);

/// Maximum time to wait at the end for the disk of the log.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(10);

/// The log, once it is started.
static LOG: OnceLock<BackgroundLog> = OnceLock::new();

/// Writes the rest of the log when it is dropped.
///
/// That is the last thing before the end.
pub struct LogGuard;

impl Drop for LogGuard {
    fn drop(&mut self) {
        flush();
    }
}

/// Waits until the log is written.
pub fn flush() {
    if let Some(log) = LOG.get() {
        log.flush(MAX_FLUSH_TIME);
    }
}

/// Opens the log of a service: a file, or standard error. The file takes the place of the latter.
pub fn open(path: Option<&Path>) -> io::Result<AppendedFile> {
    AppendedFile::log(path).map_err(with_path(path.unwrap_or(Path::new("standard error"))))
}

/// Starts the log of a service, with limits on errors and warnings.
pub fn start(file: AppendedFile) -> io::Result<(BackgroundLog, LogGuard)> {
    start_with(file, STAMP, LevelFilter::Info, Some(WarningLimits::default()))
}

/// Starts a log for all crates of zsched, with printable text only. A worker writes it.
///
/// `stamp` is the form of the time, as for `strftime`. Without limits, the callers limit the lines
/// that others can cause. Panics become lines of the log.
pub fn start_with(
    file: AppendedFile,
    stamp: &'static str,
    level: LevelFilter,
    limits: Option<WarningLimits>,
) -> io::Result<(BackgroundLog, LogGuard)> {
    let log = BackgroundLog::start(file, move |lost| {
        let (mut line, level) = (Vec::new(), Level::Error);
        let text = format_args!("{lost} lines of the log are missing");
        let record = Record::builder().level(level).args(text).build();
        printable::write_log_line(&mut line, stamp, &record).expect("a Vec takes everything");
        line
    })?;
    LOG.get_or_init(|| log.clone());
    start_logger(stamp, level, Box::new(log.clone()), limits);
    worker::log_panics();
    Ok((log, LogGuard))
}

fn start_logger(
    stamp: &'static str,
    level: LevelFilter,
    out: Box<dyn Write + Send + 'static>,
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
        .target(Target::Pipe(out))
        .write_style(env_logger::WriteStyle::Never)
        .init();
}

/// Limits on errors and warnings, which a hostile client or submission could repeat at any rate.
///
/// Lines about mail are of the level `info`, and are not limited.
pub struct WarningLimits {
    /// By the line of source code that logs.
    limiters: Mutex<LogLimiters<(&'static str, u32)>>,
}

impl Default for WarningLimits {
    fn default() -> WarningLimits {
        let limiters = Mutex::new(LogLimiters::new(MAX_WARNINGS_PER_PERIOD, PERIOD));
        WarningLimits { limiters }
    }
}

impl WarningLimits {
    /// Returns the suffix of a line to log now, `None` to leave it out.
    fn permit(&self, record: &Record<'_>) -> Option<Suppressed> {
        let place = record.file_static().zip(record.line());
        let Some(place) = place.filter(|_| record.level() <= Level::Warn) else {
            return Some(Suppressed::default());
        };
        self.limiters.lock().unwrap_or_else(PoisonError::into_inner).permit(place)
    }
}

/// Opens a file that grows by lines. A new one gets `mode`.
pub fn open_to_append(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(mode).open(path)
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
