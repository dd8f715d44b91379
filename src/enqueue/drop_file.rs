//! The drop folder: one file for each message, which the scheduler takes.
//!
//! ```text
//! host example.org/talk/list      name: the number of its inode; until it is complete,
//! from alice@example.org          new:<pid>:<n>
//!
//! Subject: hello ...
//! ```
//!
//! Only the group that this program lends may write to the folder, and no user may list it. So no
//! user can reach a file in it, be it that of another user or the own one. The scheduler checks
//! owner, names and size of each file again.

use crate::error::EnqueueError;
use crate::rights::Rights;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, linkat, openat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::Signal;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Name of the folder in POSTOFFICE.
const FOLDER: &str = "drop";
/// Mode of a message: the scheduler is root, or in the group of the folder.
const MESSAGE_MODE: u32 = 0o640;
/// Mode bits that a drop folder never has: write for others.
const FOREIGN_WRITE: u32 = 0o002;
/// Number of names that are tried for a new file.
const MAX_TRIES: u32 = 1000;

/// A message that is being written. It is removed unless it is published.
pub struct DropFile {
    folder: OwnedFd,
    file: OwnedFd,
    name: String,
    is_published: bool,
}

impl DropFile {
    /// Creates an empty file in the drop folder of a spool.
    pub fn create(postoffice: &Path, rights: &Rights) -> Result<DropFile, EnqueueError> {
        // A limit of the caller on the size of files is then an error instead of the end.
        zsched_sys::ignore_signal(Signal::XFSZ.as_raw()).map_err(EnqueueError::Write)?;
        let path = postoffice.join(FOLDER);
        let folder = open_folder(&path, rights)?;
        let pid = rustix::process::getpid().as_raw_nonzero();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for number in 0..MAX_TRIES {
            let name = format!("new:{pid}:{number}");
            match openat(&folder, &name, flags | OFlags::NOFOLLOW, Mode::from_raw_mode(0o600)) {
                Ok(file) => {
                    let file = DropFile { folder, file, name, is_published: false };
                    // The mask of the caller does not count.
                    fchmod(&file.file, Mode::from_raw_mode(MESSAGE_MODE)).map_err(failed)?;
                    return Ok(file);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(EnqueueError::Folder(path, describe(error))),
            }
        }
        Err(failed(Errno::EXIST))
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), EnqueueError> {
        while !bytes.is_empty() {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.file, bytes));
            match written.map_err(failed)? {
                0 => return Err(EnqueueError::Write(io::ErrorKind::WriteZero.into())),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    /// Syncs the file and gives it its name, from which the scheduler takes it.
    pub fn publish(mut self) -> Result<(), EnqueueError> {
        fsync(&self.file).map_err(failed)?;
        let number = fstat(&self.file).map_err(failed)?.st_ino.to_string();
        let (folder, name) = (&self.folder, self.name.as_str());
        match renameat_with(folder, name, folder, number.as_str(), RenameFlags::NOREPLACE) {
            // The file system cannot rename without replacing.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(folder, name, folder, number.as_str(), AtFlags::empty()).map_err(failed)?;
                unlinkat(folder, name, AtFlags::empty()).map_err(failed)?;
            }
            other => other.map_err(failed)?,
        }
        self.is_published = true;
        // The folder cannot be opened for reading, and so not be synced. ext4, XFS and btrfs write
        // a rename to their journals together with the renamed file.
        fsync(&self.file).ok();
        Ok(())
    }
}

impl Drop for DropFile {
    fn drop(&mut self) {
        if !self.is_published {
            // The scheduler removes what is left after a day.
            unlinkat(&self.folder, self.name.as_str(), AtFlags::empty()).ok();
        }
    }
}

/// Opens the folder, if it is one that this program may write to for its callers.
fn open_folder(path: &Path, rights: &Rights) -> Result<OwnedFd, EnqueueError> {
    let refused = |why: &str| EnqueueError::Folder(PathBuf::from(path), why.to_string());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| refused(&describe(error)))?;
    let metadata = fstat(&folder).map_err(|error| refused(&describe(error)))?;
    if let Some(group) = rights.lent_group() {
        if metadata.st_gid != group {
            return Err(refused("it does not belong to the group of this program"));
        }
        if metadata.st_mode & FOREIGN_WRITE != 0 {
            return Err(refused("others may write to it; its mode is to be 3730"));
        }
    }
    Ok(folder)
}

fn describe(error: Errno) -> String {
    io::Error::from(error).to_string()
}

fn failed(error: Errno) -> EnqueueError {
    EnqueueError::Write(error.into())
}
