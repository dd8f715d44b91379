//! Log files that grow by whole lines.

use crate::background_log::{GapLine, LogOutput};
use crate::log_file::{LOG_MODE, open_to_append};
use crate::rotation::RotationDetector;
use memchr::memchr_iter;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;
use zsched_format::log_limiter::LogLimiter;
use zsched_sys as sys;

/// Log file that is appended to.
pub struct AppendedFile {
    /// Its path; `None` if it is whatever standard error was at the start.
    path: Option<PathBuf>,
    /// Name of the log in messages.
    what: &'static str,
    mode: u32,
    /// True if standard output and error lead to it.
    is_output: bool,
    file: File,
    /// True if the last write ended in the middle of a line.
    is_torn: bool,
    /// Number of lines that the file lacks, and that were not reported as missing.
    lost: u64,
    rotation: RotationDetector,
    failed_writes_log: LogLimiter,
    gaps_log: LogLimiter,
}

impl AppendedFile {
    /// Opens a file for appending. A new one gets `mode`.
    pub fn open(path: &Path, what: &'static str, mode: u32) -> io::Result<AppendedFile> {
        Ok(AppendedFile::of(Some(path.to_path_buf()), what, mode, open_to_append(path, mode)?))
    }

    /// Opens the log, and redirects standard output and error to it.
    ///
    /// Without a path it is standard error.
    pub fn log(path: Option<&Path>) -> io::Result<AppendedFile> {
        let file = match path {
            Some(path) => open_to_append(path, LOG_MODE)?,
            None => File::from(io::stderr().as_fd().try_clone_to_owned()?),
        };
        if path.is_some() {
            sys::redirect_output(&file)?;
        }
        let log = AppendedFile::of(path.map(Path::to_path_buf), "log", LOG_MODE, file);
        Ok(AppendedFile { is_output: true, ..log })
    }

    fn of(path: Option<PathBuf>, what: &'static str, mode: u32, file: File) -> AppendedFile {
        AppendedFile {
            path,
            what,
            mode,
            is_output: false,
            file,
            is_torn: false,
            lost: 0,
            rotation: RotationDetector::default(),
            failed_writes_log: LogLimiter::default(),
            gaps_log: LogLimiter::default(),
        }
    }

    fn shown_path(&self) -> String {
        self.path.as_ref().map_or_else(String::new, |path| path.display().to_string())
    }

    /// Returns the number of bytes written, and the error if that is not all.
    fn write(&mut self, lines: &[u8]) -> (usize, Option<io::Error>) {
        if self.is_torn {
            if let (_, Some(error)) = write_some(&self.file, b"\n") {
                return (0, Some(error));
            }
            self.is_torn = false;
        }
        let (written, error) = write_some(&self.file, lines);
        self.is_torn = written > 0 && lines[written - 1] != b'\n';
        (written, error)
    }
}

impl LogOutput for AppendedFile {
    /// Name of the log in messages.
    fn what(&self) -> &'static str {
        self.what
    }

    /// Reopens the file under its name, or only if it was renamed. Logs an error.
    fn reopen(&mut self, only_renamed: bool) {
        let Some(path) = &self.path else { return };
        if only_renamed && !self.rotation.is_renamed(path, &self.file) {
            return;
        }
        let opened = open_to_append(path, self.mode).and_then(|file| match self.is_output {
            true => sys::redirect_output(&file).map(|()| file),
            false => Ok(file),
        });
        let (path, what) = (path.display(), self.what);
        match opened {
            Ok(file) => {
                (self.file, self.is_torn) = (file, false);
                if only_renamed {
                    log::info!("{path}: the {what} was renamed and reopened");
                }
            }
            Err(error) => log::error!("{path}: the {what} cannot be reopened: {error}"),
        }
    }

    /// Appends whole lines. Those that cannot be written are lost, counted and logged.
    ///
    /// After lost lines, `gap` composes the line that comes in their place. Only that line tells of
    /// lost lines of the log itself.
    fn append(&mut self, lines: &[u8], gap: &GapLine) {
        let lost = std::mem::take(&mut self.lost);
        let gap = if lost > 0 { gap(lost) } else { Vec::new() };
        let text =
            if gap.is_empty() { Cow::Borrowed(lines) } else { [&gap, lines].concat().into() };
        let (written, error) = self.write(&text);
        let (what, now) = (self.what, Instant::now());
        if let Some(error) = error {
            let is_gap_written = !gap.is_empty() && written >= gap.len();
            // This counts a torn line, too: its end is in the rest.
            let rest = memchr_iter(b'\n', &text[written.max(gap.len())..]).count() as u64;
            self.lost = if is_gap_written { rest } else { lost + rest };
            if !self.is_output
                && let Some(more) = self.failed_writes_log.permit(now)
            {
                let (path, lost) = (self.shown_path(), self.lost);
                log::error!("{path}: {error}; {lost} lines of the {what} are lost so far{more}");
            }
        } else if lost > 0
            && !self.is_output
            && let Some(more) = self.gaps_log.permit(now)
        {
            let path = self.shown_path();
            log::error!("{path}: the {what} continues, {lost} lines are missing{more}");
        }
    }

    fn lost(&mut self) -> &mut u64 {
        &mut self.lost
    }
}

/// Writes as much as possible, usually with one system call.
fn write_some(mut file: &File, text: &[u8]) -> (usize, Option<io::Error>) {
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
