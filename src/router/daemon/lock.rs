//! One router on a spool, and its pid file.

use super::about;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use zsched_spool::Spool;

/// The lock of this router on its spool. It ends with the process in every case.
pub(super) struct RouterLock {
    pid_file: PathBuf,
    _lock: File,
}

impl RouterLock {
    /// Locks the spool, and writes the pid of this process. Fails if another router runs.
    pub(super) fn take(spool: &Spool) -> io::Result<RouterLock> {
        let (path, pid_file) = (spool.router_lock_file(), spool.router_pid_file());
        let named = about(&path);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(&path).map_err(&named)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(named(error)),
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&pid_file).unwrap_or_default();
                let text = format!("a router is running on this spool already: pid {}", pid.trim());
                return Err(io::Error::other(text));
            }
        }
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o644).open(&pid_file)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(RouterLock { pid_file, _lock: lock })
    }
}

impl Drop for RouterLock {
    fn drop(&mut self) {
        // The lock tells that no router runs; the pid file is for people.
        drop(fs::remove_file(&self.pid_file));
    }
}
