//! Breaks locks that a crash has left behind.
//!
//! | a lock made by | is broken when |
//! |---|---|
//! | an agent on this host | that process has ended |
//! | a program that writes its pid | that process has ended, and the lock is 5 minutes old |
//! | an unknown program, or one on another host | it is 15 minutes old |
//!
//! In all cases the kernel's lock on the mailbox must be obtained first. Nearly all programs hold
//! it while they use a mailbox.

use crate::lock_text::{LockMaker, LockText, MAX_LOCK_TEXT_LEN, SystemId};
use crate::undo_partial;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use zsched_format::time::Timestamp;
use zsched_spool::processes::Process;
use zsched_sys as sys;

/// Minimum age of the lock of an ended program. Its pid may be one of another host.
const MIN_PROGRAM_LOCK_AGE: Duration = Duration::from_secs(5 * 60);
/// Minimum age of a lock with an unknown maker.
const MIN_UNKNOWN_LOCK_AGE: Duration = Duration::from_secs(15 * 60);

/// Removes the lock file `path` of `mailbox` if its maker has ended.
///
/// Also removes the maker's partial letter.
///
/// Returns `true` if that lock no longer exists. Two agents may find the same stale lock. Only one
/// of them gets the kernel's lock, and the other then finds another file, or none, under the name.
pub fn break_lock(path: &Path, mailbox: &Path, system: &SystemId) -> io::Result<bool> {
    let mut lock = match sys::open_nofollow(File::options().read(true), path) {
        Ok(file) => file,
        Err(error) => return Ok(error.kind() == ErrorKind::NotFound),
    };
    let metadata = lock.metadata()?;
    if !metadata.is_file() {
        return Ok(false);
    }
    let mut text = Vec::new();
    lock.by_ref().take(MAX_LOCK_TEXT_LEN).read_to_end(&mut text)?;
    let text = system.read(&text);
    if !is_stale(text.maker, &metadata) || lock.try_lock().is_err() {
        return Ok(false);
    }
    // Keeps the kernel's lock until the file is removed.
    let Some(mailbox) = Mailbox::lock_unused(mailbox)? else {
        return Ok(false);
    };
    if sys::is_name_of(path, &lock).unwrap_or(false) {
        mailbox.undo_append(&text, &metadata)?;
        fs::remove_file(path)?;
    }
    Ok(true)
}

fn is_stale(maker: LockMaker, lock: &Metadata) -> bool {
    let modified = Timestamp::modified(lock);
    let is_gone = |pid| !Process::alive(pid).is_some_and(|it| it.may_have_written(modified));
    match maker {
        LockMaker::Agent(pid) => is_gone(pid),
        LockMaker::Program(pid) => is_older(lock, MIN_PROGRAM_LOCK_AGE) && is_gone(pid),
        LockMaker::Unknown => is_older(lock, MIN_UNKNOWN_LOCK_AGE),
    }
}

fn is_older(lock: &Metadata, than: Duration) -> bool {
    let age = lock
        .modified()
        .and_then(|modified| SystemTime::now().duration_since(modified).map_err(io::Error::other));
    age.is_ok_and(|age| age > than)
}

/// A mailbox that no other process has locked, or none at all.
struct Mailbox(Option<File>);

impl Mailbox {
    /// Locks the mailbox.
    ///
    /// Returns `None` if another process uses it, or if it is not a lockable file.
    fn lock_unused(path: &Path) -> io::Result<Option<Mailbox>> {
        let file = match sys::open_nofollow(File::options().read(true).write(true), path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(Mailbox(None))),
            Err(_) => return Ok(None),
        };
        let is_ours = file.metadata()?.is_file() && sys::try_posix_lock(&file)?;
        Ok(is_ours.then_some(Mailbox(Some(file))))
    }

    /// Undoes what the maker of a lock had begun.
    ///
    /// Only the user whose rights the agent has now can have made such a lock.
    fn undo_append(&self, text: &LockText, lock: &Metadata) -> io::Result<()> {
        let (Some(file), Some(append)) = (&self.0, &text.append) else {
            return Ok(());
        };
        let made_by_us = lock.uid() == sys::users::effective_user();
        match made_by_us && file.metadata()?.nlink() == 1 {
            true => undo_partial::truncate_partial(file, append),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const OLD: Duration = Duration::from_secs(400);
    const NEW: Duration = Duration::from_secs(60);
    const VERY_OLD: Duration = Duration::from_secs(1000);

    /// A folder with a lock of the given text and age for the mailbox `bob`.
    fn locked(text: &str, age: Duration) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bob.lock");
        fs::write(&path, text).expect("write");
        let lock = File::options().write(true).open(&path).expect("open");
        lock.set_modified(SystemTime::now() - age).expect("set the time");
        folder
    }

    fn break_in(folder: &Path) -> bool {
        let (lock, mailbox) = (folder.join("bob.lock"), folder.join("bob"));
        let broken = break_lock(&lock, &mailbox, &SystemId::find()).expect("it can be looked at");
        assert_eq!(lock.exists(), !broken);
        broken
    }

    fn dead() -> u32 {
        let mut child = Command::new("true").spawn().expect("true starts");
        child.wait().expect("true ends");
        child.id()
    }

    #[test]
    fn lock_is_broken_by_age_and_maker() {
        let (dead, us) = (dead().to_string(), std::process::id().to_string());
        let agent = |pid: &str| {
            let ours = SystemId::find().new_lock();
            ours.replacen(&us, pid, 1)
        };
        for (text, age, broken) in [
            (dead.clone(), OLD, true),
            (dead.clone(), NEW, false),
            (us.clone(), Duration::ZERO, false),
            // This process is younger than the lock, so the pid was that of an earlier one.
            (us.clone(), Duration::from_secs(1 << 29), true),
            (agent(&dead), Duration::ZERO, true),
            (agent(&us), Duration::ZERO, false),
            (agent(&us), Duration::from_secs(1 << 29), true),
            (format!("{dead}\nzsched elsewhere 2a8f\n"), OLD, false),
            (format!("{dead}\nzsched elsewhere 2a8f\n"), VERY_OLD, true),
            (String::new(), OLD, false),
            (String::new(), VERY_OLD, true),
            ("0".to_string(), OLD, false),
            ("0".to_string(), VERY_OLD, true),
            ("nonsense".to_string(), VERY_OLD, true),
        ] {
            assert_eq!(break_in(locked(&text, age).path()), broken, "{text:?} of age {age:?}");
        }
    }

    #[test]
    fn lock_of_zombie_is_broken() {
        let mut child = Command::new("true").spawn().expect("true starts");
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        let folder = locked(&child.id().to_string(), OLD);
        // The process may still run, but it started after this lock was made.
        assert!(break_in(folder.path()));
        let us = std::process::id().to_string();
        let text = SystemId::find().new_lock().replacen(&us, &child.id().to_string(), 1);
        let folder = locked(&text, Duration::ZERO);
        while !break_in(folder.path()) {
            assert!(std::time::Instant::now() < deadline, "a zombie holds its lock");
        }
        child.wait().expect("true ends");
    }
}
