//! The pid file: which scheduler runs on this spool.
//!
//! A running scheduler holds a lock on it, which ends with the process however it ends. So the number
//! in it is never trusted alone: it may be that of another process by now.

use crate::sys;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lock on the pid file. The file is removed when this is dropped.
pub struct PidFile {
    path: PathBuf,
    // Held for its lock.
    _file: File,
}

/// Why the spool cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// Another scheduler runs on it.
    #[error("a scheduler is running on this spool already: pid {0}")]
    Running(String),
    /// The file cannot be made.
    #[error("{0}: {1}")]
    Failed(PathBuf, io::Error),
}

/// How long the lock of a scheduler that is gone is waited for. A scheduler that was killed just when it
/// started an agent has left a child that holds the lock until it has become the agent.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(5);
/// How often it is tried meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

impl PidFile {
    /// Takes the spool: writes the pid of this process.
    pub fn take(path: &Path) -> Result<PidFile, PidFileError> {
        let failed = |error| PidFileError::Failed(path.to_path_buf(), error);
        let mut patience = PATIENCE_WITH_THE_DEAD;
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(failed)?;
            let mut former = String::new();
            file.read_to_string(&mut former).map_err(failed)?;
            let former = former.trim();
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if is_gone(former) && !patience.is_zero() => {
                    std::thread::sleep(LOOK_AGAIN);
                    patience = patience.saturating_sub(LOOK_AGAIN);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(PidFileError::Running(former.into())),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if is_foreign_scheduler(former, path) {
                return Err(PidFileError::Running(former.into()));
            }
            // The one that held the lock until now may have removed the file.
            if !is_same_file(path, &file) {
                continue;
            }
            file.set_len(0).map_err(failed)?;
            file.rewind().map_err(failed)?;
            file.write_all(format!("{}\n", std::process::id()).as_bytes()).map_err(failed)?;
            return Ok(PidFile { path: path.to_path_buf(), _file: file });
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            log::warn!("{}: {error}", self.path.display());
        }
    }
}

/// Whether a pid is that of nobody.
fn is_gone(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid| !sys::process_exists(pid))
}

fn is_same_file(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (path.metadata(), file.metadata()) {
        (Ok(there), Ok(here)) => identity(there) == identity(here),
        _ => false,
    }
}

/// Whether a pid belongs to a scheduler of another make, which does not lock the file: going by the
/// name of its program, and by its working folder, which is that of the control files.
fn is_foreign_scheduler(pid: &str, pid_file: &Path) -> bool {
    let Ok(pid) = pid.parse::<u32>() else {
        return false;
    };
    let program = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    if pid == std::process::id() || !program.is_ok_and(|name| name.trim() == "scheduler") {
        return false;
    }
    let transport = pid_file.with_file_name("transport").canonicalize();
    match (std::fs::read_link(format!("/proc/{pid}/cwd")), transport) {
        (Ok(folder), Ok(transport)) => folder == transport,
        // It has ended, but its parent has not taken notice.
        (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
        (Ok(_), Err(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_spool_is_taken_once_and_given_back() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(".pid.scheduler");
        let taken = PidFile::take(&path).expect("free");
        let pid = std::process::id().to_string();
        assert_eq!(fs::read_to_string(&path).expect("written"), format!("{pid}\n"));
        match PidFile::take(&path) {
            Err(PidFileError::Running(by)) => assert_eq!(by, pid),
            other => panic!("taken twice: {:?}", other.is_ok()),
        }
        drop(taken);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_left_of_a_dead_scheduler_is_no_obstacle() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(".pid.scheduler");
        for left_over in ["", "1\n", "no number", "99999999\n"] {
            fs::write(&path, left_over).expect("written");
            drop(PidFile::take(&path).expect("free"));
        }
    }
}
