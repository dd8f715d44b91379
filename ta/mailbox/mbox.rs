//! Appends to an mbox file under two locks, or leaves it unchanged.
//!
//! If the agent is killed meanwhile, the agent that breaks its lock removes the partial letter, see
//! [`undo_partial`](crate::undo_partial).

use crate::dotlock::DotLock;
use crate::letter::Letter;
use crate::lock_text::Append;
use crate::mailbox_error::MailboxError;
use crate::owner::Owner;
use crate::quoting::Quoting;
use crate::undo_partial::missing_line_ends;
use crate::wait::Wait;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use zsched_sys as sys;

/// Pause between attempts to get the kernel's lock.
const PAUSE: Duration = Duration::from_millis(50);
/// Size of the buffer between message and mailbox, in bytes.
const BUFFER: usize = 64 * 1024;

/// Creates an empty mailbox, unless it exists.
pub fn create(path: &Path) -> Result<(), MailboxError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(MailboxError::System("cannot create the mailbox", error))
        }
        _ => Ok(()),
    }
}

/// Appends `letter` to the mailbox `path`, which `dot_lock` locks; returns when it is on disk.
pub fn append(
    path: &Path,
    owner: &Owner,
    letter: &Letter<'_>,
    dot_lock: &DotLock,
    wait: Wait<'_>,
) -> Result<(), MailboxError> {
    let file = open(path)?;
    lock(&file, path, wait)?;
    check(&file, path, owner)?;
    let old_length =
        file.metadata().map_err(MailboxError::with("cannot examine the mailbox"))?.len();
    let opening_line = letter.opening_line(jiff::Timestamp::now());
    let append = Append { old_length, opening_line };
    dot_lock
        .record(&append)
        .map_err(MailboxError::with("cannot write to the lock of the mailbox"))?;
    let written = write(&file, &append, letter).and_then(|()| dot_lock.clear_record());
    written.map_err(|error| match file.set_len(old_length) {
        Ok(()) => MailboxError::System("cannot copy the message to the mailbox", error),
        Err(_) => MailboxError::System(
            "cannot copy the message to the mailbox, and the partial letter cannot be removed",
            error,
        ),
    })
}

/// Opens the mailbox without following links and without blocking.
fn open(path: &Path) -> Result<File, MailboxError> {
    let opened = sys::open_nofollow(OpenOptions::new().read(true).append(true), path);
    opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => MailboxError::Unusable("the mailbox is a symbolic link"),
        _ => MailboxError::System("cannot open the mailbox", error),
    })
}

/// Takes the kernel's lock, for programs that do not use dot locks.
fn lock(file: &File, path: &Path, wait: Wait<'_>) -> Result<(), MailboxError> {
    loop {
        if sys::try_posix_lock(file).map_err(MailboxError::with("cannot lock the mailbox"))? {
            return Ok(());
        }
        if !wait.sleep_unless_over(PAUSE) {
            return Err(MailboxError::Locked(path.to_path_buf()));
        }
    }
}

/// Checks that the open file is the owner's mailbox and nothing else.
///
/// Programs that respect locks can no longer change it now.
fn check(file: &File, path: &Path, owner: &Owner) -> Result<(), MailboxError> {
    let error = || MailboxError::with("cannot examine the mailbox");
    let opened = file.metadata().map_err(error())?;
    if !opened.is_file() {
        return Err(MailboxError::Unusable("the mailbox is not a file"));
    }
    if opened.nlink() != 1 {
        return Err(MailboxError::Unusable("the mailbox has another name (a hard link)"));
    }
    if !owner.may_own(opened.uid()) {
        return Err(MailboxError::Unusable("the mailbox belongs to another user"));
    }
    if !sys::is_name_of(path, file).map_err(error())? {
        return Err(MailboxError::Unusable("the mailbox was replaced during the open"));
    }
    Ok(())
}

fn write(file: &File, append: &Append, letter: &Letter<'_>) -> io::Result<()> {
    let mut buffer = BufWriter::with_capacity(BUFFER, file);
    buffer.write_all(missing_line_ends(file, append.old_length)?)?;
    buffer.write_all(&append.opening_line)?;
    let mut quoting = Quoting::new(buffer);
    letter.write_to(&mut quoting)?;
    quoting.finish()?.flush()?;
    file.sync_all()
}
