//! Lock of one scheduler on a spool, and the pid file.
//!
//! A running scheduler holds a lock on `.scheduler.lock`. The lock ends with the process in every
//! case. Only the owner may open the file, so that no other user can hold the lock. The file
//! describes the state of the holder:
//!
//! ```text
//! 4711 ending                       pid, and `ending` once a signal has asked for the end
//! clock 3f0c…9a 1795255200123456789 boot id, and clock time of boot in nanoseconds, as far as it
//!                                   was believed (see `clock.rs`)
//! ```
//!
//! `.pid.scheduler` has the pid for users who send signals to the scheduler. It is not locked, and
//! all users may read it.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zsched_format::time::Timestamp;
use zsched_service::{HeldLock, PidFile, open_lock_file};
use zsched_sys as sys;

/// Word after the pid in the lock file of a scheduler that is ending.
const ENDING: &str = "ending";
/// Maximum length of the lock file's text, in bytes.
const MAX_TEXT_LEN: usize = 256;

/// Lock on a spool. Dropping it removes the pid file while the lock is still held.
pub(crate) struct SpoolLock {
    _pid_file: PidFile,
    lock: HeldLock,
    is_ending: bool,
    /// Clock time of boot, as believed by this scheduler or by a former one since then.
    pub clock: Option<Timestamp>,
    /// Last sign of life of a former scheduler in the lock file.
    pub former_end: Option<Timestamp>,
}

/// Reason why the spool cannot be locked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolLockError {
    /// Another scheduler runs on the spool.
    #[error("a scheduler is running on this spool already: pid {0}")]
    Running(String),
    /// Another scheduler is ending and has not ended in time.
    #[error("the former scheduler, pid {0}, has not ended within {1:?}; start again when it has")]
    StillEnding(String, Duration),
    /// A file cannot be created or written.
    #[error("{0}: {1}")]
    Failed(PathBuf, io::Error),
    /// The pid file cannot be written; the error names it.
    #[error("{0}")]
    PidFile(io::Error),
}

/// Maximum waiting times for a former scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockTimeouts {
    /// For one that is ending, and for a foreign one, which does not show its state.
    pub ending: Duration,
    /// For one that is running: it may be about to receive the signal.
    pub running: Duration,
    /// For one that has ended while its lock is still held.
    ///
    /// If it was killed while it started an agent, the child process holds the lock until it
    /// becomes the agent.
    pub gone: Duration,
}

impl Default for LockTimeouts {
    fn default() -> LockTimeouts {
        LockTimeouts {
            ending: Duration::from_secs(60),
            running: Duration::from_secs(3),
            gone: Duration::from_secs(5),
        }
    }
}

/// Interval of attempts to lock a spool.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Scheduler that holds the spool.
struct LockHolder {
    pid: String,
    /// True if it is ending, or may be.
    is_ending: bool,
    timeouts: Duration,
}

impl SpoolLock {
    /// Locks the spool, and writes the pid of this process.
    ///
    /// Waits for a former scheduler that is ending; `tell` gets one line about that at once.
    pub(crate) fn take(
        lock_file: &Path,
        pid_file: &Path,
        timeouts: LockTimeouts,
        mut tell: impl FnMut(&str),
    ) -> Result<SpoolLock, SpoolLockError> {
        let of = |path: &Path, error| SpoolLockError::Failed(path.to_path_buf(), error);
        let lock = open_lock_file(lock_file).map_err(|error| of(lock_file, error))?;
        let began = Instant::now();
        let mut is_told = false;
        while let Some(former) =
            former(&lock, pid_file, timeouts).map_err(|error| of(lock_file, error))?
        {
            if began.elapsed() >= former.timeouts {
                return Err(match former.is_ending {
                    true => SpoolLockError::StillEnding(former.pid, former.timeouts),
                    false => SpoolLockError::Running(former.pid),
                });
            }
            if former.is_ending && !is_told {
                tell(&format!(
                    "waiting up to {} s for the former scheduler, pid {}, to end",
                    former.timeouts.as_secs(),
                    former.pid
                ));
                is_told = true;
            }
            std::thread::sleep(LOCK_RETRY_INTERVAL);
        }
        let text = read(&lock).unwrap_or_default();
        let clock = boot_id().and_then(|id| clock_of(&text, &id));
        let written = lock.metadata().ok().filter(|_| !text.is_empty());
        let former_end = written.map(|file| Timestamp::modified(&file));
        write(&lock, false, clock).map_err(|error| of(lock_file, error))?;
        let pid_file = PidFile::write(pid_file.to_path_buf()).map_err(SpoolLockError::PidFile)?;
        Ok(SpoolLock {
            _pid_file: pid_file,
            lock: HeldLock(lock),
            is_ending: false,
            clock,
            former_end,
        })
    }

    /// Stores the believed clock time of boot for the next scheduler.
    pub(crate) fn store_clock(&mut self, started: Timestamp) {
        self.clock = Some(started);
        if let Err(error) = self.write() {
            log::warn!("the lock file of the spool: the boot time cannot be stored: {error}");
        }
    }

    fn write(&self) -> io::Result<()> {
        write(&self.lock.0, self.is_ending, self.clock)
    }

    /// Announces the end, so that a scheduler started from now on waits.
    pub(crate) fn announce_end(&mut self) {
        self.is_ending = true;
        if let Err(error) = self.write() {
            log::warn!("the lock file of the spool: the end cannot be announced: {error}");
        }
    }
}

/// Id of the present boot.
fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_string()).filter(|id| !id.is_empty())
}

/// Clock time in a lock file, if it is from the present boot.
fn clock_of(text: &str, boot_id: &str) -> Option<Timestamp> {
    let line = text.lines().find_map(|line| line.strip_prefix("clock "))?;
    let (id, started) = line.split_once(' ')?;
    started.parse().ok().filter(|_| id == boot_id).map(Timestamp::from_nanoseconds)
}

/// Takes the lock. Returns the scheduler that holds the spool, if there is one.
fn former(lock: &File, pid_file: &Path, timeouts: LockTimeouts) -> io::Result<Option<LockHolder>> {
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(error),
        Err(TryLockError::WouldBlock) => {
            let text = read(lock)?;
            let line = text.lines().next().unwrap_or_default().trim();
            let (pid, word) = line.split_once(' ').unwrap_or((line, ""));
            let (is_ending, timeouts) = match word {
                ENDING => (true, timeouts.ending),
                _ if is_gone(pid) => (false, timeouts.gone),
                _ => (false, timeouts.running),
            };
            return Ok(Some(LockHolder { pid: pid.to_string(), is_ending, timeouts }));
        }
    }
    let pid = match fs::read_to_string(pid_file) {
        Ok(text) => text.trim().to_string(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The text is not a pid then.
        Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_foreign = is_foreign_scheduler(&pid, pid_file);
    let holder = LockHolder { pid, is_ending: true, timeouts: timeouts.ending };
    Ok(is_foreign.then_some(holder))
}

fn read(lock: &File) -> io::Result<String> {
    let mut text = [0; MAX_TEXT_LEN];
    let count = lock.read_at(&mut text, 0)?;
    Ok(String::from_utf8_lossy(&text[..count]).into_owned())
}

fn write(lock: &File, is_ending: bool, clock: Option<Timestamp>) -> io::Result<()> {
    let pid = std::process::id();
    let mut text = if is_ending { format!("{pid} {ENDING}\n") } else { format!("{pid}\n") };
    if let (Some(started), Some(id)) = (clock, boot_id()) {
        text.push_str(&format!("clock {id} {}\n", started.nanoseconds()));
    }
    // A text shorter than the previous one is written only at the start, when there are no readers.
    lock.write_all_at(text.as_bytes(), 0)?;
    lock.set_len(text.len() as u64)
}

/// Returns true if no process has the pid.
fn is_gone(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid| !sys::process_exists(pid))
}

/// Returns true if a pid belongs to a scheduler without our lock.
///
/// It is recognized by its program name, and by its working folder, which is `transport/`.
fn is_foreign_scheduler(pid: &str, pid_file: &Path) -> bool {
    let Ok(pid) = pid.parse::<u32>() else {
        return false;
    };
    let program = fs::read_to_string(format!("/proc/{pid}/comm"));
    let is_scheduler = match program {
        Ok(name) => name.trim() == "scheduler",
        // A process whose name cannot be read may be a scheduler. ESRCH: it has ended meanwhile.
        Err(error) => {
            error.kind() != ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH)
        }
    };
    if pid == std::process::id() || !is_scheduler {
        return false;
    }
    let transport = pid_file.with_file_name("transport").canonicalize();
    match (fs::read_link(format!("/proc/{pid}/cwd")), transport) {
        (Ok(folder), Ok(transport)) => folder == transport,
        // The process is a zombie.
        (Err(error), _) => error.kind() != ErrorKind::NotFound,
        (Ok(_), Err(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use tempfile::TempDir;

    /// Short waiting times, since no scheduler ends in these tests.
    const LITTLE: LockTimeouts = LockTimeouts {
        ending: Duration::from_millis(50),
        running: Duration::from_millis(20),
        gone: Duration::from_millis(20),
    };

    fn take(folder: &TempDir) -> (Result<SpoolLock, SpoolLockError>, Vec<String>) {
        let (lock, pid) = (folder.path().join("lock"), folder.path().join(".pid.scheduler"));
        let mut told = Vec::new();
        let taken = SpoolLock::take(&lock, &pid, LITTLE, |line| told.push(line.to_string()));
        (taken, told)
    }

    #[test]
    fn spool_lock_is_exclusive_and_released_on_drop() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(".pid.scheduler");
        let taken = take(&folder).0.expect("free");
        let pid = std::process::id().to_string();
        assert_eq!(fs::read_to_string(&path).expect("written"), format!("{pid}\n"));
        assert_eq!(path.metadata().expect("it is there").mode() & 0o777, 0o644);
        match take(&folder) {
            (Err(SpoolLockError::Running(by)), told) => assert_eq!((by, told.len()), (pid, 0)),
            (other, _) => panic!("taken twice: {:?}", other.is_ok()),
        }
        drop(taken);
        assert!(!path.exists());
        take(&folder).0.expect("free again");
    }

    #[test]
    fn ending_scheduler_is_waited_for_then_reported() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut taken = take(&folder).0.expect("free");
        taken.announce_end();
        let (refused, told) = take(&folder);
        assert!(matches!(refused, Err(SpoolLockError::StillEnding(_, _))));
        let expected = format!("the former scheduler, pid {}, to end", std::process::id());
        assert!(told.len() == 1 && told[0].ends_with(&expected), "{told:?}");
        drop(taken);
        take(&folder).0.expect("free again");
    }

    #[test]
    fn clock_in_lock_file_is_valid_for_same_boot_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut taken = take(&folder).0.expect("free");
        assert_eq!(taken.clock, None);
        let started = Timestamp::from_parts(1_795_255_200, 123_456_789);
        taken.store_clock(started);
        taken.announce_end();
        drop(taken);
        assert_eq!(take(&folder).0.expect("free").clock, Some(started));
        let text = fs::read_to_string(folder.path().join("lock")).expect("written");
        assert_eq!(clock_of(&text, "another start"), None);
        for damaged in ["", "clock", "clock x", "clock x y", "1\n\nclock x 5x\n"] {
            assert_eq!(clock_of(damaged, "x"), None, "{damaged}");
        }
    }

    #[test]
    fn pid_file_locked_by_other_user_does_not_prevent_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        drop(take(&folder).0.expect("free"));
        let path = folder.path().join(".pid.scheduler");
        fs::write(&path, "1\n").expect("written");
        let read_only = File::open(&path).expect("all users can read it");
        read_only.lock().expect("and so can lock it");
        take(&folder).0.expect("free");
        let lock = folder.path().join("lock").metadata().expect("a lock file");
        assert_eq!(lock.mode() & 0o777, 0o600, "other users cannot lock this one");
    }

    #[test]
    fn files_of_dead_scheduler_do_not_prevent_start() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for left_over in ["", "1\n", "no number", "99999999\n"] {
            fs::write(folder.path().join(".pid.scheduler"), left_over).expect("written");
            let lock = folder.path().join("lock");
            fs::write(&lock, format!("{left_over} ending\n")).expect("written");
            fs::set_permissions(&lock, Permissions::from_mode(0o666)).expect("set");
            let taken = take(&folder).0.expect("free");
            let expected = format!("{}\n", std::process::id());
            assert_eq!(fs::read_to_string(&lock).expect("written"), expected);
            assert_eq!(taken.clock, None);
            assert_eq!(lock.metadata().expect("it is there").mode() & 0o777, 0o600);
            drop(taken);
        }
    }
}
