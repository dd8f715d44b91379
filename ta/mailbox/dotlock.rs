//! Dot locks: `MAILBOX.lock`, which all mail programs respect, even over NFS.
//!
//! The lock is made by giving a complete file a second name, which is atomic. A lock that a crash
//! has left behind is broken, see [`stale`](crate::stale).

use crate::lock_text::{Append, SystemId};
use crate::mailbox_error::MailboxError;
use crate::stale::break_lock;
use crate::wait::Wait;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_sys as sys;

/// First and maximum pause between attempts.
///
/// A delivery takes some milliseconds, a reader that rewrites a large mailbox seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// A lock held by this agent until the value is dropped.
#[derive(Debug)]
pub struct DotLock {
    path: PathBuf,
    file: File,
    /// Length of the lock's text without a record, in bytes.
    length: u64,
}

impl DotLock {
    /// Locks `mailbox`, waiting for other programs as long as `wait` lasts.
    pub fn take(mailbox: &Path, wait: Wait<'_>) -> Result<DotLock, MailboxError> {
        let path = sys::with_suffix(mailbox, ".lock");
        match lock(&path, mailbox, wait) {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(MailboxError::Locked(path)),
            Err(error) => Err(MailboxError::System("cannot lock the mailbox", error)),
        }
    }

    /// Records what must be undone if the agent dies from now on.
    ///
    /// Not synced: other agents need it after this one dies, but not after a power failure.
    pub fn record(&self, append: &Append) -> io::Result<()> {
        self.file.write_all_at(&append.line(), self.length)
    }

    /// Removes the record: nothing must be undone.
    pub fn clear_record(&self) -> io::Result<()> {
        self.file.set_len(self.length)
    }
}

impl Drop for DotLock {
    fn drop(&mut self) {
        // Another's lock is never removed.
        if sys::is_name_of(&self.path, &self.file).unwrap_or(false) {
            // If it cannot be removed it becomes stale, and is broken after this agent has ended.
            fs::remove_file(&self.path).ok();
        }
    }
}

fn lock(path: &Path, mailbox: &Path, wait: Wait<'_>) -> io::Result<Option<DotLock>> {
    let system = SystemId::find();
    let ours = Candidate::create(path, &system)?;
    let mut pause = FIRST_PAUSE;
    loop {
        let linked = fs::hard_link(&ours.path, path);
        // Over NFS the reply may be lost although the link was made, which the number of names
        // shows.
        let metadata = fs::metadata(&ours.path)?;
        if linked.is_ok() || metadata.nlink() == 2 {
            let (file, length) = (ours.file.try_clone()?, metadata.len());
            return Ok(Some(DotLock { path: path.to_path_buf(), file, length }));
        }
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if break_lock(path, mailbox, &system)? {
            continue;
        }
        if !wait.sleep_unless_over(pause) {
            return Ok(None);
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// A lock file under a unique name, during the attempts.
struct Candidate {
    path: PathBuf,
    file: File,
}

impl Candidate {
    /// The name cannot be guessed. In a world-writable folder any user could create it first
    /// otherwise.
    fn create(lock: &Path, system: &SystemId) -> io::Result<Candidate> {
        let host = sys::host_name().replace('/', "_");
        let unique = fastrand::u64(..);
        let name = format!(".lock.{}.{unique:016x}.{host}", std::process::id());
        let path = lock.with_file_name(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        let mut candidate = Candidate { path, file };
        candidate.file.write_all(system.new_lock().as_bytes())?;
        Ok(candidate)
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // A leftover file does no harm, since its name is never used again.
        fs::remove_file(&self.path).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Wait<'static> {
        Wait::until(std::time::Instant::now() + Duration::from_millis(250))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("read the folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn dot_lock_excludes_others_until_dropped() {
        let folder = tempfile::tempdir().expect("a folder");
        let mailbox = folder.path().join("bob");
        let lock = DotLock::take(&mailbox, soon()).expect("a lock");
        assert_eq!(names(folder.path()), ["bob.lock"]);
        let Err(MailboxError::Locked(path)) = DotLock::take(&mailbox, soon()) else {
            panic!("two locks");
        };
        assert_eq!(path, folder.path().join("bob.lock"));
        drop(lock);
        assert!(names(folder.path()).is_empty());
        DotLock::take(&mailbox, soon()).expect("a lock again");
    }

    #[test]
    fn record_remains_until_cleared() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = DotLock::take(&folder.path().join("bob"), soon()).expect("a lock");
        let append = || Append { old_length: 7, opening_line: b"From a@x Sat\n".to_vec() };
        let read = || {
            let text = fs::read(folder.path().join("bob.lock")).expect("read");
            SystemId::find().read(&text).append
        };
        lock.record(&append()).expect("it can be written");
        assert_eq!(read(), Some(append()));
        lock.clear_record().expect("it can be cleared");
        assert_eq!(read(), None);
    }

    #[test]
    fn lock_of_other_program_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = DotLock::take(&folder.path().join("bob"), soon()).expect("a lock");
        let path = folder.path().join("bob.lock");
        fs::rename(&path, folder.path().join("moved")).expect("move");
        fs::write(&path, "1").expect("write");
        drop(lock);
        assert!(path.exists());
    }
}
