//! Finishes recipients that no agent has.
//!
//! No crash leaves one that is both delivered and reported as failed.
//!
//! | step | state after a crash |
//! |---|---|
//! | lock each recipient with the scheduler's pid | locks of a dead process, which are cleared |
//! | write the `d` line and sync it | a decision: [`decisions`](super::decisions) completes the tag |
//! | write the tag | finished |
//!
//! Without a `d` line there is no lock: the tag alone decides.

use super::LockOwner;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{PidField, Tag, mark};

/// A control file, on disk or simulated.
pub trait OpenControlFile: FileExt {
    /// Its size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Appends whole lines, and returns when they are on disk.
    fn append(&self, lines: &[u8]) -> io::Result<()>;
    /// Syncs tags to disk.
    fn sync(&self) -> io::Result<()>;
    /// Runs `work` while no other program of zsched changes the file.
    fn with_file_lock<T>(&self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// The scheduler as the owner of locks.
pub struct RecipientLocker<'o> {
    /// Its pid.
    pub pid: u32,
    /// Determines the owner of a lock. Its own locks of an earlier attempt count as free.
    pub owner: &'o dyn Fn(PidField) -> LockOwner,
}

/// A recipient as it was read, and the note about it.
pub struct UnfinishedRecipient {
    /// Offset of its line in the control file.
    pub offset: u32,
    /// Its tag when it was read.
    pub tag: Tag,
    /// Its lock column, if it has one.
    pub lock: Option<PidField>,
    /// The `d` line; empty if none must be written.
    pub line: Vec<u8>,
    /// The tag that an earlier `d` line has decided.
    pub decided_tag: Option<Tag>,
    /// True if the sender requested the line.
    pub is_requested: bool,
}

/// A recipient that this program has taken.
///
/// It is locked, or was pending in a file without a pid column.
pub struct LockedRecipient<'c> {
    /// The recipient.
    pub candidate: &'c UnfinishedRecipient,
    tag: Tag,
    lock: Option<PidField>,
}

/// Marks recipients as delivered that an agent has reported without marking them.
///
/// Without a tag or a `d` line they would count as failed when all recipients are finished.
pub(crate) fn complete_delivered(
    file: &impl OpenControlFile,
    candidates: &[UnfinishedRecipient],
) -> io::Result<()> {
    file.with_file_lock(|| {
        for UnfinishedRecipient { offset, .. } in candidates {
            let (tag, _) = mark::read_tag(file, *offset)?;
            if matches!(tag, Tag::Pending | Tag::Locked) {
                mark::write_final_tag(file, *offset, tag, None, Tag::Done)?;
            }
        }
        Ok(())
    })
}

impl RecipientLocker<'_> {
    /// Locks recipients. Also returns true if a living process has one of them.
    pub fn lock_all<'c>(
        &self,
        file: &impl OpenControlFile,
        candidates: impl Iterator<Item = &'c UnfinishedRecipient>,
    ) -> io::Result<(Vec<LockedRecipient<'c>>, bool)> {
        let (mut all, mut is_busy) = (Vec::new(), false);
        file.with_file_lock(|| {
            for candidate in candidates {
                let UnfinishedRecipient { offset, tag: was, lock, .. } = *candidate;
                let is_free = match was {
                    Tag::Pending => true,
                    Tag::Locked if lock.is_none_or(|field| (self.owner)(field).is_gone()) => {
                        mark::clear_dead_lock(file, offset, lock)? == Tag::Pending
                    }
                    Tag::Locked => false,
                    // It was finished before.
                    _ => continue,
                };
                if !is_free || !mark::change_tag(file, offset, Tag::Pending, Tag::Locked, self.pid)?
                {
                    is_busy = true;
                    continue;
                }
                let (tag, lock) = mark::read_tag(file, offset)?;
                let lock = Some(lock).filter(|_| tag == Tag::Locked);
                all.push(LockedRecipient { candidate, tag, lock });
            }
            Ok((all, is_busy))
        })
    }

    /// Finishes recipients without a `d` line. Returns true if a living process has one of them.
    fn finish_unlocked<'c>(
        &self,
        file: &impl OpenControlFile,
        candidates: impl Iterator<Item = &'c UnfinishedRecipient>,
        tag: Tag,
    ) -> io::Result<bool> {
        let mut is_busy = false;
        file.with_file_lock(|| {
            for UnfinishedRecipient { offset, tag: was, lock, decided_tag: decided, .. } in
                candidates
            {
                let tag = decided.unwrap_or(tag);
                let is_open = match was {
                    Tag::Pending => true,
                    Tag::Locked => lock.is_none_or(|field| (self.owner)(field).is_gone()),
                    _ => continue,
                };
                is_busy |=
                    !is_open || mark::write_final_tag(file, *offset, *was, *lock, tag)? != tag;
            }
            Ok(is_busy)
        })
    }

    /// Finishes recipients with a final tag. Returns true if the file has a line that a sender
    /// requested.
    ///
    /// Fails with [`ErrorKind::ResourceBusy`] if a living process has one of them. The others are
    /// finished then. After any error it can be called again.
    pub(crate) fn finish_recipients(
        &self,
        file: &impl OpenControlFile,
        candidates: &[UnfinishedRecipient],
        tag: Tag,
    ) -> io::Result<bool> {
        let is_noted = |candidate: &&UnfinishedRecipient| !candidate.line.is_empty();
        let unnoted = || candidates.iter().filter(|candidate| candidate.line.is_empty());
        let mut is_busy = self.finish_unlocked(file, unnoted(), tag)?;
        if unnoted().next().is_some() {
            file.sync()?;
        }
        let (taken, has_busy) = self.lock_all(file, candidates.iter().filter(is_noted))?;
        is_busy |= has_busy;
        // An agent has marked these as failed meanwhile, and has left the line to the scheduler.
        let has_failed = |one: &&UnfinishedRecipient| tag == Tag::Failed && one.tag == Tag::Failed;
        let failed = candidates.iter().filter(has_failed);
        let noted = taken.iter().map(|one| one.candidate).chain(failed);
        let lines: Vec<u8> = noted.flat_map(|one| &one.line).copied().collect();
        if !lines.is_empty() {
            file.append(&lines)?;
        }
        // An agent that was believed to have ended may have written such a line itself.
        let is_owed = !lines.is_empty() || candidates.iter().any(|one| one.is_requested);
        for LockedRecipient { candidate, tag: was, lock } in taken {
            mark::write_final_tag(file, candidate.offset, was, lock, tag)?;
        }
        if is_busy { Err(ErrorKind::ResourceBusy.into()) } else { Ok(is_owed) }
    }
}
