//! Worker that writes to the spool and removes from it.

use super::note_writers;
use super::remover::Removal;
use super::verbose_messages::VerboseMessages;
use super::write_queue::WriteReceiver;
use super::{Completion, CompletionSender};
use crate::logging::mail_log::Composer;
use crate::logging::syslog;
use crate::state::duplicates::DuplicatesFile;
use crate::state::overrides::OverridesJournal;
use std::sync::Arc;
use zsched_bulk::status::{OpenTags, PacketEnd, StatusWriter};
use zsched_core::bulk::BulkEvent;
use zsched_core::overrides::OverrideChange;
use zsched_core::{Note, StatusRecord};
use zsched_format::time::Timestamp;
use zsched_spool::removals::RemovalList;
use zsched_spool::tally::{RecipientTally, tally};
use zsched_spool::verbose::VerboseFile;
use zsched_spool::{Spool, SpoolName, SpoolOpener, load};

/// Request to the writer.
pub(crate) enum WriteRequest {
    /// Append diagnostics to a control file.
    Note(Box<Note>),
    /// Remove a message from the spool.
    Remove {
        name: SpoolName,
        /// Modification time of its message file.
        modified: Timestamp,
        /// Move it to `postman/` instead.
        aside: bool,
    },
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
            WriteRequest::Remove { .. } | WriteRequest::ClearLocks(..) => 0,
        };
        size_of::<WriteRequest>() + more
    }
}

/// State of the worker.
pub(super) struct Writer {
    pub(super) spool: Spool,
    pub(super) opener: SpoolOpener,
    /// Removals of the present batch.
    pub(super) removals: RemovalList,
    /// True if the last list of removals could be written.
    pub(super) removals_listed: bool,
    pub(super) completions: CompletionSender,
    pub(super) duplicates: Arc<DuplicatesFile>,
    pub(super) composer: Option<Composer>,
    pub(super) verbose: VerboseMessages,
    pub(super) orders: OverridesJournal,
    /// Results to be sent.
    pub(super) portion: Vec<Completion>,
}

/// Parts of a batch of requests that are carried out one after the other.
#[derive(Default)]
struct Plan {
    /// Notes, which are written together.
    notes: Vec<Note>,
    /// Lines about recipients, which come after the notes about these.
    lines: Vec<StatusRecord>,
    /// Messages to be removed; if true, to be moved aside.
    removals: Vec<(SpoolName, bool)>,
}

impl Writer {
    /// Carries out requests until the queue is closed and empty.
    pub(super) fn run(mut self, requests: &WriteReceiver) {
        requests.for_each_batch(|batch| {
            self.list_removals(&batch);
            let mut plan = Plan::default();
            batch.into_iter().for_each(|request| self.take(request, &mut plan));
            note_writers::write_all(&self.spool, plan.notes, &self.completions);
            // A line may need the control file of its message.
            self.compose(&plan.lines);
            self.remove(plan.removals);
            self.completions.flush(&mut self.portion);
        });
    }

    /// Composes lines about recipients for the logs.
    fn compose(&mut self, records: &[StatusRecord]) {
        let Some(composer) = &mut self.composer else { return };
        let open = self.opener.open().ok();
        records.iter().for_each(|record| composer.add(open, record));
        composer.flush();
    }

    /// Lists the removals of a batch on disk.
    ///
    /// Where that fails, messages are removed anyway: a full disk needs the room.
    fn list_removals(&mut self, batch: &[WriteRequest]) {
        let names = batch.iter().filter_map(|request| match request {
            WriteRequest::Remove { name, modified, .. } => Some((name, *modified)),
            _ => None,
        });
        let mut names = names.peekable();
        if names.peek().is_none() {
            return;
        }
        let listed = self.removals.write(names);
        if let (Err(error), true) = (&listed, self.removals_listed) {
            let path = self.removals.path().display();
            log::error!(
                "{path}: {error}: message files may be left in queue/ if the scheduler is killed"
            );
        }
        self.removals_listed = listed.is_ok();
    }

    /// Carries out a request, or adds it to the plan.
    fn take(&mut self, request: WriteRequest, plan: &mut Plan) {
        let done = match request {
            WriteRequest::Note(note) => return plan.notes.push(*note),
            WriteRequest::Status(record) => return plan.lines.push(record),
            WriteRequest::Remove { name, aside, .. } => return plan.removals.push((name, aside)),
            WriteRequest::Verbose(name, text) => {
                let file = VerboseFile::of(&self.spool, &name);
                return file.iter().for_each(|file| file.add(&text));
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

    /// Reads what the lines after a removal need of the message.
    fn prepare_removal(&mut self, (name, aside): (SpoolName, bool)) -> Removal<FinalLines> {
        let spool = &self.spool;
        self.composer.iter_mut().for_each(|composer| composer.forget(&name));
        let verbose = self.verbose.find(name.number());
        let verbose = verbose.and_then(|name| VerboseFile::of(spool, &name));
        let complete = if aside { None } else { complete_line(spool, &name) };
        Removal::new(name, aside, FinalLines { verbose, complete })
    }

    fn remove(&mut self, removals: Vec<(SpoolName, bool)>) {
        let removals = removals.into_iter().map(|removal| self.prepare_removal(removal));
        let mut removals: Vec<_> = removals.collect();
        self.record_results(&mut removals);
        let open = self.opener.open();
        for (name, last, removed) in Removal::carry_out_all(removals, &self.spool, &open) {
            if removed.is_ok() {
                self.verbose.remove(&name);
                last.complete.into_iter().for_each(|line| syslog::event(|| line));
                last.verbose.iter().for_each(|file| file.end(&name));
            }
            self.completions.add(&mut self.portion, Completion::Removed(name, removed));
        }
    }
}

impl Writer {
    /// Records the results of the recipients of packets, before these are removed.
    ///
    /// A packet for which that fails stays.
    fn record_results(&mut self, removals: &mut Vec<Removal<FinalLines>>) {
        let mut status = StatusWriter::new(&self.spool);
        let (mut ends, mut failed) = (Vec::new(), Vec::new());
        removals.retain(|removal| {
            match status.write(&removal.name, OpenTags::of_removal(removal.aside)) {
                Ok(end) => {
                    ends.extend(end.map(|end| (end, removal.name.clone())));
                    true
                }
                Err(error) => {
                    failed.push((removal.name.clone(), error));
                    false
                }
            }
        });
        if let Err(error) = status.sync() {
            let packets = std::mem::take(&mut ends).into_iter();
            failed.extend(packets.map(|(_, name)| (name, error.kind().into())));
            removals.retain(|removal| !failed.iter().any(|(name, _)| *name == removal.name));
        }
        for (name, error) in failed {
            log::error!("{name}: the results of its bulk job cannot be written: {error}");
            self.completions.add(&mut self.portion, Completion::Removed(name, Err(error)));
        }
        for (PacketEnd { number, counts }, _) in ends {
            let event = BulkEvent::PacketEnded { packet: number, counts };
            self.completions.add(&mut self.portion, Completion::Bulk(event));
        }
    }
}

/// What is written about a message after its removal.
struct FinalLines {
    /// Its verbose file.
    verbose: Option<VerboseFile>,
    /// The line of the system log.
    complete: Option<String>,
}

/// The line of the system log about a message that leaves.
///
/// It is sent if the settings ask for it.
fn complete_line(spool: &Spool, name: &SpoolName) -> Option<String> {
    let tally = syslog::has_events().then(|| tally(spool, name).ok()).flatten()?;
    let RecipientTally { spool_id, recipients, failed, .. } = tally;
    Some(format!("{spool_id}: complete (total {recipients} recipients, {failed} failed)"))
}
