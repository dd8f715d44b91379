//! The log and the statistics log.

pub(crate) mod rotation;
pub(crate) mod status_log;

use crate::logging::rotation::RotationDetector;
use crate::worker;
use log::LevelFilter;
use memchr::memchr_iter;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;
use zsched_core::Statistics;
use zsched_core::log_limiter::LogLimiter;
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

    /// Reopens the file under its name.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        sys::redirect_output(&self.path)
    }

    /// Reopens the file if it was renamed. Returns true if so.
    pub(crate) fn reopen_if_renamed(&mut self) -> io::Result<bool> {
        let open = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let has_moved = self.rotation.is_renamed(&self.path, &open);
        if has_moved { self.reopen().map(|()| true) } else { Ok(false) }
    }
}

/// Statistics log: one line for each finished recipient.
///
/// ```text
/// <spoolid> <routed - received> <finished - routed> <state> <channel>/<host>     times in seconds
/// ```
pub(crate) struct StatisticsLog {
    path: PathBuf,
    file: File,
    lines: Vec<u8>,
    /// True if the last write ended in the middle of a line.
    is_torn: bool,
    /// Lost lines that the log has not reported as missing yet.
    lost: usize,
    /// Limiter for log lines about failed writes.
    write_failures_log: LogLimiter,
    rotation: RotationDetector,
}

impl StatisticsLog {
    /// Opens the file for appending.
    pub(crate) fn open(path: &Path) -> io::Result<StatisticsLog> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(StatisticsLog {
            path: path.to_path_buf(),
            file,
            lines: Vec::new(),
            is_torn: false,
            lost: 0,
            write_failures_log: LogLimiter::default(),
            rotation: RotationDetector::default(),
        })
    }

    /// Reopens the file under its name.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.file = StatisticsLog::open(&self.path)?.file;
        self.is_torn = false;
        Ok(())
    }

    /// Reopens the file if it was renamed. Returns true if so.
    pub(crate) fn reopen_if_renamed(&mut self) -> io::Result<bool> {
        let has_moved = self.rotation.is_renamed(&self.path, &self.file);
        if has_moved { self.reopen().map(|()| true) } else { Ok(false) }
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

    /// Writes all added lines. Lines that cannot be written are lost, counted and logged.
    pub(crate) fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if self.is_torn {
            self.lines.insert(0, b'\n');
        }
        let (written, error) = write_some(&self.file, &self.lines);
        if written > 0 {
            self.is_torn = self.lines[written - 1] != b'\n';
        }
        let path = self.path.display();
        if let Some(error) = error {
            // This counts a torn line, too: its end is in the rest.
            self.lost += memchr_iter(b'\n', &self.lines[written..]).count();
            if let Some(more) = self.write_failures_log.permit(Instant::now()) {
                let lost = self.lost;
                log::error!(
                    "{path}: {error}; {lost} lines of the statistics log are lost so far{more}"
                );
            }
        } else if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            log::error!("{path}: the statistics log continues, {lost} lines are missing");
        }
        self.lines.clear();
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes as much as possible, usually with one system call.
///
/// Returns the number of bytes written, and the error if that is not all.
pub(crate) fn write_some(mut file: &File, text: &[u8]) -> (usize, Option<io::Error>) {
    let mut written = 0;
    while written < text.len() {
        match file.write(&text[written..]) {
            Ok(0) => return (written, Some(ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Some(error)),
        }
    }
    (written, None)
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
            &mut log.file,
            File::options().write(true).open("/dev/full").expect("there"),
        );
        for line in [b"2\n", b"3\n"] {
            log.lines.extend_from_slice(line);
            log.flush();
        }
        assert_eq!(log.lost, 2);
        log.flush();
        assert_eq!(log.lost, 2, "nothing to write");
        // Simulates a last write that ended in the middle of a line.
        (log.file, log.is_torn) = (good, true);
        log.lines.extend_from_slice(b"4\n");
        log.flush();
        assert_eq!((log.lost, log.is_torn), (0, false));
        assert_eq!(fs::read(&path).expect("written"), b"1\n\n4\n");
    }
}
