//! Files that appear in the spool whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use zsched_sys as sys;

/// Mode of a new file: it is for its owner alone, and for root.
const MODE: u32 = 0o600;

/// A file under a name of its own, that gets its final one when it is complete. If this value is dropped
/// before [`keep`](Scratch::keep), the file goes, whatever its name is by then.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl Scratch {
    /// Makes a file that is not there yet.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Scratch> {
        let path = path.into();
        let file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path)?;
        Ok(Scratch { path, file, is_kept: false })
    }

    /// The same in the place of what a crash may have left there.
    pub fn create_again(path: impl Into<PathBuf>) -> io::Result<Scratch> {
        let path = path.into();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Scratch::create(path),
        }
    }

    /// The file, open for writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its inode number: no other file of this file system has it for as long as this value lives.
    pub fn number(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Gives the file to whom `folder` belongs. Only root can; files of others are theirs.
    pub fn give_to_owner_of(&self, folder: &Path) -> io::Result<()> {
        let folder = fs::metadata(folder)?;
        if !sys::users::is_root() || folder.uid() == sys::users::effective_user() {
            return Ok(());
        }
        fchown(&self.file, Some(folder.uid()), Some(folder.gid()))
    }

    /// Gives the file another name, which must be free.
    pub fn rename(&mut self, to: impl Into<PathBuf>) -> io::Result<()> {
        let to = to.into();
        match sys::rename_new(&self.path, &to) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                fs::hard_link(&self.path, &to)?;
                fs::remove_file(mem::replace(&mut self.path, to))
            }
            Err(error) => Err(error),
            Ok(()) => {
                self.path = to;
                Ok(())
            }
        }
    }

    /// Takes away the name. The number stays taken.
    pub fn remove(&mut self) -> io::Result<()> {
        self.is_kept = true;
        fs::remove_file(&self.path)
    }

    /// The file is complete, and stays.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.is_kept {
            // Whoever drops it has an error to tell already.
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_only_if_it_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        drop(Scratch::create(at("1")).expect("made"));
        assert!(!at("1").exists());
        let mut renamed = Scratch::create(at("1")).expect("made");
        renamed.rename(at("2")).expect("renamed");
        assert!(!at("1").exists() && at("2").exists());
        drop(renamed);
        assert!(!at("2").exists(), "the other name goes, too");
        Scratch::create(at("3")).expect("made").keep();
        assert_eq!(fs::metadata(at("3")).expect("it stays").mode() & 0o7777, 0o600);
        let taken = Scratch::create(at("3")).expect_err("it is there");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert!(at("3").exists());
        Scratch::create_again(at("3")).expect("in its place").keep();
        assert!(at("3").exists());
    }
}
