//! The entry that an agent gets next: current job, preemption, choice.

use crate::queue::jobs::class::Class;
use crate::queue::jobs::index::VisibleEntry;
use crate::queue::jobs::job::{Job, JobId, Prepayment};
use crate::queue::jobs::key::Key;
use crate::queue::jobs::{Entry, Jobs};
use crate::queue::{ThreadId, VertexId};
use std::collections::BTreeSet;
use std::ops::Bound;
use zsched_format::time::Timestamp;

/// Maximum number of jobs per class that are tried as candidates.
const MAX_TRIED_PER_CLASS: usize = 4;
/// Maximum depth of a chain of jobs that preempt one another.
///
/// With a slot cost of 2 or more, it takes more entries than fit into memory to reach it. With a
/// cost of 1 the chain would have no end.
const MAX_PREEMPTION_DEPTH: usize = 32;
/// Added to the age of a job, in nanoseconds.
///
/// So a job that has just arrived has an age, too.
const MIN_AGE_NANOS: u128 = 1_000_000_000;

impl Jobs {
    /// Returns the thread of the current job's next entry.
    ///
    /// A preemption may change it.
    pub fn peek(&self) -> Option<ThreadId> {
        let (class, key) = self.index.first().filter(|_| !self.is_ending)?;
        Some(self.index.next_entry_of(class, key)?.0)
    }

    /// Chooses the next entry for an agent. Preemption happens here.
    ///
    /// Among the entries of the job, those in the `preferred` thread come first, if it may be
    /// served.
    pub fn choose(&mut self, now: Timestamp, preferred: Option<ThreadId>) -> Option<Entry> {
        let first = self.index.first().filter(|_| !self.is_ending);
        let (mut class, mut key) = first.map(|(class, key)| (class, key.clone()))?;
        if let Some(candidate) = self.preempting(now, key.job) {
            self.preempt(key.job, candidate);
            (class, key) = (Class::PREEMPTING, self.jobs[candidate].key.clone());
        }
        let preferred = preferred.filter(|thread| self.index.is_ready(*thread));
        let preferred = preferred.and_then(|thread| self.entry_in(key.job, thread));
        preferred.or_else(|| self.index.next_entry_of(class, &key))
    }

    fn entry_in(&self, job: JobId, thread: ThreadId) -> Option<Entry> {
        if let Some(only) = self.jobs[job].only {
            return (only.0 == thread).then_some(only);
        }
        let (of, found, vertex) = self.entries.range((job, thread, VertexId::FIRST)..).next()?;
        ((*of, *found) == (job, thread)).then_some((thread, *vertex))
    }

    /// Returns the job that preempts the current one now, if any.
    fn preempting(&self, now: Timestamp, current: JobId) -> Option<JobId> {
        let job = &self.jobs[current];
        if job.available() <= 0 || !self.may_be_preempted(job) {
            return None;
        }
        // If the best candidate costs too much, no other job preempts either. Otherwise a smaller
        // one would always come first.
        let candidate = self.candidate(now, current)?;
        let needed = self.jobs[candidate].max_left();
        self.rules.suffices(job.available(), needed).then_some(candidate)
    }

    /// Returns true if a job may be preempted after earning enough.
    pub(super) fn may_be_preempted(&self, job: &Job) -> bool {
        self.rules.cost > 0
            && self.rules.can_earn_minimum(job.total())
            && job.key.path.depth() < MAX_PREEMPTION_DEPTH
    }

    /// Returns the number of entries that a job can pay for.
    ///
    /// It counts what the job has, and what it will yet earn in any case.
    pub(super) fn max_payable(&self, job: &Job) -> i64 {
        (i64::from(job.left) + job.available()) / i64::from(self.rules.cost)
    }

    /// Returns the best job that the current one can pay for.
    ///
    /// The best one is the oldest for its size.
    pub(super) fn candidate(&self, now: Timestamp, current: JobId) -> Option<JobId> {
        let job = &self.jobs[current];
        let most = self.max_payable(job);
        // All jobs behind the current one arrived later than it, or than the one it has preempted.
        let oldest = age(now, &job.key);
        let mut best: Option<(JobId, u128, u32)> = None;
        for (class, visible) in self.index.classes() {
            let beats = |age: u128, size: u32| {
                best.is_none_or(|(_, best_age, best_size)| {
                    age * u128::from(best_size) > best_age * u128::from(size)
                })
            };
            if i64::from(class.min_size()) > most || !beats(oldest, class.min_size()) {
                break;
            }
            let Some(id) = self.oldest_of(visible, current, most) else {
                continue;
            };
            let candidate = &self.jobs[id];
            if beats(age(now, &candidate.key), candidate.size) {
                best = Some((id, age(now, &candidate.key), candidate.size));
            }
        }
        best.map(|(id, _, _)| id)
    }

    /// Returns the oldest job of a class that may preempt now.
    pub(crate) fn oldest_of(
        &self,
        visible: &BTreeSet<VisibleEntry>,
        current: JobId,
        most: i64,
    ) -> Option<JobId> {
        let mut entry = visible.first()?;
        for _ in 0..MAX_TRIED_PER_CLASS {
            let (id, job) = (entry.key.job, &self.jobs[entry.key.job]);
            if id != current && job.children == 0 && i64::from(job.max_left()) <= most {
                return Some(id);
            }
            let behind = VisibleEntry {
                key: entry.key.clone(),
                last_served: u64::MAX,
                thread: ThreadId::FIRST,
            };
            entry = visible.range((Bound::Excluded(behind), Bound::Unbounded)).next()?;
        }
        None
    }

    /// Moves a job before the current one, which pays its entries.
    fn preempt(&mut self, current: JobId, candidate: JobId) {
        let entries = self.jobs[candidate].max_left();
        let parent = &mut self.jobs[current];
        let key = Key {
            path: parent.key.path.child(parent.preempted()),
            job: candidate,
            ..parent.key.clone()
        };
        parent.children += 1;
        let account = parent.account_mut();
        account.preempted += 1;
        account.spent += i64::from(entries) * i64::from(self.rules.cost);
        let number = parent.number;
        self.move_entries(candidate, Class::PREEMPTING, key);
        let prepayment =
            Prepayment { parent: current, number, paid: entries, used: 0, awaits_more: false };
        self.jobs[candidate].account_mut().prepayment = Some(prepayment);
        self.preempting = Some(self.jobs[candidate].message);
    }
}

/// Age of a job by its key, in nanoseconds.
fn age(now: Timestamp, key: &Key) -> u128 {
    now.since(key.arrival).as_nanos() + MIN_AGE_NANOS
}
