//! Delivers into a Maildir, which needs no lock.
//!
//! The message is written under a unique name in `tmp/`, synced, and moved to `new/`. So readers
//! see all of it or nothing.

use crate::letter::Letter;
use crate::mailbox_error::MailboxError;
use crate::owner::Owner;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_sys as sys;

/// Size of the buffer between message and file, in bytes.
const BUFFER: usize = 64 * 1024;

/// Creates an empty mailbox, unless it exists.
pub fn create(path: &Path) -> Result<(), MailboxError> {
    make_folder(path).map(drop)
}

/// An open mailbox.
pub struct Maildir {
    folder: File,
    /// A path that needs no rights in the folders above.
    ///
    /// No user can replace it.
    path: PathBuf,
}

impl Maildir {
    /// Opens the mailbox of `owner`.
    pub fn open(path: &Path, owner: &Owner) -> Result<Maildir, MailboxError> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let folder = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let folder = folder.map_err(MailboxError::with("cannot open the mailbox"))?;
        let metadata =
            folder.metadata().map_err(MailboxError::with("cannot examine the mailbox"))?;
        if !owner.may_own(metadata.uid()) {
            return Err(MailboxError::Unusable("the mailbox belongs to another user"));
        }
        let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let path = if by_descriptor.exists() { by_descriptor } else { path.to_path_buf() };
        Ok(Maildir { folder, path })
    }

    /// Delivers `letter`. Missing folders in the mailbox are created.
    pub fn deliver(&self, letter: &Letter<'_>) -> Result<(), MailboxError> {
        let mut has_new_folders = false;
        for name in ["tmp", "new", "cur"] {
            has_new_folders |= make_folder(&self.path.join(name))?;
        }
        if has_new_folders {
            self.folder.sync_all().map_err(MailboxError::with("cannot sync the mailbox"))?;
        }
        self.write(letter).map_err(MailboxError::with("cannot copy the message to the mailbox"))
    }

    fn write(&self, letter: &Letter<'_>) -> io::Result<()> {
        let name = unique_name(jiff::Timestamp::now());
        let draft = Draft { path: self.path.join("tmp").join(&name) };
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft.path)?;
        let mut buffer = BufWriter::with_capacity(BUFFER, &file);
        letter.write_to(&mut buffer)?;
        buffer.flush()?;
        file.sync_all()?;
        let new = self.path.join("new");
        let target = new.join(&name);
        if sys::if_exists(target.symlink_metadata())?.is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let new = File::open(&new)?;
        fs::rename(&draft.path, &target)?;
        // A message that may not survive a crash is delivered again, so it must be removed here. If
        // it has disappeared already, a reader has taken it.
        new.sync_all().or_else(|error| fs::remove_file(&target).map_or(Ok(()), |()| Err(error)))
    }
}

/// Creates a folder, unless it exists. Returns true if it was created.
fn make_folder(path: &Path) -> Result<bool, MailboxError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(MailboxError::System("cannot create the mailbox", error)),
    }
}

/// An incomplete message, which is removed unless it is moved to `new/`.
struct Draft {
    path: PathBuf,
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Readers remove leftover files in tmp/ after 36 hours.
        fs::remove_file(&self.path).ok();
    }
}

/// A unique name: time, process, count, host.
fn unique_name(now: jiff::Timestamp) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let host = sys::host_name().replace('/', "\\057").replace(':', "\\072");
    let (seconds, micros) = (now.as_second(), now.subsec_nanosecond() / 1000);
    format!("{seconds}.M{micros:06}P{}Q{count}.{host}", std::process::id())
}
