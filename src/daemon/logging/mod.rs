//! The log, the statistics log, and lines about mail.

pub(crate) mod mail_log;
pub(crate) mod syslog;

use log::LevelFilter;
use std::io;
use std::path::Path;
use zsched_core::Statistics;
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_service::log_file::{self, LogGuard};
use zsched_service::{AppendedFile, BackgroundLog};

/// Starts logging to a file.
///
/// A line has a time stamp, the level of errors and warnings, and printable text. `verbosity` is
/// the number of `-v` options.
pub(crate) fn start(file: AppendedFile, verbosity: u8) -> io::Result<(BackgroundLog, LogGuard)> {
    // The logger must not filter, since the level can change at any time.
    let started = log_file::start_with(file, STAMP, LevelFilter::Trace, None)?;
    log::set_max_level(level(verbosity));
    Ok(started)
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
#[derive(Clone, Default)]
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use zsched_service::{GapLine, LogOutput};

    /// Lines, and the number of lost ones.
    type Kept = Arc<Mutex<(Vec<u8>, u64)>>;

    struct MemoryLog(Kept, u64);

    impl LogOutput for MemoryLog {
        fn what(&self) -> &'static str {
            "test log"
        }

        fn reopen(&mut self, _only_renamed: bool) {}

        fn append(&mut self, lines: &[u8], _gap: &GapLine) {
            let mut kept = self.0.lock().expect("not poisoned");
            kept.0.extend_from_slice(lines);
            kept.1 += std::mem::take(&mut self.1);
        }

        fn lost(&mut self) -> &mut u64 {
            &mut self.1
        }
    }

    /// A log in memory, and what takes its lines and the number of lost ones.
    pub(crate) fn memory_log() -> (BackgroundLog, impl Fn() -> (Vec<u8>, u64)) {
        let kept = Kept::default();
        let log = BackgroundLog::start(MemoryLog(kept.clone(), 0), |_| Vec::new());
        let log = log.expect("a worker");
        let flushed = log.clone();
        let taken = move || {
            assert!(flushed.flush(Duration::from_secs(60)));
            std::mem::take(&mut *kept.lock().expect("not poisoned"))
        };
        (log, taken)
    }
}
