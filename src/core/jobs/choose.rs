//! What an agent gets next: the current job, who preempts it, and which of its entries it is.

use super::Jobs;
use super::class::Class;
use super::index::Seat;
use super::job::{Fare, Job, JobId};
use super::key::Key;
use crate::thread::ThreadId;
use crate::vertex::VertexId;
use std::collections::BTreeSet;
use std::ops::Bound;
use zsched_format::time::Timestamp;

/// So many jobs of a class are looked at that cannot be candidates, before the class is given up.
const LOOKED_AT: usize = 4;
/// So many jobs may preempt one another. With a cost of 2 or more, it takes more entries than fit into
/// memory to come here; with a cost of 1, the chain would have no end.
const DEEPEST: usize = 32;
/// What is added to the age of a job, in nanoseconds: one that has just come has an age, too.
const NEWBORN: u128 = 1_000_000_000;

impl Jobs {
    /// The thread in which the current job has an entry whose turn it is, as things stand: a preemption
    /// may change that.
    pub fn peek(&self) -> Option<ThreadId> {
        let (class, key) = self.index.first().filter(|_| !self.is_ending)?;
        Some(self.index.in_turn(class, key)?.0)
    }

    /// The entry that is to be given to an agent next. This is where preemption happens. Among the
    /// entries of the job, those in the `preferred` thread come first, if that may be served.
    pub fn choose(
        &mut self,
        now: Timestamp,
        preferred: Option<ThreadId>,
    ) -> Option<(ThreadId, VertexId)> {
        let first = self.index.first().filter(|_| !self.is_ending);
        let (mut class, mut key) = first.map(|(class, key)| (class, key.clone()))?;
        if let Some(candidate) = self.preempting(now, key.job) {
            self.preempt(key.job, candidate);
            (class, key) = (Class::PREEMPTING, self.jobs[candidate].key.clone());
        }
        let preferred = preferred.filter(|thread| self.index.is_ready(*thread));
        let preferred = preferred.and_then(|thread| self.entry_in(key.job, thread));
        preferred.or_else(|| self.index.in_turn(class, &key))
    }

    fn entry_in(&self, job: JobId, thread: ThreadId) -> Option<(ThreadId, VertexId)> {
        if let Some(only) = self.jobs[job].only {
            return (only.0 == thread).then_some(only);
        }
        let (of, found, vertex) = self.entries.range((job, thread, VertexId::FIRST)..).next()?;
        ((*of, *found) == (job, thread)).then_some((thread, *vertex))
    }

    /// The job that preempts the current one now, if any does.
    fn preempting(&self, now: Timestamp, current: JobId) -> Option<JobId> {
        let job = &self.jobs[current];
        if job.available() <= 0 || !self.may_be_preempted(job) {
            return None;
        }
        // If it has not earned enough yet, nobody else preempts it either: one that is smaller than the
        // best would always come first.
        let candidate = self.candidate(now, current)?;
        let needed = self.jobs[candidate].most_left();
        self.rules.suffices(job.available(), needed).then_some(candidate)
    }

    /// Whether a job may be preempted when it has earned what that takes.
    pub(super) fn may_be_preempted(&self, job: &Job) -> bool {
        self.rules.cost > 0 && self.rules.is_worth_it(job.total()) && job.key.path.depth() < DEEPEST
    }

    /// How many entries a job will be able to pay for, with what it has and what it will yet earn in any case.
    pub(super) fn most_to_pay(&self, job: &Job) -> i64 {
        (i64::from(job.left) + job.available()) / i64::from(self.rules.cost)
    }

    /// The best of all jobs that the current one will be able to pay for, with what it has and what it
    /// will yet earn in any case: the one that is oldest for its size.
    pub(super) fn candidate(&self, now: Timestamp, current: JobId) -> Option<JobId> {
        let job = &self.jobs[current];
        let most = self.most_to_pay(job);
        // All that come behind the current job arrived later than it, or than the one it has preempted.
        let oldest = age(now, &job.key);
        let mut best: Option<(JobId, u128, u32)> = None;
        for (class, seats) in self.index.classes() {
            let beats = |age: u128, size: u32| {
                best.is_none_or(|(_, best_age, best_size)| {
                    age * u128::from(best_size) > best_age * u128::from(size)
                })
            };
            if i64::from(class.least()) > most || !beats(oldest, class.least()) {
                break;
            }
            let Some(id) = self.oldest_of(seats, current, most) else {
                continue;
            };
            let candidate = &self.jobs[id];
            if beats(age(now, &candidate.key), candidate.size) {
                best = Some((id, age(now, &candidate.key), candidate.size));
            }
        }
        best.map(|(id, _, _)| id)
    }

    /// The oldest of a class that may preempt the current job.
    fn oldest_of(&self, seats: &BTreeSet<Seat>, current: JobId, most: i64) -> Option<JobId> {
        let mut seat = seats.first()?;
        for _ in 0..LOOKED_AT {
            let (id, job) = (seat.key.job, &self.jobs[seat.key.job]);
            if id != current && job.children == 0 && i64::from(job.most_left()) <= most {
                return Some(id);
            }
            let behind = Seat { key: seat.key.clone(), turn: u64::MAX, thread: ThreadId::FIRST };
            seat = seats.range((Bound::Excluded(behind), Bound::Unbounded)).next()?;
        }
        None
    }

    /// Moves a job directly in front of the current one, which pays for all its entries.
    fn preempt(&mut self, current: JobId, candidate: JobId) {
        let entries = self.jobs[candidate].most_left();
        let parent = &mut self.jobs[current];
        let key = Key {
            path: parent.key.path.child(parent.preempted()),
            job: candidate,
            ..parent.key.clone()
        };
        parent.children += 1;
        let ledger = parent.ledger_mut();
        ledger.preempted += 1;
        ledger.spent += i64::from(entries) * i64::from(self.rules.cost);
        let number = parent.number;
        self.move_entries(candidate, Class::PREEMPTING, key);
        let fare = Fare { parent: current, number, paid: entries, used: 0, awaits_more: false };
        self.jobs[candidate].ledger_mut().fare = Some(fare);
        self.preempting = Some(self.jobs[candidate].message);
    }

    /// The jobs, first to last, each with what is left of it. Not for every day: it goes through all.
    pub fn in_order(&self) -> Vec<&Job> {
        let mut jobs: Vec<&Job> = self.jobs.iter().map(|(_, job)| job).collect();
        jobs.sort_by_key(|job| &job.key);
        jobs
    }
}

/// The age of a job in its own right, in nanoseconds.
fn age(now: Timestamp, key: &Key) -> u128 {
    now.since(key.arrival).as_nanos() + NEWBORN
}
