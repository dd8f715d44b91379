//! Ending recipients that no agent has, so that no crash leaves one both delivered and reported as failed.
//!
//! | step | a crash behind it leaves |
//! |---|---|
//! | lock each recipient with our pid | locks of a dead process, which are cleared |
//! | bring the `d` line to the disk | a decision: [`decided`](super::decided) completes the tag |
//! | write the tag | the end |
//!
//! Without a `d` line there is no lock: the tag alone decides.

use super::LockOwner;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{PidField, Tag, mark};

/// A control file, on a disk or simulated.
pub trait OpenControlFile: FileExt {
    /// Appends whole lines, and returns when they are on disk.
    fn append(&self, lines: &[u8]) -> io::Result<()>;
    /// Brings tags to the disk.
    fn sync(&self) -> io::Result<()>;
    /// Does something while other programs of ours neither lock recipients nor append lines.
    fn alone<T>(&self, deed: impl FnOnce() -> T) -> T {
        deed()
    }
}

/// The scheduler, as it locks recipients.
pub struct Locker<'o> {
    /// Its pid.
    pub pid: u32,
    /// Who holds a lock. Its own locks, of an earlier attempt, count as nobody's.
    pub owner: &'o dyn Fn(PidField) -> LockOwner,
}

/// A recipient as it was read, and what is to be noted of its end.
pub struct Candidate {
    /// Where its line begins in the control file.
    pub offset: u32,
    /// Its tag when it was read.
    pub tag: Tag,
    /// Its lock column, if it has one.
    pub lock: Option<PidField>,
    /// A `d` line; empty if the sender does not want it, or has it.
    pub line: Vec<u8>,
    /// The tag that a `d` line has decided on before.
    pub decided: Option<Tag>,
    /// The sender wants that line.
    pub is_owed: bool,
}

/// A recipient that is locked, or was pending in a file that has no room for locks.
pub struct Taken<'c> {
    /// The recipient.
    pub candidate: &'c Candidate,
    tag: Tag,
    lock: Option<PidField>,
}

/// What became of an attempt to take a recipient.
enum Attempt<'c> {
    Taken(Taken<'c>),
    /// It has ended meanwhile.
    Finished,
    /// A living process is about to deliver to it.
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

    /// Locks recipients. Also tells whether one could not be locked because a living process has it.
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

    /// Ends recipients that nothing is to be noted of. Tells whether one is with a living process.
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

    /// Ends recipients with a final tag. Tells whether the file has a line about them that a sender wants.
    ///
    /// Fails with [`ErrorKind::ResourceBusy`] if a living process has one of them; the others have ended then.
    /// After any error it can be tried again.
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
        // An agent may have written such a line itself, while it was taken for one that has ended.
        let is_owed = !lines.is_empty() || candidates.iter().any(|one| one.is_owed);
        for Taken { candidate, tag: was, lock } in taken {
            mark::finish(file, candidate.offset, was, lock, tag)?;
        }
        if is_busy { Err(ErrorKind::ResourceBusy.into()) } else { Ok(is_owed) }
    }
}
