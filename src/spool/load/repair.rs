//! Repair of tags: those that a `d` line has decided, and locks of dead processes.

use super::Loader;
use crate::{DuplicateSink, LockOwner, PossibleDuplicates, Spool, SpoolName, owner_of};
use crate::{chunk, decisions};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use zsched_format::control_file::{
    self, ControlFile, ControlFileError, PidField, Recipient, Tag, mark,
};
use zsched_format::time::Timestamp;
use zsched_sys as sys;

/// Repairs the tags of a control file whose agent has died.
///
/// `dead` counts as dead even if its pid is in use again. `duplicates` receives the possible
/// duplicates before any lock is cleared. A malformed file is left to the next program that reads
/// it.
pub fn clear_locks(
    spool: &Spool,
    name: &SpoolName,
    dead: u32,
    duplicates: DuplicateSink<'_>,
) -> io::Result<()> {
    let Some(file) = sys::if_exists(open_to_mark(&spool.control_file(name)))? else {
        return Ok(());
    };
    let metadata = file.metadata()?;
    let (size, modified) = (metadata.len(), Timestamp::modified(&metadata));
    let received = fs::metadata(spool.message_file(name));
    let received = received.map_or(modified, |message| Timestamp::modified(&message));
    // The time of the last change is that after a lock was read. With an earlier one, an agent that
    // has started and locked a recipient meanwhile would count as dead.
    let owner = |field: PidField| match (field.pid(), file.metadata()) {
        (Some(pid), _) if pid == dead => LockOwner::Dead,
        (_, Ok(metadata)) => owner_of(field, Timestamp::modified(&metadata)),
        (pid, Err(_)) => LockOwner::Alive(pid.unwrap_or_default()),
    };
    let is_large = size > control_file::MAX_QUERY_SIZE;
    if is_large {
        decisions::complete_large(&file, size, |field| owner(field).is_gone())?;
    }
    let mut from = Some(0);
    while let Some(at) = from {
        let parsed = match is_large {
            true => chunk::read(&file, at, usize::MAX).map(|part| (part.file, part.next)),
            false => control_file::read_all(&file, size)
                .and_then(|text| Ok((control_file::parse(text)?, None))),
        };
        let mut part = match parsed.map_err(io::Error::downcast::<ControlFileError>) {
            Ok((part, next)) => {
                from = next;
                part
            }
            // Malformed.
            Err(Ok(_)) => return Ok(()),
            Err(Err(error)) => return Err(error),
        };
        unlock_dead(&file, (name, received), &mut part, owner, &mut *duplicates)?;
    }
    Ok(())
}

fn open_to_mark(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

impl Loader<'_> {
    /// Repairs the tags in memory and on disk.
    ///
    /// The modification time is read again: since the scan examined the file, an agent of an
    /// earlier scheduler may have locked a recipient.
    pub(super) fn clear_dead_locks(&mut self, file: &mut ControlFile) -> io::Result<()> {
        let is_locked = |recipient: &Recipient| recipient.tag == Tag::Locked;
        let is_decided = !decisions::incomplete(file, |_| false).is_empty();
        if !is_decided && !file.recipients.iter().any(is_locked) {
            return Ok(());
        }
        let path = self.spool.spool.control_file(self.name);
        let modified = Timestamp::modified(&fs::symlink_metadata(&path)?);
        let owner = |field| (self.owner)(field, modified);
        let is_free = |recipient: &Recipient| {
            is_locked(recipient) && recipient.lock.is_none_or(|field| owner(field).is_gone())
        };
        if !is_decided && !file.recipients.iter().any(is_free) {
            return Ok(());
        }
        let message = (self.name, self.received());
        unlock_dead(&open_to_mark(&path)?, message, file, owner, &mut *self.duplicates)
    }

    /// Writes the tags that the `d` lines of a large file have decided.
    pub(super) fn complete_decided(&self) -> io::Result<()> {
        let on_disk = open_to_mark(&self.spool.spool.control_file(self.name))?;
        let size = on_disk.metadata()?.len();
        // As in `clear_locks`, the time of the last change is that after the lock was read.
        let is_free = |field| {
            let modified = on_disk.metadata().map(|metadata| Timestamp::modified(&metadata));
            modified.is_ok_and(|modified| (self.owner)(field, modified).is_gone())
        };
        decisions::complete_large(&on_disk, size, is_free)
    }
}

/// Writes the tags that `d` lines have decided, and clears other locks of dead processes.
///
/// Both change on disk and in `file`. `duplicates` receives the possible duplicates before
/// locks are cleared, so that a crash in between hides nothing. A lock without a pid has no owner.
/// `message` is the name of the message and the time of its arrival.
pub fn unlock_dead(
    on_disk: &impl FileExt,
    (name, received): (&SpoolName, Timestamp),
    file: &mut ControlFile,
    owner: impl Fn(PidField) -> LockOwner,
    duplicates: DuplicateSink<'_>,
) -> io::Result<()> {
    let incomplete = decisions::incomplete(file, |field| owner(field).is_gone());
    decisions::complete(on_disk, file, &incomplete)?;
    let owner = |recipient: &Recipient| recipient.lock.map_or(LockOwner::Dead, &owner);
    let locked = file.recipients.iter().enumerate().filter(|(_, r)| r.tag == Tag::Locked);
    let gone: Vec<(usize, LockOwner)> = locked
        .map(|(place, recipient)| (place, owner(recipient)))
        .filter(|(_, owner)| owner.is_gone())
        .collect();
    // A process that has ended since the file was read may have finished the recipient before.
    let mut doubtful = Vec::new();
    for (place, _) in gone.iter().filter(|(_, owner)| *owner == LockOwner::Dead) {
        let Recipient { offset, lock, .. } = &file.recipients[*place];
        if mark::has_lock(on_disk, *offset, *lock)? {
            doubtful.push(*place);
        }
    }
    if !doubtful.is_empty() {
        duplicates(&PossibleDuplicates::about(name, received, file, &doubtful));
    }
    for (place, _) in gone {
        let recipient = &mut file.recipients[place];
        recipient.tag = mark::clear_dead_lock(on_disk, recipient.offset, recipient.lock)?;
    }
    Ok(())
}

/// The process that has locked the first locked recipient.
///
/// 0 if the file has no pid.
pub fn holder(file: &ControlFile) -> Option<u32> {
    let locked = file.recipients.iter().find(|recipient| recipient.tag == Tag::Locked)?;
    Some(locked.lock.and_then(|field| field.pid()).unwrap_or_default())
}
