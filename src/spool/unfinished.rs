//! Finds control files that are still hidden because a crash has interrupted a submission.
//!
//! A program that submits mail locks the hidden control file, syncs it, renames the message into
//! `queue/`, and then gives the control file its name ([`submit`](super::submit),
//! [`accept`](super::accept)). So a hidden control file without a lock whose message is in `queue/`
//! is complete: only its name is missing.

use super::{HashFolder, Spool, SpoolName, folder};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use zsched_sys as sys;

/// Age at which a hidden control file without a message is removed.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Gives hidden control files of messages in `queue/` their names. Returns the messages.
///
/// Removes old hidden control files without a message: their submissions were not accepted.
pub fn finish(spool: &Spool) -> io::Result<Vec<SpoolName>> {
    let mut found = Vec::new();
    let mut folders = vec![HashFolder::TOP];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(spool.transport().join(folder.to_string()))? {
            let name = entry?.file_name();
            let hidden = name.as_bytes().strip_prefix(b".");
            if let Some(name) = hidden.and_then(|base| SpoolName::new(folder, base)) {
                found.push(name);
            } else if let Some(below) = folder.below(name.as_bytes()) {
                let path = spool.transport().join(below.to_string());
                if path.symlink_metadata()?.is_dir() {
                    folders.push(below);
                }
            }
        }
    }
    let mut finished = Vec::new();
    for name in found {
        if finish_one(spool, &name)? {
            finished.push(name);
        }
    }
    let changed: BTreeSet<String> = finished.iter().map(|name| name.folder().to_string()).collect();
    for folder in changed {
        File::open(spool.transport().join(folder))?.sync_all()?;
    }
    Ok(finished)
}

/// Gives a hidden control file its name, if it is complete. Returns true if it did.
fn finish_one(spool: &Spool, name: &SpoolName) -> io::Result<bool> {
    let shown = spool.control_file(name);
    let hidden = shown.with_file_name(format!(".{}", name.base()));
    let mut options = File::options();
    let Some(file) = sys::if_exists(sys::open_regular(options.read(true), &hidden))? else {
        return Ok(false);
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Its owner may have given it its name meanwhile.
    if !sys::if_exists(sys::is_name_of(&hidden, &file))?.unwrap_or(false) {
        return Ok(false);
    }
    if folder::exists(&shown)? || !folder::exists(&spool.message_file(name))? {
        remove_if_old(&file, &hidden)?;
        return Ok(false);
    }
    match folder::rename_to_free_name(&hidden, &shown) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        other => other.map(|()| true),
    }
}

fn remove_if_old(file: &File, path: &Path) -> io::Result<()> {
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    if age < MAX_AGE {
        return Ok(());
    }
    sys::if_exists(fs::remove_file(path)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool() -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        (folder, spool)
    }

    #[test]
    fn hidden_control_file_gets_name_only_with_message_and_without_lock() {
        let (_folder, spool) = spool();
        fs::create_dir(spool.transport().join("F")).expect("a folder");
        fs::create_dir(spool.queue().join("F")).expect("a folder");
        for hidden in [".1", "F/.2", "F/.3", ".4"] {
            fs::write(spool.transport().join(hidden), "x").expect("written");
        }
        for message in ["1", "F/2", "4"] {
            fs::write(spool.queue().join(message), "x").expect("written");
        }
        let locked = File::open(spool.transport().join("F/.2")).expect("opened");
        locked.try_lock().expect("locked");
        let names = |spool: &Spool| {
            let mut names: Vec<_> =
                finish(spool).expect("finished").iter().map(SpoolName::path).collect();
            names.sort();
            names
        };
        assert_eq!(names(&spool), ["1", "4"]);
        assert!(spool.transport().join("1").exists() && !spool.transport().join(".1").exists());
        assert!(spool.transport().join("F/.3").exists(), "it may be in progress");
        locked.unlock().expect("unlocked");
        assert_eq!(names(&spool), ["F/2"]);
        let old = File::options().write(true).open(spool.transport().join("F/.3")).expect("opened");
        let time = std::time::SystemTime::now() - 2 * MAX_AGE;
        old.set_modified(time).expect("set");
        assert_eq!(names(&spool), [""; 0]);
        assert!(!spool.transport().join("F/.3").exists(), "it was removed");
    }

    #[test]
    fn hidden_control_file_replaces_nothing() {
        let (_folder, spool) = spool();
        for (file, text) in [("transport/1", "shown"), ("transport/.1", "hidden"), ("queue/1", "")]
        {
            fs::write(spool.postoffice().join(file), text).expect("written");
        }
        assert_eq!(finish(&spool).expect("finished").len(), 0);
        let shown = fs::read_to_string(spool.transport().join("1")).expect("it is there");
        assert_eq!(shown, "shown");
    }
}
