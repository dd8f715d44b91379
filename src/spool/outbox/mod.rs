//! The outbox: submissions on their way to the router.
//!
//! Each of them settles lines of a control file: recipients that are rerouted, or `d` lines that
//! are reported ([`SubmissionKind`]). Either the router has the submission and the lines are tagged
//! as done, or neither. Recipients are locked before anything is written; the tag of a `d` line is
//! written by the scheduler only.
//!
//! | step | state after a crash | at the next start |
//! |---|---|---|
//! | submission and list of lines are on disk | an entry without tags | discarded |
//! | the tags are written | some or all tags | the others are written, then published |
//! | the tags are on disk | all tags | published |
//! | the submission is moved to `router/`, named by its inode | only a list | removed |
//! | the list is removed | nothing | |
//!
//! So the first tag is the decision. The outbox is recovered before locks are cleared and mail is
//! read ([`recover`]). At that time a `+` tag among the lines of an entry was certainly written for
//! the entry.
//!
//! A scheduler without an outbox would deliver to locked recipients of a decided entry. So the
//! spool is handed back to the original only after a clean stop.

mod folder;
#[cfg(test)]
mod tests;

pub(crate) use folder::{OnDisk, OutboxFolder, ReroutedMail, SubmissionDraft};
pub use folder::{pending_submissions, publish_ready, recover_folder};

use super::SpoolName;
use super::finalize::OpenControlFile;
use std::io;
use std::os::unix::fs::FileExt;
use zsched_format::control_file::{Tag, mark};
use zsched_format::time::Timestamp;

/// Identifies a message permanently.
///
/// Numbers are reused, and its files may be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageIdentity {
    /// Its name when the entry was created.
    pub name: SpoolName,
    /// The inode of its control file.
    pub control: u64,
    /// Modification time of its message file.
    pub modified: Timestamp,
}

/// What a submission is, and so which lines it settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmissionKind {
    /// Mail that is given back to the router: `r` lines.
    Reroute,
    /// A report to a sender: `d` lines.
    Report,
}

/// A submission, and the lines that it settles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// The inode of the submission, which is also its name in `router/`.
    pub id: u64,
    /// Its modification time, which is part of its spool id.
    pub modified: Timestamp,
    /// The message that it is taken from.
    pub message: MessageIdentity,
    /// What it is.
    pub kind: SubmissionKind,
    /// Offsets of lines of its control file.
    pub lines: Vec<u32>,
}

/// The storage of entries, on disk or simulated.
pub trait Outbox {
    /// The contents of a submission.
    type SubmissionDraft;
    /// Entries that an earlier attempt has left, of one message and kind or all of them.
    fn entries(
        &self,
        of: Option<(&MessageIdentity, SubmissionKind)>,
    ) -> io::Result<Vec<OutboxEntry>>;
    /// Creates an entry. It may be lost after a power failure until [`Outbox::sync`].
    fn add(
        &self,
        of: (&MessageIdentity, SubmissionKind),
        lines: Vec<u32>,
        draft: &Self::SubmissionDraft,
    ) -> io::Result<OutboxEntry>;
    /// Syncs all entries.
    fn sync(&self) -> io::Result<()>;
    /// Gives the submission to the router.
    fn publish(&self, entry: &OutboxEntry) -> io::Result<()>;
    /// Removes the remains of a published entry.
    fn remove_published(&self, entry: &OutboxEntry);
    /// Removes an entry, the submission first.
    fn discard(&self, entry: &OutboxEntry) -> io::Result<()>;
    /// Records that a submission is to be published, even if its message disappears.
    fn mark_ready(&self, entry: &OutboxEntry) -> io::Result<()>;
    /// Moves an entry whose message is gone to `postman/`.
    fn move_to_postman(&self, entry: &OutboxEntry) -> io::Result<()>;
}

/// Hands submissions to the router. Returns their entries.
///
/// Each settles some lines. Recipients must be locked.
///
/// After an error it can be called again, after [`resume`].
pub fn hand_over<O: Outbox>(
    file: &impl OpenControlFile,
    outbox: &O,
    of: (&MessageIdentity, SubmissionKind),
    submissions: Vec<(Vec<u32>, O::SubmissionDraft)>,
) -> io::Result<Vec<OutboxEntry>> {
    let mut entries = Vec::new();
    for (lines, draft) in submissions {
        match outbox.add(of, lines, &draft) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                entries.iter().try_for_each(|entry| outbox.discard(entry))?;
                return Err(error);
            }
        }
    }
    if !entries.is_empty() {
        outbox.sync()?;
        complete(file, &entries)?;
        entries.iter().try_for_each(|entry| publish(outbox, entry))?;
    }
    Ok(entries)
}

/// Finishes what an earlier attempt of this scheduler has left of a message.
///
/// Submissions of the other kind are left alone: they may be under way. Returns the entries that
/// were published.
pub fn resume(
    file: &impl OpenControlFile,
    outbox: &impl Outbox,
    of: (&MessageIdentity, SubmissionKind),
) -> io::Result<Vec<OutboxEntry>> {
    let mut published = Vec::new();
    for entry in outbox.entries(Some(of))? {
        if is_decided(file, &entry)? {
            complete(file, std::slice::from_ref(&entry))?;
            publish(outbox, &entry)?;
            published.push(entry);
        } else {
            outbox.discard(&entry)?;
        }
    }
    Ok(published)
}

/// The entries left by the former scheduler, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxRecovery {
    /// Submissions that were given to the router.
    pub published: usize,
    /// Submissions that were not decided: their recipients are tried as before.
    pub discarded: usize,
    /// Submissions whose messages are gone: they were moved to `postman/`.
    pub aside: usize,
    /// Submissions that cannot be given to the router now.
    pub ready: usize,
}

/// Finishes the entries that the former scheduler has left.
///
/// `open` finds the control file of a message. After an error no mail may be read: mail that the
/// router gets could be delivered, too.
pub fn recover<F: OpenControlFile>(
    outbox: &impl Outbox,
    mut open: impl FnMut(&MessageIdentity) -> io::Result<Option<F>>,
) -> io::Result<OutboxRecovery> {
    let mut outcome = OutboxRecovery::default();
    for entry in outbox.entries(None)? {
        let Some(file) = open(&entry.message)? else {
            outbox.move_to_postman(&entry)?;
            outcome.aside += 1;
            continue;
        };
        if !is_decided(&file, &entry)? {
            outbox.discard(&entry)?;
            outcome.discarded += 1;
            continue;
        }
        complete(&file, std::slice::from_ref(&entry))?;
        if publish(outbox, &entry).is_ok() {
            outcome.published += 1;
        } else {
            outbox.mark_ready(&entry)?;
            outcome.ready += 1;
        }
    }
    Ok(outcome)
}

fn publish(outbox: &impl Outbox, entry: &OutboxEntry) -> io::Result<()> {
    outbox.publish(entry)?;
    outbox.remove_published(entry);
    Ok(())
}

fn is_decided(file: &impl FileExt, entry: &OutboxEntry) -> io::Result<bool> {
    for line in &entry.lines {
        if mark::read_tag(file, *line)?.0 == Tag::Done {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tags all lines as done, and syncs the tags.
fn complete(file: &impl OpenControlFile, entries: &[OutboxEntry]) -> io::Result<()> {
    for entry in entries {
        match entry.kind {
            SubmissionKind::Report => {
                entry.lines.iter().try_for_each(|line| mark::set_reported(file, *line))?;
            }
            SubmissionKind::Reroute => {
                entry.lines.iter().try_for_each(|line| finish_line(file, *line))?;
            }
        }
    }
    file.sync()
}

fn finish_line(file: &impl OpenControlFile, line: u32) -> io::Result<()> {
    let (tag, lock) = mark::read_tag(file, line)?;
    if tag != Tag::Done {
        let lock = Some(lock).filter(|_| tag == Tag::Locked);
        mark::write_final_tag(file, line, tag, lock, Tag::Done)?;
    }
    Ok(())
}
