//! Dot locks: the file `MAILBOX.lock`, which all mail programs respect, also over NFS.
//!
//! The lock is made by giving a complete file a second name, which happens at once or not at all. A
//! lock that a crash has left behind is broken when it is old *and* the process that it names is
//! gone; one that names nobody is never broken.

use crate::trouble::Trouble;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use zsched::sys;

/// How long a lock stands, whoever made it.
const STALE_AGE: Duration = Duration::from_secs(5 * 60);
/// Pauses between attempts: at first, and at most. A delivery takes some milliseconds, a reader that
/// rewrites a large mailbox seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A lock that we hold. It ends when this value does.
#[derive(Debug)]
pub struct DotLock {
    path: PathBuf,
    /// Device and inode of our lock, so that we never remove another's.
    identity: (u64, u64),
}

impl DotLock {
    /// Locks `mailbox`, waiting for others until `deadline`.
    pub fn take(mailbox: &Path, deadline: Instant) -> Result<DotLock, Trouble> {
        let trouble = Trouble::with("cannot lock the mailbox");
        let mut path = mailbox.to_path_buf().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        match lock(&path, deadline) {
            Ok(Some(identity)) => Ok(DotLock { path, identity }),
            Ok(None) => Err(Trouble::Locked),
            Err(error) => Err(trouble(error)),
        }
    }
}

impl Drop for DotLock {
    fn drop(&mut self) {
        let is_ours = fs::symlink_metadata(&self.path).map(|found| identity(&found));
        if is_ours.is_ok_and(|found| found == self.identity) {
            // If it cannot be removed it becomes stale, and is broken when we are gone.
            fs::remove_file(&self.path).ok();
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn lock(path: &Path, deadline: Instant) -> io::Result<Option<(u64, u64)>> {
    let ours = Candidate::create(path)?;
    let mut pause = FIRST_PAUSE;
    loop {
        let linked = fs::hard_link(&ours.path, path);
        // Over NFS the answer can get lost where the link was made: the number of names tells.
        let metadata = fs::metadata(&ours.path)?;
        if linked.is_ok() || metadata.nlink() == 2 {
            return Ok(Some(identity(&metadata)));
        }
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if break_stale(path)? {
            continue;
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A lock file under a name of its own, for as long as we try.
struct Candidate {
    path: PathBuf,
}

impl Candidate {
    fn create(lock: &Path) -> io::Result<Candidate> {
        let host = sys::host_name()?.replace('/', "_");
        let name = format!(".lock.{}.{host}", std::process::id());
        let path = lock.with_file_name(name);
        // Left over by an earlier process with our number.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        let candidate = Candidate { path };
        file.write_all(format!("{}\n", std::process::id()).as_bytes())?;
        Ok(candidate)
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // A leftover is harmless: nobody else looks for this name.
        fs::remove_file(&self.path).ok();
    }
}

/// Removes a lock whose maker is gone. `true` if there is none any more.
///
/// Two agents may find the same stale lock. Only one gets the kernel's lock on it, and the other
/// finds another file, or none, under the name afterwards.
fn break_stale(path: &Path) -> io::Result<bool> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => return Ok(error.kind() == ErrorKind::NotFound),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || !is_old(&metadata) || maker_may_live(&mut file)? {
        return Ok(false);
    }
    if file.try_lock().is_err() {
        return Ok(false);
    }
    let now = fs::symlink_metadata(path);
    if now.is_ok_and(|now| identity(&now) == identity(&metadata)) {
        fs::remove_file(path)?;
    }
    Ok(true)
}

fn is_old(metadata: &Metadata) -> bool {
    let age = metadata
        .modified()
        .and_then(|modified| SystemTime::now().duration_since(modified).map_err(io::Error::other));
    age.is_ok_and(|age| age > STALE_AGE)
}

/// Whether the process that the lock names exists. A lock without a name may be anybody's.
fn maker_may_live(file: &mut File) -> io::Result<bool> {
    let mut text = String::new();
    if file.take(32).read_to_string(&mut text).is_err() {
        return Ok(true);
    }
    let pid = text.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    // Some programs write a zero, to say nothing.
    Ok(pid.filter(|pid| *pid > 0).is_none_or(sys::process_exists))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(250)
    }

    /// A folder with a lock of the given text and age on the mailbox `bob`.
    fn locked(text: &str, age: Duration) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = File::create(folder.path().join("bob.lock")).expect("create");
        (&lock).write_all(text.as_bytes()).expect("write");
        lock.set_modified(SystemTime::now() - age).expect("set the time");
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("read the folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_lock_excludes_others_until_it_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let mailbox = folder.path().join("bob");
        let lock = DotLock::take(&mailbox, soon()).expect("a lock");
        assert_eq!(names(folder.path()), ["bob.lock"]);
        assert!(matches!(DotLock::take(&mailbox, soon()), Err(Trouble::Locked)));
        drop(lock);
        assert!(names(folder.path()).is_empty());
        DotLock::take(&mailbox, soon()).expect("a lock again");
    }

    #[test]
    fn only_an_old_lock_of_a_dead_process_is_broken() {
        let mut child = std::process::Command::new("true").spawn().expect("true starts");
        child.wait().expect("true ends");
        let (dead, alive) = (child.id().to_string(), std::process::id().to_string());
        let (old, new) = (Duration::from_secs(400), Duration::from_secs(60));
        for (text, age, broken) in [
            (dead.as_str(), old, true),
            (dead.as_str(), new, false),
            (alive.as_str(), old, false),
            ("", old, false),
            ("0", old, false),
            ("nonsense", old, false),
        ] {
            let folder = locked(text, age);
            let taken = DotLock::take(&folder.path().join("bob"), soon());
            assert_eq!(taken.is_ok(), broken, "{text:?} of age {age:?}");
            drop(taken);
            assert_eq!(names(folder.path()).is_empty(), broken, "{text:?} of age {age:?}");
        }
    }

    #[test]
    fn anothers_lock_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = DotLock::take(&folder.path().join("bob"), soon()).expect("a lock");
        let path = folder.path().join("bob.lock");
        fs::rename(&path, folder.path().join("moved")).expect("move");
        fs::write(&path, "1").expect("write");
        drop(lock);
        assert!(path.exists());
    }
}
