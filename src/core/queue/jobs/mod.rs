//! Order of work in a ring by messages: jobs, slots, preemption.
//!
//! The source is the document "Postfix Queue Scheduler", chapters "Preemptive scheduling" ff. The
//! differences are in `docs/scheduling.md`.
//!
//! A *job* is one message in one ring, while *entries* of it are due there; an entry is a vertex.
//! Jobs are in the order in which their messages arrived. The *current* job is the first one with
//! an entry in a thread that may be served now, that is with *window* to spare. The jobs in front
//! of it are *blockers*, and are passed over. Each entry that is given to an agent earns the
//! current job a part of a *slot*. A smaller job, the *candidate*, may preempt the current job for
//! as many slots as it has entries. It is moved directly in front of the current job, and stays
//! there.
//!
//! No decision visits all jobs or threads. Its cost grows with the logarithm of their number, and
//! with the number of size classes: at most 240, and mostly a few.
//!
//! Of a partial message the number of unread recipients is known. They count as entries of a job
//! that wants to preempt another, but not of a job that is to be preempted. So no job gets more
//! than it has earned.
//!
//! Of the rest of the core this module knows only the numbers of messages, threads and vertices.

mod check;
mod class;
mod index;
mod job;
mod key;
mod preempt;
mod queue;
mod rank;

#[cfg(test)]
mod tests;

use crate::pool::{IdMap, Pool};
use crate::queue::{MessageId, ThreadId, VertexId};
use class::Class;
use index::Index;
pub use job::Rules;
use job::{Job, JobId, Prepayment};
use key::{Key, Path};
pub use rank::{Current, MAX_COUNTED_JOBS, Rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zsched_format::time::Timestamp;

/// Maximum number of due entries of a job that changes its class.
///
/// A job changes its class when it has at most half of the entries that it was classed by, and
/// another job becomes the current one. With more due entries this would take too long.
const MAX_RECLASSIFIED_ENTRIES: u32 = 512;

/// The jobs of a ring.
#[derive(Default, Serialize, Deserialize)]
pub struct Jobs {
    rules: Rules,
    jobs: Pool<Job>,
    by_message: IdMap<MessageId, JobId>,
    /// All jobs, in order.
    order: BTreeSet<Key>,
    /// Entries of jobs that have, or had, several.
    entries: BTreeSet<(JobId, ThreadId, VertexId)>,
    index: Index,
    /// Job of the entry that was selected last, with its unique number.
    ///
    /// The job may be gone.
    last: Option<(JobId, u64)>,
    next_number: u64,
    /// The ring ends, and its threads leave one after the other.
    is_ending: bool,
    /// Message whose job has preempted another since the last [`Jobs::take_preempting`].
    #[serde(skip)]
    preempting: Option<MessageId>,
}

/// An entry: a vertex that is due, with its thread.
pub type Entry = (ThreadId, VertexId);

/// A message of which entries become due.
#[derive(Clone, Copy)]
pub struct NewJob {
    /// Arrival time, adjusted by priority: it decides the place of the job.
    pub arrival: Timestamp,
    /// Order among messages with the same arrival time.
    pub sequence: u64,
    /// Maximum number of its unread recipients.
    pub unread: u32,
}

impl Jobs {
    pub fn new(rules: Rules) -> Jobs {
        Jobs { rules, ..Jobs::default() }
    }

    /// Adds due entries of a message.
    ///
    /// `new_job` is used only if the message has no job yet.
    pub fn join(&mut self, message: MessageId, new_job: NewJob, entries: &[Entry]) {
        if entries.is_empty() || self.is_ending {
            return;
        }
        let count = entries.len() as u32;
        let id = match self.by_message.get(&message) {
            Some(id) => *id,
            None => self.begin(message, new_job, count),
        };
        let job = &self.jobs[id];
        let (left, size) = (job.left + count, job.size);
        let most = left.saturating_add(job.unread);
        // Each entry is moved to another class a few times at most, even if entries come one by
        // one.
        if most >= size.saturating_mul(2) || (most > size && most <= 4) {
            self.reclassify(id, most);
        }
        let job = &mut self.jobs[id];
        job.left = left;
        let (class, key) = (job.class, job.key.clone());
        if let ([only], 1) = (entries, left) {
            job.only = Some(*only);
        } else if let Some((thread, vertex)) = job.only.take() {
            self.entries.insert((id, thread, vertex));
        }
        let is_only = job.only.is_some();
        for (thread, vertex) in entries {
            if !is_only {
                self.entries.insert((id, *thread, *vertex));
            }
            self.index.insert(*thread, class, key.clone(), *vertex);
        }
    }

    fn begin(&mut self, message: MessageId, new_job: NewJob, entries: u32) -> JobId {
        let number = self.next_number;
        self.next_number += 1;
        let NewJob { arrival, sequence, unread } = new_job;
        let size = entries.saturating_add(unread);
        let key = Key { arrival, sequence, path: Path::default(), job: JobId::FIRST };
        let id = self.jobs.insert(Job {
            message,
            number,
            key,
            class: Class::of(size),
            size,
            only: None,
            left: 0,
            unread,
            selected: 0,
            children: 0,
            account: None,
        });
        self.jobs[id].key.job = id;
        self.order.insert(self.jobs[id].key.clone());
        self.by_message.insert(message, id);
        id
    }

    /// Sets the maximum number of unread recipients of a message.
    ///
    /// A job that turns out to be smaller than assumed may become a candidate.
    pub fn expect(&mut self, message: MessageId, unread: u32) {
        let Some(id) = self.by_message.get(&message).copied().filter(|_| !self.is_ending) else {
            return;
        };
        let job = &mut self.jobs[id];
        job.unread = unread;
        let (most, size) = (job.max_left(), job.size);
        if most >= size.saturating_mul(2)
            || (most <= size / 2 && job.left <= MAX_RECLASSIFIED_ENTRIES)
        {
            self.reclassify(id, most);
        }
        self.end_if_done(id);
    }

    /// Keeps the place of a preempting job while its message is read.
    ///
    /// It lasts until [`expect`](Self::expect) reports that nothing more comes.
    pub fn keep_place_while_read(&mut self, message: MessageId) {
        let id = self.by_message.get(&message);
        let account = id.and_then(|id| self.jobs[*id].account.as_mut());
        if let Some(prepayment) = account.and_then(|account| account.prepayment.as_mut()) {
            prepayment.awaits_more = true;
        }
    }

    /// Takes the message whose job has preempted another since the last call.
    pub fn take_preempting(&mut self) -> Option<MessageId> {
        self.preempting.take()
    }

    /// Removes an entry no longer due that was given to no agent.
    pub fn leave(&mut self, message: MessageId, thread: ThreadId, vertex: VertexId) {
        if self.is_ending {
            return;
        }
        let id = self.by_message[&message];
        self.take_out(id, thread, vertex);
        if self.jobs[id].left == 0 {
            self.end(id);
        }
    }

    /// Removes an entry that is given to an agent.
    pub fn select(&mut self, message: MessageId, thread: ThreadId, vertex: VertexId) {
        let id = self.by_message[&message];
        self.reclassify_last(id);
        self.jobs[id].selected += 1;
        self.charge_entry(id);
        self.index.served(thread);
        self.take_out(id, thread, vertex);
        self.end_if_done(id);
    }

    fn end_if_done(&mut self, id: JobId) {
        let job = &self.jobs[id];
        if job.left == 0 && !job.awaits_more() {
            self.end(id);
        }
    }

    fn take_out(&mut self, id: JobId, thread: ThreadId, vertex: VertexId) {
        let job = &mut self.jobs[id];
        job.left -= 1;
        self.index.remove(thread, job.class, &job.key, vertex);
        if self.jobs[id].only.take().is_none() {
            self.entries.remove(&(id, thread, vertex));
        }
    }

    /// Ends the ring: all its threads are about to leave.
    ///
    /// Nothing is chosen from now on, and the entries that jobs have left are no longer counted.
    pub fn close(&mut self) {
        self.is_ending = true;
    }

    /// Removes a thread from a ring that ends.
    pub fn forget(&mut self, thread: ThreadId) {
        self.index.forget(thread);
    }

    /// Records that a thread has window to spare, or has none.
    pub fn set_ready(&mut self, thread: ThreadId, is_ready: bool) {
        self.index.set_ready(thread, is_ready);
    }

    /// Gives the last job a new class when another one becomes current.
    ///
    /// If the last job is only blocked, it is smaller than it was, and may have become a candidate.
    fn reclassify_last(&mut self, current: JobId) {
        let last = self.last.replace((current, self.jobs[current].number));
        let Some((last, number)) = last.filter(|(last, _)| *last != current) else {
            return;
        };
        let left_behind = self.jobs.get(last).filter(|job| {
            job.number == number
                && job.class != Class::PREEMPTING
                && job.max_left() <= job.size / 2
                && job.left <= MAX_RECLASSIFIED_ENTRIES
        });
        if let Some(left) = left_behind.map(|job| job.max_left()) {
            self.reclassify(last, left);
        }
    }

    fn reclassify(&mut self, id: JobId, size: u32) {
        let job = &mut self.jobs[id];
        job.size = size;
        if job.class != Class::PREEMPTING && job.class != Class::of(size) {
            let key = job.key.clone();
            self.move_entries(id, Class::of(size), key);
        }
    }

    /// Moves all entries of a job to another class and key.
    fn move_entries(&mut self, id: JobId, class: Class, key: Key) {
        let job = &mut self.jobs[id];
        let former = (job.class, std::mem::replace(&mut job.key, key.clone()));
        job.class = class;
        if former.1 != key {
            self.order.remove(&former.1);
            self.order.insert(key.clone());
        }
        for (thread, vertex) in self.entries_of(id).collect::<Vec<_>>() {
            self.index.remove(thread, former.0, &former.1, vertex);
            self.index.insert(thread, class, key.clone(), vertex);
        }
    }

    /// Counts an entry of a preempting job given to an agent.
    ///
    /// The parent has paid in advance. If more entries have become due than that, it pays for them
    /// now.
    fn charge_entry(&mut self, id: JobId) {
        let account = self.jobs[id].account.as_mut();
        let Some(prepayment) = account.and_then(|account| account.prepayment.as_mut()) else {
            return;
        };
        prepayment.used += 1;
        let (prepayment, is_extra) = (*prepayment, prepayment.used > prepayment.paid);
        let cost = i64::from(self.rules.cost);
        if is_extra && self.payer(&prepayment).is_some() {
            self.jobs[prepayment.parent].account_mut().spent += cost;
        }
    }

    /// Ends a job, and refunds to its parent what was not used.
    fn end(&mut self, id: JobId) {
        let job = self.jobs.remove(id);
        self.by_message.remove(&job.message);
        self.order.remove(&job.key);
        let Some(prepayment) = job.prepayment() else {
            return;
        };
        let unused = i64::from(prepayment.paid.saturating_sub(prepayment.used));
        let cost = i64::from(self.rules.cost);
        if self.payer(&prepayment).is_some() {
            let parent = &mut self.jobs[prepayment.parent];
            parent.account_mut().spent -= unused * cost;
            parent.children -= 1;
        }
    }

    /// Returns the job that has paid, if it still exists.
    fn payer(&self, prepayment: &Prepayment) -> Option<&Job> {
        let parent = self.jobs.get(prepayment.parent)?;
        (parent.number == prepayment.number).then_some(parent)
    }

    /// Returns the entries of a job: its only one, or several.
    fn entries_of(&self, id: JobId) -> impl Iterator<Item = Entry> {
        let from = (id, ThreadId::FIRST, VertexId::FIRST);
        let several = self.entries.range(from..).take_while(move |(of, _, _)| *of == id);
        let several = several.map(|(_, thread, vertex)| (*thread, *vertex));
        self.jobs[id].only.into_iter().chain(several)
    }
}
