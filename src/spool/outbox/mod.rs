//! The outbox: submissions on their way to the router, each of which takes the place of lines of a control file.
//!
//! Either the router has the submission, and the lines are tagged as done, or neither. The lines are
//! locked before anything is written.
//!
//! | step | a crash behind it leaves | at the next start |
//! |---|---|---|
//! | the submission and the list of its lines are on disk | an entry, and no tag | it is discarded |
//! | the tags are written | some or all tags | the rest is written, and the submission published |
//! | the tags are on disk | all tags | it is published |
//! | the submission is moved to `router/`, under the number of its inode | a list alone | it is removed |
//! | the list is removed | nothing | |
//!
//! So the first tag is the decision. The outbox is seen to before locks are cleared and mail is read
//! ([`recover`]): then a tag that is `+` among the lines of an entry was written for the entry. A scheduler
//! that does not know the outbox would deliver to locked recipients of an entry that is decided on: mail
//! is handed back to the original after a clean stop only.

mod folder;
#[cfg(test)]
mod tests;

pub(super) use folder::{Draft, OnDisk, OutboxFolder};
pub use folder::{Recovered, publish_ready, recover_folder, waiting};

use super::SpoolName;
use super::ending::OpenControlFile;
use std::io;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{Tag, mark};
use zsched_format::time::Timestamp;

/// Names a message for good: numbers come again, and its files may be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name when the entry was made.
    pub name: SpoolName,
    /// The inode of its control file.
    pub control: u64,
    /// When its message file was last changed.
    pub modified: Timestamp,
}

/// A submission, and the lines whose place it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode of the submission, and its name in `router/`.
    pub id: u64,
    /// The message that it comes from.
    pub message: Identity,
    /// Offsets of lines of its control file.
    pub lines: Vec<u32>,
}

/// Where entries are, on a disk or simulated.
pub trait Outbox {
    /// What a submission is made of.
    type Draft;
    /// Entries that an earlier attempt has left: those of a message, or all.
    fn entries(&self, message: Option<&Identity>) -> io::Result<Vec<Entry>>;
    /// Makes an entry. It may not be found after a power failure yet.
    fn add(&self, message: &Identity, lines: Vec<u32>, draft: &Self::Draft) -> io::Result<Entry>;
    /// Brings all entries to the disk.
    fn sync(&self) -> io::Result<()>;
    /// Gives the submission to the router.
    fn publish(&self, entry: &Entry) -> io::Result<()>;
    /// Removes what is left of an entry that is published.
    fn forget(&self, entry: &Entry);
    /// Removes an entry, the submission first.
    fn discard(&self, entry: &Entry) -> io::Result<()>;
    /// Keeps a submission to be published whatever becomes of its message.
    fn keep_ready(&self, entry: &Entry) -> io::Result<()>;
    /// Moves an entry to where a person will look at it: its message is gone.
    fn set_aside(&self, entry: &Entry) -> io::Result<()>;
}

/// Hands submissions to the router, each in the place of some lines, which must be locked. After an error it
/// can be tried again, with [`resume`] before.
pub fn hand_over<O: Outbox>(
    file: &impl OpenControlFile,
    outbox: &O,
    message: &Identity,
    submissions: Vec<(Vec<u32>, O::Draft)>,
) -> io::Result<()> {
    let mut entries = Vec::new();
    for (lines, draft) in submissions {
        match outbox.add(message, lines, &draft) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                entries.iter().try_for_each(|entry| outbox.discard(entry))?;
                return Err(error);
            }
        }
    }
    if entries.is_empty() {
        return Ok(());
    }
    outbox.sync()?;
    complete(file, &entries)?;
    for entry in &entries {
        outbox.publish(entry)?;
        outbox.forget(entry);
    }
    Ok(())
}

/// Finishes what an earlier attempt of this scheduler has left of a message.
pub fn resume(
    file: &impl OpenControlFile,
    outbox: &impl Outbox,
    message: &Identity,
) -> io::Result<()> {
    for entry in outbox.entries(Some(message))? {
        if is_decided(file, &entry)? {
            complete(file, std::slice::from_ref(&entry))?;
            outbox.publish(&entry)?;
            outbox.forget(&entry);
        } else {
            outbox.discard(&entry)?;
        }
    }
    Ok(())
}

/// What became of the entries that the former scheduler has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Files that were made visible.
    pub published: usize,
    /// Files that were removed.
    pub discarded: usize,
    /// They are to be published, but could not be.
    pub ready: usize,
    /// Their messages are gone.
    pub aside: usize,
}

/// Finishes what the former scheduler has left. `open` finds the control file of a message. An error means that
/// no mail may be read: what the router gets could be delivered, too.
pub fn recover<F: OpenControlFile>(
    outbox: &impl Outbox,
    mut open: impl FnMut(&Identity) -> io::Result<Option<F>>,
) -> io::Result<Outcome> {
    let mut outcome = Outcome::default();
    for entry in outbox.entries(None)? {
        let Some(file) = open(&entry.message)? else {
            outbox.set_aside(&entry)?;
            outcome.aside += 1;
            continue;
        };
        if !is_decided(&file, &entry)? {
            outbox.discard(&entry)?;
            outcome.discarded += 1;
            continue;
        }
        complete(&file, std::slice::from_ref(&entry))?;
        match outbox.publish(&entry) {
            Ok(()) => {
                outbox.forget(&entry);
                outcome.published += 1;
            }
            Err(_) => {
                outbox.keep_ready(&entry)?;
                outcome.ready += 1;
            }
        }
    }
    Ok(outcome)
}

fn is_decided(file: &impl FileExt, entry: &Entry) -> io::Result<bool> {
    for line in &entry.lines {
        if mark::read_tag(file, *line)?.0 == Tag::Done {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tags all lines as done, and brings that to the disk.
fn complete(file: &impl OpenControlFile, entries: &[Entry]) -> io::Result<()> {
    for line in entries.iter().flat_map(|entry| &entry.lines) {
        let (tag, lock) = mark::read_tag(file, *line)?;
        if tag != Tag::Done {
            let lock = Some(lock).filter(|_| tag == Tag::Locked);
            mark::finish(file, *line, tag, lock, Tag::Done)?;
        }
    }
    file.sync()
}
