//! The log and the statistics log.

pub(crate) mod appended_file;
mod rotation;
pub(crate) mod status_log;

use crate::worker;
use appended_file::AppendedFile;
use log::LevelFilter;
use rotation::RotationDetector;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use zsched_core::Statistics;
use zsched_format::printable;
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Starts logging to standard error.
///
/// A line has a time stamp, the level of errors and warnings, and printable text. `verbosity` is
/// the number of `-v` options.
pub(crate) fn start(verbosity: u8) {
    env_logger::Builder::new()
        // The logger must not filter, since the level can change at any time.
        .filter_module("zsched", LevelFilter::Trace)
        .format(|out, record| {
            let now = jiff::Zoned::now().strftime("%Y%m%d%H%M%S");
            let text = record.args().to_string();
            let text = printable::line(&text);
            match record.level() {
                log::Level::Error => writeln!(out, "{now} error: {text}"),
                log::Level::Warn => writeln!(out, "{now} warning: {text}"),
                _ => writeln!(out, "{now} {text}"),
            }
        })
        .write_style(env_logger::WriteStyle::Never)
        .init();
    log::set_max_level(level(verbosity));
    worker::log_panics();
}

/// Log level for a number of `-v` options.
pub(crate) fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}

/// File that standard output and error are redirected to.
///
/// It is reopened on request, so that log rotation works.
pub(crate) struct LogFile {
    path: PathBuf,
    rotation: RotationDetector,
}

impl LogFile {
    /// Redirects standard output and error to a file.
    pub(crate) fn open(path: &Path) -> io::Result<LogFile> {
        sys::redirect_output(path)?;
        Ok(LogFile { path: path.to_path_buf(), rotation: RotationDetector::default() })
    }

    /// Reopens the file under its name, or only if it was renamed. Logs an error.
    pub(crate) fn reopen(&mut self, only_renamed: bool) {
        match self.try_reopen(only_renamed) {
            Err(error) => log::error!("the log cannot be reopened: {error}"),
            Ok(true) if only_renamed => log::info!("the log was renamed and reopened"),
            Ok(_) => {}
        }
    }

    fn try_reopen(&mut self, only_renamed: bool) -> io::Result<bool> {
        if only_renamed {
            let open = File::from(io::stderr().as_fd().try_clone_to_owned()?);
            if !self.rotation.is_renamed(&self.path, &open) {
                return Ok(false);
            }
        }
        sys::redirect_output(&self.path).map(|()| true)
    }
}

/// Statistics log: one line for each finished recipient.
///
/// ```text
/// <spoolid> <routed - received> <finished - routed> <state> <channel>/<host>     times in seconds
/// ```
pub(crate) struct StatisticsLog {
    pub(crate) file: AppendedFile,
    lines: Vec<u8>,
}

impl StatisticsLog {
    /// Opens the file for appending.
    pub(crate) fn open(path: &Path) -> io::Result<StatisticsLog> {
        let file = AppendedFile::open(path, "statistics log", 0o666)?;
        Ok(StatisticsLog { file, lines: Vec::new() })
    }

    /// Adds a line. The next [`flush`](StatisticsLog::flush) writes it.
    pub(crate) fn add(&mut self, now: Timestamp, record: &Statistics) {
        let Statistics { spool_id, created, state, destination } = record;
        let before = created.seconds_since(spool_id.modified);
        let here = now.seconds_since(*created);
        let channel = printable::line(destination.channel());
        let host = printable::line(destination.host());
        let line = format!("{spool_id} {before} {here} {state} {channel}/{host}\n");
        self.lines.extend_from_slice(line.as_bytes());
    }

    /// Writes all added lines.
    pub(crate) fn flush(&mut self) {
        if !self.lines.is_empty() {
            self.file.append(&self.lines, |_| Vec::new());
            self.lines.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn statistics_lines_lost_on_full_disk_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("statistics");
        let mut log = StatisticsLog::open(&path).expect("opened");
        log.lines.extend_from_slice(b"1\n");
        log.flush();
        let good = std::mem::replace(
            &mut log.file.file,
            File::options().write(true).open("/dev/full").expect("there"),
        );
        for line in [b"2\n", b"3\n"] {
            log.lines.extend_from_slice(line);
            log.flush();
        }
        assert_eq!(log.file.lost, 2);
        log.flush();
        assert_eq!(log.file.lost, 2, "nothing to write");
        // Simulates a last write that ended in the middle of a line.
        (log.file.file, log.file.is_torn) = (good, true);
        log.lines.extend_from_slice(b"4\n");
        log.flush();
        assert_eq!((log.file.lost, log.file.is_torn), (0, false));
        assert_eq!(fs::read(&path).expect("written"), b"1\n\n4\n");
    }
}
