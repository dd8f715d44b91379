//! Temporary files, which appear in the spool complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_sys as sys;

/// Mode of a new file: readable by its owner only.
const MODE: u32 = 0o600;

/// A file that gets its final name when it is complete.
///
/// If this value is dropped before [`keep`](TempFile::keep), the file is removed, under any name
/// that it has by then.
#[derive(Debug)]
pub struct TempFile {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

impl TempFile {
    /// Creates a file that does not exist yet.
    pub(crate) fn create(path: impl Into<PathBuf>) -> io::Result<TempFile> {
        let path = path.into();
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&path)?;
        Ok(TempFile { path, file, is_kept: false })
    }

    /// Creates a file with a free name, which `kind` begins.
    ///
    /// A crash may have left a file with a name of the same pid.
    pub(crate) fn create_in(folder: &Path, kind: &str) -> io::Result<TempFile> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            match TempFile::create(folder.join(format!("{kind}:{}:{count}", process::id()))) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
    }

    /// Creates a file after removing one that a crash may have left.
    pub(crate) fn create_replacing(path: impl Into<PathBuf>) -> io::Result<TempFile> {
        let path = path.into();
        sys::if_exists(fs::remove_file(&path))?;
        TempFile::create(path)
    }

    /// Its present path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, open for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its inode number.
    ///
    /// No other file of the file system has it during the life of this value.
    pub(crate) fn number(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Gives the file to the owner of `folder`. Only root can; other users keep their files.
    pub(crate) fn give_to_owner_of(&self, folder: &Path) -> io::Result<()> {
        let folder = fs::metadata(folder)?;
        if !sys::users::is_root() || folder.uid() == sys::users::effective_user() {
            return Ok(());
        }
        fchown(&self.file, Some(folder.uid()), Some(folder.gid()))
    }

    /// Renames the file. The new name must be free.
    pub fn rename(&mut self, to: impl Into<PathBuf>) -> io::Result<()> {
        let to = to.into();
        match sys::rename_new(&self.path, &to) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                fs::hard_link(&self.path, &to)?;
                fs::remove_file(mem::replace(&mut self.path, to))
            }
            other => other.map(|()| self.path = to),
        }
    }

    /// Removes the name. The inode number remains taken.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        self.is_kept = true;
        fs::remove_file(&self.path)
    }

    /// Marks the file as complete, so that it stays.
    pub fn keep(mut self) {
        self.stay();
    }

    /// The same for a file that is still to be renamed.
    pub fn stay(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // The caller already has an error to report.
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_remains_only_if_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        drop(TempFile::create(at("1")).expect("made"));
        assert!(!at("1").exists());
        let mut renamed = TempFile::create(at("1")).expect("made");
        renamed.rename(at("2")).expect("renamed");
        assert!(!at("1").exists() && at("2").exists());
        drop(renamed);
        assert!(!at("2").exists(), "the other name goes, too");
        TempFile::create(at("3")).expect("made").keep();
        assert_eq!(fs::metadata(at("3")).expect("it stays").mode() & 0o7777, 0o600);
        let taken = TempFile::create(at("3")).expect_err("it is there");
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert!(at("3").exists());
        TempFile::create_replacing(at("3")).expect("in its place").keep();
        assert!(at("3").exists());
    }
}
