//! Open folders, for calls about many of their files.
//!
//! The kernel finds a name in an open folder without a look at the folders above.

use crate::files::rename_new_at;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

/// What `stat(2)` says about a file, as far as it is needed.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// True for a regular file.
    pub is_file: bool,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the contents: seconds since the epoch, nanoseconds.
    pub modified: (i64, i64),
    /// User id of the owner.
    pub owner: u32,
}

impl Folder {
    /// Opens a folder.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder::open_with(path, OFlags::empty())
    }

    /// Opens a folder unless it is a symbolic link.
    pub fn open_real(path: &Path) -> io::Result<Folder> {
        Folder::open_with(path, OFlags::NOFOLLOW)
    }

    fn open_with(path: &Path, more: OFlags) -> io::Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
        Ok(Folder(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens a folder below the folder, or the folder itself (`.`), to sync it.
    pub fn open_folder(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Creates a folder, unless the name exists. Returns true if it was created.
    pub fn create_folder(&self, name: &str, mode: u32) -> io::Result<bool> {
        match mkdirat(&self.0, name, Mode::from_raw_mode(mode)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file below the folder for writing. The name must be new.
    pub fn create_file(&self, name: &str, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Renames a file below the folder unless the new name exists.
    ///
    /// If it exists, the error is [`ErrorKind::AlreadyExists`]. Where the file system cannot do
    /// this in one step, as NFS, the new name is looked for before.
    pub fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        match rename_new_at(self.0.as_fd(), Path::new(from), Path::new(to)) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                match statat(&self.0, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(ErrorKind::AlreadyExists.into()),
                    Err(Errno::NOENT) => Ok(renameat(&self.0, from, &self.0, to)?),
                    Err(error) => Err(error.into()),
                }
            }
            other => other,
        }
    }

    /// Opens a file below the folder for reading.
    ///
    /// Follows no link, and waits for no pipe. If this process may decide that, reads do not change
    /// the access time of the file: the disk would have to write all inodes of a large queue.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |more| openat(&self.0, name, flags | more, Mode::empty());
        let opened = match open(OFlags::NOATIME) {
            // The file belongs to another user, and this one is not root.
            Err(Errno::PERM) => open(OFlags::empty()),
            opened => opened,
        };
        Ok(opened?.into())
    }

    /// Examines a file below the folder, or the one that a link leads to.
    pub fn examine(&self, name: &str) -> io::Result<FileFacts> {
        let found = statat(&self.0, name, AtFlags::empty())?;
        Ok(FileFacts {
            is_file: FileType::from_raw_mode(found.st_mode) == FileType::RegularFile,
            size: found.st_size.unsigned_abs(),
            modified: (found.st_mtime, found.st_mtime_nsec as i64),
            owner: found.st_uid,
        })
    }

    /// Removes a file below the folder.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;
    use std::io::Read;
    use std::time::{Duration, SystemTime};

    #[test]
    fn open_file_of_ours_keeps_its_access_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "text").expect("written");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(86400);
        let times = FileTimes::new().set_accessed(long_ago);
        File::options().write(true).open(&path).and_then(|f| f.set_times(times)).expect("set");
        let opened = Folder::open(folder.path()).and_then(|folder| folder.open_file("file"));
        let mut text = String::new();
        opened.and_then(|mut file| file.read_to_string(&mut text)).expect("read");
        assert_eq!(text, "text");
        let facts = path.metadata().expect("facts");
        assert_eq!(facts.accessed().expect("an access time"), long_ago);
    }

    #[test]
    fn open_file_of_another_user_succeeds() {
        let folder = Folder::open(Path::new("/etc")).expect("a folder");
        folder.open_file("passwd").expect("open");
    }
}
