//! Completes decided tags, and clears the locks of dead processes.

use super::modified;
use crate::chunk::{self, ChunkError};
use crate::{DuplicateSink, LockOwner, PossibleDuplicates, Spool, SpoolName, decisions, owner_of};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zsched_format::control_file::{self, ControlFile, PidField, Tag, mark};
use zsched_format::time::Timestamp;

/// Clears the locks of dead processes in a control file, among them the given one.
///
/// `duplicates` receives the possible duplicates before.
pub fn clear_locks(
    spool: &Spool,
    name: &SpoolName,
    dead: u32,
    duplicates: DuplicateSink<'_>,
) -> io::Result<()> {
    let path = spool.control_file(name);
    let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let metadata = file.metadata()?;
    let modified = modified(&metadata);
    if metadata.len() > control_file::MAX_QUERY_SIZE {
        return clear_locks_in_parts(spool, &file, name, modified, dead, duplicates);
    }
    let text = control_file::read_all(&mut file, metadata.len())?;
    let Ok(mut parsed) = control_file::parse(text) else {
        return Ok(());
    };
    let owner = |field| owner_after_death(field, dead, modified);
    let received = fs::metadata(spool.message_file(name)).map_or(modified, |m| self::modified(&m));
    unlock_dead(&file, (name, received), &mut parsed, owner, duplicates)
}

fn clear_locks_in_parts(
    spool: &Spool,
    file: &File,
    name: &SpoolName,
    modified: Timestamp,
    dead: u32,
    duplicates: DuplicateSink<'_>,
) -> io::Result<()> {
    let owner = |field| owner_after_death(field, dead, modified);
    let size = file.metadata()?.len();
    decisions::complete_large(file, size, |field| owner(field).is_gone())?;
    let received = fs::metadata(spool.message_file(name)).map_or(modified, |m| self::modified(&m));
    let mut from = Some(0);
    while let Some(at) = from {
        let mut part = match chunk::read(file, at, usize::MAX) {
            Ok(part) => part,
            Err(ChunkError::Failed(error)) => return Err(error),
            // The next program that reads the file will report the error.
            Err(ChunkError::Malformed(_)) => return Ok(()),
        };
        unlock_dead(file, (name, received), &mut part.file, owner, &mut *duplicates)?;
        from = part.next;
    }
    Ok(())
}

/// The owner of a lock after a certain process has died.
fn owner_after_death(field: PidField, dead: u32, modified: Timestamp) -> LockOwner {
    if field.pid() == Some(dead) { LockOwner::Dead } else { owner_of(field, modified) }
}

/// Completes decided tags, and clears the locks of dead processes, in the file as well.
///
/// The file's time is read only now. An agent of an earlier scheduler may have locked a recipient
/// after the file was examined, which was before a long scan.
pub(super) fn clear_dead_locks(
    path: &Path,
    message: (&SpoolName, Timestamp),
    file: &mut ControlFile,
    (owner, duplicates): (OwnerOf, DuplicateSink<'_>),
) -> io::Result<()> {
    let is_locked = |recipient: &control_file::Recipient| recipient.tag == Tag::Locked;
    let has_locks = file.recipients.iter().any(is_locked);
    if !has_locks && decisions::incomplete(file, |_| false).is_empty() {
        return Ok(());
    }
    let modified = modified(&fs::symlink_metadata(path)?);
    let is_gone = |field| owner(field, modified).is_gone();
    let is_free = |recipient: &control_file::Recipient| {
        is_locked(recipient) && recipient.lock.is_none_or(is_gone)
    };
    let has_work =
        file.recipients.iter().any(is_free) || !decisions::incomplete(file, |_| false).is_empty();
    if !has_work {
        return Ok(());
    }
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    unlock_dead(&on_disk, message, file, |field| owner(field, modified), duplicates)
}

/// Completes the tags decided by the `d` lines of a large file.
pub(super) fn complete_large(path: &Path, owner: OwnerOf) -> io::Result<()> {
    let on_disk = OpenOptions::new().read(true).write(true).open(path)?;
    let metadata = on_disk.metadata()?;
    let modified = modified(&metadata);
    decisions::complete_large(&on_disk, metadata.len(), |field| owner(field, modified).is_gone())
}

/// Completes the tags that `d` lines decide, and clears the other locks of dead processes.
///
/// Both are changed on disk and in `file`. `duplicates` receives the possible duplicates before
/// locks are cleared, so that a crash in between hides nothing. A lock without a pid has no owner.
/// `message` is the name of the message and the time of its arrival.
pub fn unlock_dead(
    on_disk: &impl FileExt,
    message: (&SpoolName, Timestamp),
    file: &mut ControlFile,
    owner: impl Fn(PidField) -> LockOwner,
    duplicates: DuplicateSink<'_>,
) -> io::Result<()> {
    let incomplete = decisions::incomplete(file, |field| owner(field).is_gone());
    decisions::complete(on_disk, file, &incomplete)?;
    let owner =
        |recipient: &control_file::Recipient| recipient.lock.map_or(LockOwner::Dead, &owner);
    let locked = file.recipients.iter().enumerate().filter(|(_, r)| r.tag == Tag::Locked);
    let gone: Vec<(usize, LockOwner)> = locked
        .map(|(place, recipient)| (place, owner(recipient)))
        .filter(|(_, owner)| owner.is_gone())
        .collect();
    let of_agents = gone.iter().filter(|(_, owner)| *owner == LockOwner::Dead);
    let doubtful: Vec<usize> = of_agents.map(|(place, _)| *place).collect();
    if !doubtful.is_empty() {
        duplicates(&PossibleDuplicates::about(message.0, message.1, file, &doubtful));
    }
    for (place, _) in gone {
        let recipient = &mut file.recipients[place];
        recipient.tag = mark::clear_dead_lock(on_disk, recipient.offset, recipient.lock)?;
    }
    Ok(())
}

/// The process that has locked the first locked recipient of a file; 0 if the file has no pid.
pub fn holder(file: &ControlFile) -> Option<u32> {
    let locked = file.recipients.iter().find(|recipient| recipient.tag == Tag::Locked)?;
    Some(locked.lock.and_then(|field| field.pid()).unwrap_or_default())
}

/// Determines the owner of a lock, given the file's last change.
pub(super) type OwnerOf = fn(PidField, Timestamp) -> LockOwner;
