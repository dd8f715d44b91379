//! One program of a kind on a spool, and its pid file.

use super::about;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The lock of a program on its spool. It ends with the process in every case.
pub struct ProgramLock {
    pid_file: PathBuf,
    _lock: File,
}

impl ProgramLock {
    /// Locks a file, and writes the pid of this process. Fails if the program runs already.
    ///
    /// `what` is the program for messages: `a router`.
    pub fn take(what: &str, path: PathBuf, pid_file: PathBuf) -> io::Result<ProgramLock> {
        let named = about(&path);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(&named)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(named(error)),
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&pid_file).unwrap_or_default();
                let text = format!("{what} is running on this spool already: pid {}", pid.trim());
                return Err(io::Error::other(text));
            }
        }
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o644).open(&pid_file)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(ProgramLock { pid_file, _lock: lock })
    }
}

impl Drop for ProgramLock {
    fn drop(&mut self) {
        // The lock tells that no such program runs; the pid file is for people.
        if fs::remove_file(&self.pid_file).is_err() {
            // A program that is confined may still write to it.
            drop(File::create(&self.pid_file));
        }
    }
}
