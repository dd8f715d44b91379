//! The log and the statistics log.

use crate::printable;
use crate::scheduler::Statistics;
use crate::sys;
use crate::time::Timestamp;
use log::LevelFilter;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Begins to log to standard error, line by line: time stamp, level where it is not the usual one,
/// printable text. `verbosity` is how often `-v` was given.
pub fn start(verbosity: u8) {
    env_logger::Builder::new()
        // How much it is can change at any time, so it is not for the logger to say.
        .filter_module(env!("CARGO_PKG_NAME"), LevelFilter::Trace)
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
}

/// The level of detail that so many `-v` ask for.
pub fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    }
}

/// Where standard output and error go, if that is a file: it is opened anew on request, so that log
/// rotation works.
pub struct LogFile {
    path: PathBuf,
}

impl LogFile {
    /// Sends standard output and error to a file from now on.
    pub fn open(path: &Path) -> io::Result<LogFile> {
        sys::redirect_output(path)?;
        Ok(LogFile { path: path.to_path_buf() })
    }

    /// Opens the file anew under its name.
    pub fn reopen(&self) -> io::Result<()> {
        sys::redirect_output(&self.path)
    }
}

/// The statistics log: one line for each recipient that is finished.
///
/// ```text
/// <spoolid> <routed - received> <finished - routed> <state> <channel>/<host>     times in seconds
/// ```
pub struct StatisticsLog {
    path: PathBuf,
    file: File,
    lines: Vec<u8>,
}

impl StatisticsLog {
    /// Opens it for appending.
    pub fn open(path: &Path) -> io::Result<StatisticsLog> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(StatisticsLog { path: path.to_path_buf(), file, lines: Vec::new() })
    }

    /// Opens the file anew under its name.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.file = StatisticsLog::open(&self.path)?.file;
        Ok(())
    }

    /// Adds a line. It is in the file after the next [`flush`](StatisticsLog::flush).
    pub fn add(&mut self, now: Timestamp, record: &Statistics) {
        let Statistics { spool_id, created, state, destination } = record;
        let before = created.seconds_since(spool_id.modified);
        let here = now.seconds_since(*created);
        let channel = printable::line(destination.channel());
        let host = printable::line(destination.host());
        let line = format!("{spool_id} {before} {here} {state} {channel}/{host}\n");
        self.lines.extend_from_slice(line.as_bytes());
    }

    /// Writes all lines that were added.
    pub fn flush(&mut self) -> io::Result<()> {
        let result = if self.lines.is_empty() { Ok(()) } else { self.file.write_all(&self.lines) };
        self.lines.clear();
        result
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
