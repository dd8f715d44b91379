//! Worker that writes to the spool and removes from it.

use super::note_writers;
use super::verbose_messages::VerboseMessages;
use super::write_queue::WriteReceiver;
use super::{Completion, CompletionSender};
use crate::logging::mail_log::Composer;
use crate::logging::syslog;
use crate::state::duplicates::DuplicatesFile;
use crate::state::overrides::OverridesJournal;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use zsched_core::overrides::OverrideChange;
use zsched_core::{Note, StatusRecord};
use zsched_spool::move_aside::{self, Reason};
use zsched_spool::removals::RemovalList;
use zsched_spool::remove;
use zsched_spool::tally::{RecipientTally, tally};
use zsched_spool::verbose::VerboseFile;
use zsched_spool::{Spool, SpoolName, load};

/// Request to the writer.
pub(crate) enum WriteRequest {
    /// Append diagnostics to a control file.
    Note(Box<Note>),
    /// Remove a message from the spool; if true, move it aside.
    Remove(SpoolName, bool),
    /// Store changes of the overrides.
    StoreOverrides(Vec<OverrideChange>),
    /// Clear the locks of a dead process.
    ClearLocks(SpoolName, u32),
    /// Compose lines about recipients.
    Status(StatusRecord),
    /// Append a line to the verbose file of a message.
    Verbose(SpoolName, String),
}

impl WriteRequest {
    /// Memory it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        let more = match self {
            WriteRequest::Note(note) => {
                let texts = note.notary.len() + note.message.len();
                size_of::<Note>() + texts + size_of_val(&note.offsets[..])
            }
            // They have a limit of their own, beyond which they are lost: delivery never waits.
            WriteRequest::Status(_) => 0,
            WriteRequest::StoreOverrides(changes) => size_of_val(&changes[..]),
            WriteRequest::Verbose(_, text) => text.len(),
            WriteRequest::Remove(..) | WriteRequest::ClearLocks(..) => 0,
        };
        size_of::<WriteRequest>() + more
    }
}

/// State of the worker.
pub(super) struct Writer {
    pub(super) spool: Spool,
    /// Removals of the present batch.
    pub(super) removals: RemovalList,
    /// True if the last list of removals could be written.
    pub(super) removals_listed: bool,
    pub(super) completions: CompletionSender,
    pub(super) duplicates: Arc<DuplicatesFile>,
    pub(super) composer: Option<Composer>,
    pub(super) verbose: VerboseMessages,
    pub(super) orders: OverridesJournal,
    /// Notes to be written together, before the next removal or batch end.
    pub(super) notes: Vec<Note>,
    /// Lines about recipients, which come after these notes.
    pub(super) lines: Vec<StatusRecord>,
    /// Results to be sent.
    pub(super) portion: Vec<Completion>,
}

impl Writer {
    /// Carries out requests until the queue is closed and empty.
    pub(super) fn run(mut self, requests: &WriteReceiver) {
        requests.for_each_batch(|batch| {
            self.list_removals(&batch);
            batch.into_iter().for_each(|request| self.take(request));
            self.write_notes();
            self.completions.flush(&mut self.portion);
            if let Some(composer) = &mut self.composer {
                composer.flush();
            }
        });
    }

    /// Lists the removals of a batch on disk.
    ///
    /// Where that fails, messages are removed anyway: a full disk needs the room.
    fn list_removals(&mut self, batch: &[WriteRequest]) {
        let names = batch.iter().filter_map(|request| match request {
            WriteRequest::Remove(name, _) => Some(name),
            _ => None,
        });
        let mut names = names.peekable();
        if names.peek().is_none() {
            return;
        }
        let listed = self.removals.write(&self.spool, names);
        if let (Err(error), true) = (&listed, self.removals_listed) {
            let path = self.removals.path().display();
            log::error!(
                "{path}: {error}: message files may be left in queue/ if the scheduler is killed"
            );
        }
        self.removals_listed = listed.is_ok();
    }

    fn take(&mut self, request: WriteRequest) {
        let done = match request {
            WriteRequest::Note(note) => return self.notes.push(*note),
            WriteRequest::Status(record) => return self.lines.push(record),
            WriteRequest::Verbose(name, text) => {
                let file = VerboseFile::of(&self.spool, &name);
                return file.iter().for_each(|file| file.add(&text));
            }
            WriteRequest::Remove(name, aside) => {
                self.write_notes();
                let spool = &self.spool;
                let known = self.composer.as_mut().and_then(|it| it.forget(spool, &name));
                let verbose = known.unwrap_or_else(|| VerboseFile::of(spool, &name));
                let complete = if aside { None } else { complete_line(spool, &name) };
                let removed = remove_message(spool, &name, aside);
                if removed.is_ok() {
                    self.verbose.remove(&name);
                    complete.into_iter().for_each(|line| syslog::event(|| line));
                    verbose.iter().for_each(|file| file.end(&name));
                }
                Completion::Removed(name, removed)
            }
            WriteRequest::StoreOverrides(changes) => {
                Completion::OverridesStored(self.orders.store(changes))
            }
            WriteRequest::ClearLocks(name, pid) => {
                match load::clear_locks(&self.spool, &name, pid, &mut self.duplicates.sink()) {
                    Ok(_) => return,
                    Err(error) => Completion::ClearLocksFailed(name, error),
                }
            }
        };
        // Continues without a receiver: everything requested is written.
        self.completions.add(&mut self.portion, done);
    }

    /// Writes the collected notes and composes the lines. They need the message, so this comes
    /// before its removal.
    fn write_notes(&mut self) {
        if !self.notes.is_empty() {
            let notes = std::mem::take(&mut self.notes);
            note_writers::write_all(&self.spool, notes, &self.completions);
        }
        if let Some(composer) = &mut self.composer {
            self.lines.drain(..).for_each(|record| composer.add(&self.spool, &record));
        }
    }
}

/// The line of the system log about a message that leaves the spool, if it is wanted.
fn complete_line(spool: &Spool, name: &SpoolName) -> Option<String> {
    let tally = syslog::has_events().then(|| tally(spool, name).ok()).flatten()?;
    let RecipientTally { spool_id, recipients, failed, .. } = tally;
    Some(format!("{spool_id}: complete (total {recipients} recipients, {failed} failed)"))
}

fn remove_message(spool: &Spool, name: &SpoolName, aside: bool) -> io::Result<Option<PathBuf>> {
    if aside {
        return move_aside::move_aside(spool, name, Reason::Undeliverable).map(Some);
    }
    remove::remove(spool, name).map(|()| None)
}
