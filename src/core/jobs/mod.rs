//! The order of work in a ring that goes by messages: jobs, slots, and preemption (the document "Postfix
//! Queue Scheduler", chapters "Preemptive scheduling" ff.; what is the same and what is not is in
//! `docs/scheduling.md`).
//!
//! A *job* is one message in one ring, as long as *entries* of it are due there; an entry is a vertex.
//! Jobs stand in the order in which their messages arrived. The *current* job is the first of them with
//! an entry in a thread that may be served now, that is with *window* to spare; the others in front of
//! it are *blockers*, and passed over. Each entry that is given to an agent earns the current job a
//! part of a *slot*; a smaller job, the *candidate*, may preempt it for as many slots as it has
//! entries. It is moved directly in front of the current job, and stays there.
//!
//! Nothing here goes through all jobs or threads: whatever is decided takes time that grows with the
//! logarithm of their number, and with the number of classes of sizes, of which there are two hundred
//! at most and mostly a few.
//!
//! Of a message that is not in memory as a whole it is told how many recipients are unread. They count as
//! entries of one that wants to preempt another, and not of one that is to be preempted: so nobody gets
//! more than was earned.
//!
//! What it knows of the rest of the core are the numbers of messages, threads and vertices.

mod check;
mod choose;
mod class;
mod index;
mod job;
mod key;
mod queue;
mod rank;

#[cfg(test)]
mod tests;

use super::message::MessageId;
use super::pool::{IdMap, Pool};
use super::thread::ThreadId;
use super::vertex::VertexId;
use class::Class;
use index::Index;
pub use job::Rules;
use job::{Job, JobId};
use key::{Key, Path};
pub use rank::{COUNTED, Current, Rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zsched_format::time::Timestamp;

/// A job that has fewer entries left than half of those it was classed by is classed anew when another
/// becomes the current one; but not if it still has more than this: that would take too long.
const MOST_CLASSED_ANEW: u32 = 512;

/// The jobs of a ring.
#[derive(Serialize, Deserialize)]
pub struct Jobs {
    rules: Rules,
    jobs: Pool<Job>,
    by_message: IdMap<MessageId, JobId>,
    /// All of them in their order.
    order: BTreeSet<Key>,
    /// The entries of jobs that have or had several.
    entries: BTreeSet<(JobId, ThreadId, VertexId)>,
    index: Index,
    /// The job that an entry was selected of last, with its own number; it may be gone.
    last: Option<(JobId, u64)>,
    next_number: u64,
    /// The ring ends, and its threads leave one after the other.
    is_ending: bool,
    /// Whose job has preempted another since that was asked last.
    #[serde(skip)]
    preempting: Option<MessageId>,
}

/// What is known of a message of which entries become due.
#[derive(Clone, Copy)]
pub struct Newcomer {
    /// When it arrived, as far as that decides about its turn.
    pub arrival: Timestamp,
    /// Which of several that came at the same time.
    pub sequence: u64,
    /// How many of its recipients are not in memory, at the most.
    pub unread: u32,
}

impl Jobs {
    pub fn new(rules: Rules) -> Jobs {
        Jobs {
            rules,
            jobs: Pool::new(),
            by_message: IdMap::default(),
            order: BTreeSet::new(),
            entries: BTreeSet::new(),
            index: Index::default(),
            last: None,
            next_number: 0,
            is_ending: false,
            preempting: None,
        }
    }

    /// Entries of a message become due. What is known of it counts if it has no job yet.
    pub fn join(
        &mut self,
        message: MessageId,
        newcomer: Newcomer,
        entries: &[(ThreadId, VertexId)],
    ) {
        if entries.is_empty() || self.is_ending {
            return;
        }
        let count = entries.len() as u32;
        let id = match self.by_message.get(&message) {
            Some(id) => *id,
            None => self.begin(message, newcomer, count),
        };
        let job = &self.jobs[id];
        let (left, size) = (job.left + count, job.size);
        let most = left.saturating_add(job.unread);
        // Of what comes in little by little each entry is moved to another class a few times at most.
        if most >= size.saturating_mul(2) || (most > size && most <= 4) {
            self.class_anew(id, most);
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

    fn begin(&mut self, message: MessageId, newcomer: Newcomer, entries: u32) -> JobId {
        let number = self.next_number;
        self.next_number += 1;
        let Newcomer { arrival, sequence, unread } = newcomer;
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
            ledger: None,
        });
        self.jobs[id].key.job = id;
        self.order.insert(self.jobs[id].key.clone());
        self.by_message.insert(message, id);
        id
    }

    /// So many recipients of a message are not in memory, at the most. A job that turns out to be smaller
    /// than it was thought to be may be a candidate that it was not before.
    pub fn expect(&mut self, message: MessageId, unread: u32) {
        let Some(id) = self.by_message.get(&message).copied().filter(|_| !self.is_ending) else {
            return;
        };
        let job = &mut self.jobs[id];
        job.unread = unread;
        let (most, size) = (job.most_left(), job.size);
        if most >= size.saturating_mul(2) || (most <= size / 2 && job.left <= MOST_CLASSED_ANEW) {
            self.class_anew(id, most);
        }
        self.end_if_done(id);
    }

    /// More is going to be read of a message that has preempted another. Its job keeps its place until
    /// [`expect`](Self::expect) says that nothing more comes.
    pub fn await_more(&mut self, message: MessageId) {
        let id = self.by_message.get(&message);
        let ledger = id.and_then(|id| self.jobs[*id].ledger.as_mut());
        if let Some(fare) = ledger.and_then(|ledger| ledger.fare.as_mut()) {
            fare.awaits_more = true;
        }
    }

    /// The message whose job has preempted another since this was asked last.
    pub fn take_preempting(&mut self) -> Option<MessageId> {
        self.preempting.take()
    }

    /// An entry is due no more, but no agent has got it.
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

    /// An entry is given to an agent.
    pub fn select(&mut self, message: MessageId, thread: ThreadId, vertex: VertexId) {
        let id = self.by_message[&message];
        self.look_at_last(id);
        self.jobs[id].selected += 1;
        self.use_fare(id);
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

    /// The ring ends: all threads are about to leave it, so nothing is chosen any more, and of what a job has left
    /// nobody keeps account.
    pub fn end_all(&mut self) {
        self.is_ending = true;
    }

    /// A thread leaves a ring that ends.
    pub fn forget(&mut self, thread: ThreadId) {
        self.index.forget(thread);
    }

    /// Says whether a thread has window to spare.
    pub fn set_ready(&mut self, thread: ThreadId, is_ready: bool) {
        self.index.set_ready(thread, is_ready);
    }

    /// Another job than the last is the current one. If the last is only blocked, it is smaller now than
    /// it was, and may be a candidate that it was not before.
    fn look_at_last(&mut self, current: JobId) {
        let last = self.last.replace((current, self.jobs[current].number));
        let Some((last, number)) = last.filter(|(last, _)| *last != current) else {
            return;
        };
        let left_behind = self.jobs.get(last).filter(|job| {
            job.number == number
                && job.class != Class::PREEMPTING
                && job.most_left() <= job.size / 2
                && job.left <= MOST_CLASSED_ANEW
        });
        if let Some(left) = left_behind.map(|job| job.most_left()) {
            self.class_anew(last, left);
        }
    }

    fn class_anew(&mut self, id: JobId, size: u32) {
        let job = &mut self.jobs[id];
        job.size = size;
        if job.class != Class::PREEMPTING && job.class != Class::of(size) {
            let key = job.key.clone();
            self.move_entries(id, Class::of(size), key);
        }
    }

    /// Puts all entries of a job under another class and key.
    fn move_entries(&mut self, id: JobId, class: Class, key: Key) {
        let job = &mut self.jobs[id];
        let former = (job.class, std::mem::replace(&mut job.key, key.clone()));
        job.class = class;
        if former.1 != key {
            self.order.remove(&former.1);
            self.order.insert(key.clone());
        }
        for (thread, vertex) in entries_of(&self.jobs[id], &self.entries, id) {
            self.index.remove(thread, former.0, &former.1, vertex);
            self.index.insert(thread, class, key.clone(), vertex);
        }
    }

    /// An entry of a job that has preempted another was given to an agent: its parent has paid for it.
    /// If more have become due than were paid for, the parent pays now.
    fn use_fare(&mut self, id: JobId) {
        let ledger = self.jobs[id].ledger.as_mut();
        let Some(fare) = ledger.and_then(|ledger| ledger.fare.as_mut()) else {
            return;
        };
        fare.used += 1;
        let (fare, is_extra) = (*fare, fare.used > fare.paid);
        let cost = i64::from(self.rules.cost);
        if is_extra && let Some(parent) = self.payer(&fare) {
            parent.ledger_mut().spent += cost;
        }
    }

    /// A job has nothing left. What its parent has paid for and was not used is given back.
    fn end(&mut self, id: JobId) {
        let job = self.jobs.remove(id);
        self.by_message.remove(&job.message);
        self.order.remove(&job.key);
        let Some(fare) = job.fare() else {
            return;
        };
        let unused = i64::from(fare.paid.saturating_sub(fare.used));
        let cost = i64::from(self.rules.cost);
        if let Some(parent) = self.payer(&fare) {
            parent.ledger_mut().spent -= unused * cost;
            parent.children -= 1;
        }
    }

    /// Who has paid for a job, if that job is still there.
    fn payer(&mut self, fare: &job::Fare) -> Option<&mut Job> {
        let parent = self.jobs.get(fare.parent)?;
        let is_it = parent.number == fare.number;
        is_it.then(|| &mut self.jobs[fare.parent])
    }

    /// Whether nothing is due.
    pub fn is_empty(&self) -> bool {
        self.jobs.len() == 0
    }

    fn entries_of(&self, id: JobId) -> impl Iterator<Item = (ThreadId, VertexId)> {
        entries_of(&self.jobs[id], &self.entries, id)
    }
}

/// The entries of a job: the only one it has, or those among the others.
fn entries_of(
    job: &Job,
    entries: &BTreeSet<(JobId, ThreadId, VertexId)>,
    id: JobId,
) -> impl Iterator<Item = (ThreadId, VertexId)> {
    let from = (id, ThreadId::FIRST, VertexId::FIRST);
    let several = entries.range(from..).take_while(move |(of, _, _)| *of == id);
    job.only.into_iter().chain(several.map(|(_, thread, vertex)| (*thread, *vertex)))
}
