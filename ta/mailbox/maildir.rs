//! Delivers into a Maildir, which needs no lock.
//!
//! The message is written under a unique name in `tmp/`, synced, and moved to `new/`. So readers
//! see all of it or nothing.

use crate::letter::Letter;
use crate::mailbox_error::MailboxError;
use crate::owner::Owner;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use zsched_sys::{self as sys, Folder};

/// Size of the buffer between message and file, in bytes.
const BUFFER: usize = 64 * 1024;
/// Folders of a mailbox. `tmp` is the last, so the others exist if it does.
const FOLDERS: [&str; 3] = ["cur", "new", "tmp"];
/// Rights of new folders.
const FOLDER_MODE: u32 = 0o700;

/// Creates an empty mailbox, unless it exists.
pub fn create(path: &Path) -> Result<(), MailboxError> {
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(MailboxError::System("cannot create the mailbox", error))
        }
        _ => Ok(()),
    }
}

/// An open mailbox.
///
/// Its use needs no rights in the folders above, and no user can replace it.
pub struct Maildir {
    folder: Folder,
}

impl Maildir {
    /// Opens the mailbox of `owner`.
    pub fn open(path: &Path, owner: &Owner) -> Result<Maildir, MailboxError> {
        let folder = Folder::open_real(path);
        let folder = folder.map_err(MailboxError::with("cannot open the mailbox"))?;
        let facts =
            folder.examine(".").map_err(MailboxError::with("cannot examine the mailbox"))?;
        if !owner.may_own(facts.owner) {
            return Err(MailboxError::Unusable("the mailbox belongs to another user"));
        }
        Ok(Maildir { folder })
    }

    /// Delivers `letter`. If a folder that this needs is missing, all missing ones are created.
    pub fn deliver(&self, letter: &Letter<'_>) -> Result<(), MailboxError> {
        let written = match self.write(letter) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.create_folders()? => {
                self.write(letter)
            }
            written => written,
        };
        written.map_err(MailboxError::with("cannot copy the message to the mailbox"))
    }

    /// Creates and syncs the missing folders. Returns true if there were any.
    fn create_folders(&self) -> Result<bool, MailboxError> {
        let mut has_new_folders = false;
        for name in FOLDERS {
            let created = self.folder.create_folder(name, FOLDER_MODE);
            has_new_folders |= created.map_err(MailboxError::with("cannot create the mailbox"))?;
        }
        if has_new_folders {
            let synced = self.folder.open_folder(".").and_then(|folder| folder.sync_all());
            synced.map_err(MailboxError::with("cannot sync the mailbox"))?;
        }
        Ok(has_new_folders)
    }

    fn write(&self, letter: &Letter<'_>) -> io::Result<()> {
        let name = unique_name(jiff::Timestamp::now());
        let (draft, target) = (format!("tmp/{name}"), format!("new/{name}"));
        let file = self.folder.create_file(&draft, 0o600)?;
        let moved = write_draft(&file, letter).and_then(|()| self.move_draft(&draft, &target));
        let new = moved.inspect_err(|_| {
            // Readers remove leftover files in tmp/ after 36 hours.
            self.folder.remove_file(&draft).ok();
        })?;
        // A message that may not survive a crash is delivered again, so it must be removed here. If
        // it has disappeared already, a reader has taken it.
        new.sync_all()
            .or_else(|error| self.folder.remove_file(&target).map_or(Ok(()), |()| Err(error)))
    }

    /// Moves a complete message to `new/`, and returns that folder, which must be synced.
    fn move_draft(&self, draft: &str, target: &str) -> io::Result<File> {
        let new = self.folder.open_folder("new")?;
        self.folder.rename_new(draft, target)?;
        Ok(new)
    }
}

/// Writes the message into a new file, and syncs it.
fn write_draft(file: &File, letter: &Letter<'_>) -> io::Result<()> {
    let mut buffer = BufWriter::with_capacity(BUFFER, file);
    letter.write_to(&mut buffer)?;
    buffer.flush()?;
    file.sync_all()
}

/// A unique name: time, process, count, host.
fn unique_name(now: jiff::Timestamp) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let host = sys::host_name().replace('/', "\\057").replace(':', "\\072");
    let (seconds, micros) = (now.as_second(), now.subsec_nanosecond() / 1000);
    format!("{seconds}.M{micros:06}P{}Q{count}.{host}", std::process::id())
}
