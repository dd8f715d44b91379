//! Files: opening them safely, telling them apart, renaming and locking them.

use super::succeeded;
use rustix::fs::{
    Access, CWD, FlockOperation, RenameFlags, access, fcntl_lock, fstatfs, renameat_with,
};
use rustix::io::Errno;
use std::ffi::{OsStr, c_uint};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// File systems that record changes in their order (`statfs(2)`): ext4, XFS.
///
/// Not btrfs: there, `sync_file_range` returns before the size of the file is recorded.
///
/// On tmpfs nothing survives a power failure, so nothing needs to wait.
const ORDERED_FILE_SYSTEMS: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// Opens a file, but follows no link and waits for no pipe.
pub fn open_nofollow(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Opens a regular file in the same way. Any other kind of file is an error.
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = open_nofollow(options, path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Returns true if this process may create files in a folder.
pub fn may_create_in(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Converts the error that there is no such file to `None`.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path with something added to its last name.
pub fn with_suffix(path: &Path, suffix: impl AsRef<OsStr>) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Replaces a file: writes a new one under the name `new`, syncs it and renames it.
///
/// A reader gets either the old or the new file. On failure the new one is removed.
pub fn replace_file(
    path: &Path,
    new: &Path,
    mode: u32,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(new)?;
    let mut out = BufWriter::new(file);
    let written =
        write(&mut out).and_then(|()| out.into_inner().map_err(|error| error.into_error()));
    let renamed = written.and_then(|file| file.sync_all()).and_then(|()| fs::rename(new, path));
    if let Err(error) = renamed {
        fs::remove_file(new)?;
        return Err(error);
    }
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Reads until the buffer is full or the file ends.
///
/// Returns the number of bytes.
pub fn read_up_to(file: &impl FileExt, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read_at(&mut buffer[count..], position + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Reads `size` bytes at a position, or fewer at the end of the file.
pub fn read_part(file: &impl FileExt, position: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let length = read_up_to(file, &mut bytes, position)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Device and inode number. They differ for two files that exist at the same time.
pub fn device_and_inode(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns true if the path, perhaps a link, leads to the file.
pub fn leads_to(path: &Path, open: &File) -> io::Result<bool> {
    Ok(device_and_inode(&fs::metadata(path)?) == device_and_inode(&open.metadata()?))
}

/// Returns true if the path is a name of the file itself.
pub fn is_name_of(path: &Path, open: &File) -> io::Result<bool> {
    Ok(device_and_inode(&fs::symlink_metadata(path)?) == device_and_inode(&open.metadata()?))
}

/// Renames a file unless the new name exists.
///
/// If it exists, the error is [`ErrorKind::AlreadyExists`] and nothing has changed. The error is
/// [`ErrorKind::Unsupported`] where the file system lacks the operation.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    rename_new_at(CWD, from, to)
}

/// Does what [`rename_new`] does, with paths below an open folder.
pub(crate) fn rename_new_at(folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => Err(ErrorKind::Unsupported.into()),
        other => Ok(other?),
    }
}

/// Returns true on ext4 and XFS, whose journals keep the order of what they record.
///
/// There, a name that a file gets after [`write_out`] survives no power failure without the data.
pub fn keeps_order(file: &File) -> bool {
    fstatfs(file).is_ok_and(|facts| ORDERED_FILE_SYSTEMS.contains(&(facts.f_type as u64)))
}

/// Begins to write the data of a file to its disk. Does not wait.
pub fn begin_write_out(file: &File) {
    // An error comes again with `write_out`.
    sync_file_range(file, libc::SYNC_FILE_RANGE_WRITE).ok();
}

/// Writes the data of a file to its disk.
///
/// The file is not durable yet: the data may be in the cache of the disk, and its size in memory.
pub fn write_out(file: &File) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    match sync_file_range(file, flags) {
        // A sandbox may forbid the call.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            file.sync_data()
        }
        other => other,
    }
}

fn sync_file_range(file: &File, flags: c_uint) -> io::Result<()> {
    // SAFETY: the descriptor is open, and no memory is passed.
    succeeded(unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) })
}

/// Takes a POSIX write lock (`fcntl(2)`) on the whole file.
///
/// Mail readers lock mailboxes in this way.
///
/// Returns at once; `false` means that another process holds a lock. The lock ends when this
/// process closes the file, by *any* of its descriptors, so open it once.
pub fn try_posix_lock(file: &File) -> io::Result<bool> {
    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rename_new_to_existing_file_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let content = |name: &str| fs::read_to_string(at(name)).ok();
        for name in ["a", "b"] {
            fs::write(at(name), name).expect("written");
        }
        let refused = rename_new(&at("a"), &at("b")).expect_err("b is there");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!((content("a").as_deref(), content("b").as_deref()), (Some("a"), Some("b")));
        rename_new(&at("a"), &at("c")).expect("c is free");
        assert_eq!((content("a"), content("c").as_deref()), (None, Some("a")));
        let missing = rename_new(&at("a"), &at("d")).expect_err("a is gone");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn posix_lock_held_by_us_can_be_taken_again() {
        let file = tempfile::tempfile().expect("a file");
        assert!(try_posix_lock(&file).expect("a lock"));
        assert!(try_posix_lock(&file).expect("the same lock"));
    }

    #[test]
    fn link_to_open_file_leads_to_it_and_is_no_name_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let file = File::create_new(at("file")).expect("a file");
        std::os::unix::fs::symlink("file", at("link")).expect("a link");
        fs::write(at("other"), "").expect("a file");
        let found = |name: &str| {
            let path = at(name);
            (leads_to(&path, &file).expect("known"), is_name_of(&path, &file).expect("known"))
        };
        assert_eq!(found("file"), (true, true));
        assert_eq!(found("link"), (true, false));
        assert_eq!(found("other"), (false, false));
        assert!(if_exists(leads_to(&at("none"), &file)).expect("it does not exist").is_none());
        assert_eq!(with_suffix(&at("file"), ".1"), at("file.1"));
        open_regular(File::options().read(true), &at("file")).expect("it is regular");
        open_regular(File::options().read(true), folder.path()).expect_err("a folder");
        open_regular(File::options().read(true), &at("link")).expect_err("a link");
    }
}
