//! The simulated outbox, and the steps of the scheduler's writes.
//!
//! The scheduler may be killed between any two steps.

use super::disk::DiskFaults;
use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use zsched_format::control_file::mark;
use zsched_format::time::Timestamp;
use zsched_spool::finalize::OpenControlFile;
use zsched_spool::memory_file::MemoryFile;
use zsched_spool::outbox::{MessageIdentity, Outbox, OutboxEntry, SubmissionKind};

/// The effects of one write on the disk, step by step.
#[derive(Default)]
pub(crate) struct WriteSteps {
    faults: DiskFaults,
    /// Number of steps until the scheduler is killed.
    left: Cell<Option<u32>>,
    random: RefCell<fastrand::Rng>,
}

impl WriteSteps {
    /// Creates a write that is interrupted after its last step, if that is given.
    pub(crate) fn new(faults: DiskFaults, last: Option<u32>, seed: u64) -> WriteSteps {
        let random = RefCell::new(fastrand::Rng::with_seed(seed));
        WriteSteps { faults, left: Cell::new(last), random }
    }

    /// Returns true if the scheduler is killed by now.
    pub(crate) fn is_killed(&self) -> bool {
        self.left.get() == Some(0)
    }

    /// A step that cannot fail. An error means that the scheduler is killed.
    fn step(&self) -> io::Result<()> {
        match self.left.get() {
            Some(0) => Err(ErrorKind::Interrupted.into()),
            left => {
                self.left.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }

    /// A step that may fail.
    pub(crate) fn try_step(&self) -> io::Result<()> {
        self.step()?;
        self.faults.write(&mut self.random.borrow_mut())
    }
}

/// A control file that the scheduler writes to.
pub(crate) struct OpenFile<'s> {
    pub file: Rc<MemoryFile>,
    pub steps: &'s WriteSteps,
}

impl FileExt for OpenFile<'_> {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        // An interrupted write would be retried.
        self.steps.step().map_err(|_| ErrorKind::BrokenPipe)?;
        self.file.write_at(bytes, position)
    }
}

impl OpenControlFile for OpenFile<'_> {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.text().len() as u64)
    }

    fn append(&self, lines: &[u8]) -> io::Result<()> {
        self.steps.faults.need_room()?;
        let length = self.file.text().len() as u64;
        let lines = mark::on_new_line(&*self.file, length, lines)?;
        if self.steps.left.get() == Some(0) {
            // The kill interrupts the write.
            let written = self.steps.random.borrow_mut().usize(0..=lines.len());
            self.file.append(&lines[..written]);
        }
        self.steps.try_step()?;
        self.file.append(&lines);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.steps.try_step()
    }
}

/// The contents of the outbox.
#[derive(Default)]
pub(crate) struct OutboxContents {
    entries: Vec<OutboxEntry>,
    ready: Vec<OutboxEntry>,
    ids: u64,
    /// Lines that the router has a submission for, by file, until they are taken.
    pub published: Vec<(SubmissionKind, u64, u32)>,
}

impl OutboxContents {
    fn remove(&mut self, entry: &OutboxEntry) {
        self.entries.retain(|one| one.id != entry.id);
    }

    fn publish(&mut self, entry: &OutboxEntry) {
        let serial = entry.message.control;
        self.published.extend(entry.lines.iter().map(|line| (entry.kind, serial, *line)));
    }
}

/// The outbox, as the scheduler uses it.
pub(crate) struct OpenOutbox<'s> {
    pub outbox: &'s RefCell<OutboxContents>,
    pub steps: &'s WriteSteps,
}

impl OpenOutbox<'_> {
    /// Publishes ready submissions, as far as possible now.
    pub(crate) fn publish_ready(&self) {
        let mut outbox = self.outbox.borrow_mut();
        for entry in std::mem::take(&mut outbox.ready) {
            match self.steps.try_step() {
                Ok(()) => outbox.publish(&entry),
                Err(_) => outbox.ready.push(entry),
            }
        }
    }
}

impl Outbox for OpenOutbox<'_> {
    type SubmissionDraft = ();

    fn entries(
        &self,
        of: Option<(&MessageIdentity, SubmissionKind)>,
    ) -> io::Result<Vec<OutboxEntry>> {
        let outbox = self.outbox.borrow();
        let is_meant = |entry: &&OutboxEntry| {
            of.is_none_or(|(message, kind)| *message == entry.message && kind == entry.kind)
        };
        Ok(outbox.entries.iter().filter(is_meant).cloned().collect())
    }

    fn add(
        &self,
        (message, kind): (&MessageIdentity, SubmissionKind),
        lines: Vec<u32>,
        (): &(),
    ) -> io::Result<OutboxEntry> {
        self.steps.faults.need_room()?;
        self.steps.try_step()?;
        let mut outbox = self.outbox.borrow_mut();
        outbox.ids += 1;
        let entry = OutboxEntry {
            id: outbox.ids,
            modified: Timestamp::EPOCH,
            message: message.clone(),
            kind,
            lines,
        };
        outbox.entries.push(entry.clone());
        Ok(entry)
    }

    fn sync(&self) -> io::Result<()> {
        self.steps.try_step()
    }

    fn publish(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.steps.try_step()?;
        let mut outbox = self.outbox.borrow_mut();
        outbox.remove(entry);
        outbox.publish(entry);
        Ok(())
    }

    fn remove_published(&self, _entry: &OutboxEntry) {}

    fn discard(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.steps.try_step()?;
        self.outbox.borrow_mut().remove(entry);
        Ok(())
    }

    fn mark_ready(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.steps.try_step()?;
        let mut outbox = self.outbox.borrow_mut();
        outbox.remove(entry);
        match entry.kind {
            // The message may leave now: what is ready is published sooner or later.
            SubmissionKind::Report => outbox.publish(entry),
            SubmissionKind::Reroute => outbox.ready.push(entry.clone()),
        }
        Ok(())
    }

    fn move_to_postman(&self, entry: &OutboxEntry) -> io::Result<()> {
        self.steps.try_step()?;
        self.outbox.borrow_mut().remove(entry);
        Ok(())
    }
}
