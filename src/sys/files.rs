//! Files: opening them safely, telling them apart, renaming and locking them.

use rustix::fs::{CWD, FlockOperation, RenameFlags, fcntl_lock, renameat_with};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => Err(ErrorKind::Unsupported.into()),
        other => Ok(other?),
    }
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
