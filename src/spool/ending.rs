//! Finishes recipients that no agent has.
//!
//! No crash leaves one that is both delivered and reported as failed.
//!
//! | step | state after a crash |
//! |---|---|
//! | lock each recipient with the scheduler's pid | locks of a dead process, which are cleared |
//! | write the `d` line and sync it | a decision: [`decided`](super::decided) completes the tag |
//! | write the tag | finished |
//!
//! Without a `d` line there is no lock: the tag alone decides.

use super::LockOwner;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{PidField, Tag, mark};

/// A control file, on disk or simulated.
pub trait OpenControlFile: FileExt {
    /// Appends whole lines, and returns when they are on disk.
    fn append(&self, lines: &[u8]) -> io::Result<()>;
    /// Syncs tags to disk.
    fn sync(&self) -> io::Result<()>;
    /// Runs `deed` while other programs of zsched neither lock recipients nor append lines.
    fn alone<T>(&self, deed: impl FnOnce() -> T) -> T {
        deed()
    }
}

/// The scheduler as the owner of locks.
pub struct Locker<'o> {
    /// Its pid.
    pub pid: u32,
    /// Determines the owner of a lock. Its own locks of an earlier attempt count as free.
    pub owner: &'o dyn Fn(PidField) -> LockOwner,
}

/// A recipient as it was read, with the `d` line about its end.
pub struct Candidate {
    /// Offset of its line in the control file.
    pub offset: u32,
    /// Its tag when it was read.
    pub tag: Tag,
    /// Its lock column, if it has one.
    pub lock: Option<PidField>,
    /// The `d` line; empty if the sender did not request it, or it is written already.
    pub line: Vec<u8>,
    /// The tag that an earlier `d` line has decided.
    pub decided: Option<Tag>,
    /// True if the sender requested the line.
    pub is_owed: bool,
}

/// A recipient that is locked, or was pending in a file without a pid column.
pub struct Taken<'c> {
    /// The recipient.
    pub candidate: &'c Candidate,
    tag: Tag,
    lock: Option<PidField>,
}

/// The result of trying to lock a recipient.
enum Attempt<'c> {
    Taken(Taken<'c>),
    /// It was finished before.
    Finished,
    /// A living process is delivering to it.
    Busy,
}

impl Locker<'_> {
    /// Locks a recipient.
    fn take<'c>(&self, file: &impl FileExt, candidate: &'c Candidate) -> io::Result<Attempt<'c>> {
        let offset = candidate.offset;
        let is_free = match candidate.tag {
            Tag::Pending => true,
            Tag::Locked if candidate.lock.is_none_or(|field| (self.owner)(field).is_gone()) => {
                mark::unlock(file, offset, candidate.lock)? == Tag::Pending
            }
            Tag::Locked => false,
            _ => return Ok(Attempt::Finished),
        };
        if !is_free || !mark::change_tag(file, offset, Tag::Pending, Tag::Locked, self.pid)? {
            return Ok(Attempt::Busy);
        }
        let (tag, lock) = mark::read_tag(file, offset)?;
        let lock = Some(lock).filter(|_| tag == Tag::Locked);
        Ok(Attempt::Taken(Taken { candidate, tag, lock }))
    }

    /// Locks recipients. Also returns true if a living process has one of them.
    pub fn take_all<'c>(
        &self,
        file: &impl OpenControlFile,
        candidates: impl Iterator<Item = &'c Candidate>,
    ) -> io::Result<(Vec<Taken<'c>>, bool)> {
        let (mut all, mut is_busy) = (Vec::new(), false);
        file.alone(|| {
            for candidate in candidates {
                match self.take(file, candidate)? {
                    Attempt::Taken(taken) => all.push(taken),
                    Attempt::Busy => is_busy = true,
                    Attempt::Finished => {}
                }
            }
            Ok((all, is_busy))
        })
    }

    /// Finishes recipients without a `d` line. Returns true if a living process has one of them.
    fn mark_all<'c>(
        &self,
        file: &impl OpenControlFile,
        candidates: impl Iterator<Item = &'c Candidate>,
        tag: Tag,
    ) -> io::Result<bool> {
        let mut is_busy = false;
        file.alone(|| {
            for Candidate { offset, tag: was, lock, decided, .. } in candidates {
                let tag = decided.unwrap_or(tag);
                let is_open = match was {
                    Tag::Pending => true,
                    Tag::Locked => lock.is_none_or(|field| (self.owner)(field).is_gone()),
                    _ => continue,
                };
                is_busy |= !is_open || mark::finish(file, *offset, *was, *lock, tag)? != tag;
            }
            Ok(is_busy)
        })
    }

    /// Finishes recipients with a final tag. Returns true if the file has a line that a sender
    /// requested.
    ///
    /// Fails with [`ErrorKind::ResourceBusy`] if a living process has one of them. The others are
    /// finished then. After any error it can be called again.
    pub fn end(
        &self,
        file: &impl OpenControlFile,
        candidates: &[Candidate],
        tag: Tag,
    ) -> io::Result<bool> {
        let is_noted = |candidate: &&Candidate| !candidate.line.is_empty();
        let unnoted = || candidates.iter().filter(|candidate| candidate.line.is_empty());
        let mut is_busy = self.mark_all(file, unnoted(), tag)?;
        if unnoted().next().is_some() {
            file.sync()?;
        }
        let (taken, has_busy) = self.take_all(file, candidates.iter().filter(is_noted))?;
        is_busy |= has_busy;
        // An agent has marked these as failed meanwhile, and has left the line to the scheduler.
        let has_failed = |one: &&Candidate| tag == Tag::Failed && one.tag == Tag::Failed;
        let failed = candidates.iter().filter(has_failed);
        let noted = taken.iter().map(|one| one.candidate).chain(failed);
        let lines: Vec<u8> = noted.flat_map(|one| &one.line).copied().collect();
        if !lines.is_empty() {
            file.append(&lines)?;
        }
        // An agent that was believed to have ended may have written such a line itself.
        let is_owed = !lines.is_empty() || candidates.iter().any(|one| one.is_owed);
        for Taken { candidate, tag: was, lock } in taken {
            mark::finish(file, candidate.offset, was, lock, tag)?;
        }
        if is_busy { Err(ErrorKind::ResourceBusy.into()) } else { Ok(is_owed) }
    }
}
