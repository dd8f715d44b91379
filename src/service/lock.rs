//! One service of a kind on a spool, and its pid file.

use crate::with_path;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use zsched_sys as sys;

/// Lock of a service on its spool. It ends with the process in every case.
pub struct ProgramLock {
    // Removed while the lock is held.
    _pid_file: PidFile,
    _lock: HeldLock,
}

/// Locked file. Dropping it unlocks the file, even if a child process that has not yet become
/// its program shares the lock.
pub struct HeldLock(pub File);

impl Drop for HeldLock {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            log::warn!("a lock file cannot be unlocked: {error}");
        }
    }
}

impl ProgramLock {
    /// Locks a file, and writes the pid of this process. Fails if such a service is running.
    ///
    /// `service` is its name in messages: `a router`.
    pub fn take(service: &str, lock_file: &Path, pid_file: PathBuf) -> io::Result<ProgramLock> {
        let lock = open_lock_file(lock_file).map_err(with_path(lock_file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(with_path(lock_file)(error)),
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&pid_file).unwrap_or_default();
                let pid = pid.trim();
                let text = format!("{service} is running on this spool already: pid {pid}");
                return Err(io::Error::other(text));
            }
        }
        Ok(ProgramLock { _pid_file: PidFile::write(pid_file)?, _lock: HeldLock(lock) })
    }
}

/// Opens or creates a lock file. Other users may not open it: they could lock it.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = sys::open_regular(&mut options, path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// File with the pid of this process, for people. Dropping it removes the file.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file. Readers find the former pid or this one, in full.
    ///
    /// On a full disk it overwrites the file that a killed process left, which has room.
    pub fn write(path: PathBuf) -> io::Result<PidFile> {
        let new = sys::with_suffix(&path, ".new");
        let replaced = create_new(&new).and_then(|()| fs::rename(&new, &path));
        let written = replaced.or_else(|error| {
            fs::remove_file(&new).ok();
            let mut left = OpenOptions::new().write(true).open(&path).map_err(|_| error)?;
            let text = pid_line();
            left.write_all(text.as_bytes())?;
            left.set_len(text.len() as u64)
        });
        written.map_err(with_path(&path))?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A process that is confined may still write to the file.
        let empty = |_| OpenOptions::new().write(true).truncate(true).open(&self.0).map(drop);
        if let Err(error) = sys::if_exists(fs::remove_file(&self.0)).map(drop).or_else(empty) {
            log::warn!("{}: {error}", self.0.display());
        }
    }
}

fn create_new(path: &Path) -> io::Result<()> {
    sys::if_exists(fs::remove_file(path))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(pid_line().as_bytes())
}

fn pid_line() -> String {
    format!("{}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_is_alone_on_its_spool_until_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid_file = folder.path().join(".pid.router");
        let take = || ProgramLock::take("a router", &folder.path().join("lock"), pid_file.clone());
        let taken = take().expect("free");
        let pid = std::process::id();
        assert_eq!(fs::read_to_string(&pid_file).expect("written"), format!("{pid}\n"));
        let refused = take().map(drop).expect_err("it is running");
        let expected = format!("a router is running on this spool already: pid {pid}");
        assert_eq!(refused.to_string(), expected);
        // A child process shares the lock like this until it becomes its program.
        let _shared = taken._lock.0.try_clone().expect("shared");
        drop(taken);
        assert!(!pid_file.exists());
        drop(take().expect("free again"));
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 1, "the lock file");
    }

    #[test]
    fn pid_file_that_is_gone_is_not_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(".pid.router");
        fs::write(&path, "of a process that was killed").expect("written");
        let pid_file = PidFile::write(path.clone()).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("written"), pid_line());
        fs::remove_file(&path).expect("removed");
        drop(pid_file);
        assert!(!path.exists());
    }
}
