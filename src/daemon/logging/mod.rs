//! The log, the statistics log, and lines about mail.

pub(crate) mod appended_file;
pub(crate) mod background;
pub(crate) mod mail_log;
mod rotation;
pub(crate) mod syslog;

use crate::worker;
use appended_file::AppendedFile;
use background::BackgroundLog;
use log::LevelFilter;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use zsched_core::Statistics;
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_service::log_file::start_logger;

/// Maximum time to wait at the end for the disk of the log.
const MAX_FLUSH_TIME: Duration = Duration::from_secs(10);

/// The log, once it is started.
static LOG: OnceLock<BackgroundLog> = OnceLock::new();

/// Writes the rest of the log when it is dropped.
///
/// That is the last thing before the end.
pub(crate) struct LogGuard;

impl Drop for LogGuard {
    fn drop(&mut self) {
        flush();
    }
}

/// Waits until the log is written.
pub(crate) fn flush() {
    if let Some(log) = LOG.get() {
        log.flush(MAX_FLUSH_TIME);
    }
}

/// Starts logging to a file. A worker writes it.
///
/// A line has a time stamp, the level of errors and warnings, and printable text. `verbosity` is
/// the number of `-v` options.
pub(crate) fn start(file: AppendedFile, verbosity: u8) -> io::Result<(BackgroundLog, LogGuard)> {
    let log = BackgroundLog::start(file, |lost| {
        let now = Stamp::default().of(Timestamp::now()).to_string();
        format!("{now} error: {lost} lines of the log are missing\n").into_bytes()
    })?;
    LOG.get_or_init(|| log.clone());
    // The logger must not filter, since the level can change at any time.
    start_logger(STAMP, LevelFilter::Trace, Some(Box::new(log.clone())), None);
    log::set_max_level(level(verbosity));
    worker::log_panics();
    Ok((log, LogGuard))
}

/// Log level for a number of `-v` options.
pub(crate) fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}

/// Form of a time stamp: local time.
const STAMP: &str = "%Y%m%d%H%M%S";

/// Time stamps of lines. Most lines have that of the line before.
#[derive(Default)]
pub(crate) struct Stamp {
    second: Option<i64>,
    text: String,
}

impl Stamp {
    /// Time stamp of a line.
    pub(crate) fn of(&mut self, time: Timestamp) -> &str {
        let second = time.seconds();
        if self.second != Some(second) {
            self.second = Some(second);
            // A time that cannot be shown is not one of a clock.
            let shown = jiff::Timestamp::from_second(second).unwrap_or_default();
            let shown = shown.to_zoned(jiff::tz::TimeZone::system());
            self.text = shown.strftime(STAMP).to_string();
        }
        &self.text
    }
}

/// Statistics log: one line for each finished recipient.
///
/// ```text
/// <spoolid> <routed - received> <finished - routed> <state> <channel>/<host>     times in seconds
/// ```
pub(crate) struct StatisticsLog {
    pub(crate) log: BackgroundLog,
    lines: Vec<u8>,
}

impl StatisticsLog {
    /// Opens the file for appending, and starts its worker.
    pub(crate) fn start(file: AppendedFile) -> io::Result<StatisticsLog> {
        Ok(StatisticsLog { log: BackgroundLog::start(file, |_| Vec::new())?, lines: Vec::new() })
    }

    /// Adds a line. The next [`flush`](StatisticsLog::flush) passes it on.
    pub(crate) fn add(&mut self, now: Timestamp, record: &Statistics) {
        let Statistics { spool_id, created, state, destination } = record;
        let before = created.seconds_since(spool_id.modified);
        let here = now.seconds_since(*created);
        let channel = printable::line(destination.channel());
        let host = printable::line(destination.host());
        let line = format!("{spool_id} {before} {here} {state} {channel}/{host}\n");
        self.lines.extend_from_slice(line.as_bytes());
    }

    /// Passes all added lines to the worker.
    pub(crate) fn flush(&mut self) {
        if !self.lines.is_empty() {
            self.log.push(&self.lines);
            self.lines.clear();
        }
    }
}

/// Opens the statistics log for appending.
pub(crate) fn open_statistics(path: &Path) -> io::Result<AppendedFile> {
    AppendedFile::open(path, "statistics log", 0o666)
}
