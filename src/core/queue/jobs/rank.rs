//! Rank of a job among the others, to explain why it waits.

use crate::queue::MessageId;
use crate::queue::jobs::job::{Job, JobId, Prepayment};
use crate::queue::jobs::{Class, Jobs};
use zsched_format::time::Timestamp;

/// Maximum number of jobs in front that are counted.
///
/// For a job that waits longer the number makes no difference.
pub const MAX_COUNTED_JOBS: usize = 1000;
/// Maximum number of entries of a job whose threads are checked.
const MAX_CHECKED_ENTRIES: u32 = 1000;

/// Rank of a message's job. `M` is the name of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank<M> {
    /// Number of jobs in front; more than [`MAX_COUNTED_JOBS`] means that or more.
    pub before: usize,
    /// Number of due entries.
    pub due: u32,
    /// Slots earned and not spent; `None` without preemption.
    ///
    /// Negative if the job was preempted on credit.
    pub slots: Option<f64>,
    /// None of its entries may be served: no window to spare.
    pub is_blocked: bool,
    /// Number of jobs that have preempted it.
    pub preempted_by: u32,
    /// `Some` if it has preempted another job, with the message of that.
    ///
    /// The message is `None` if that job is gone.
    pub has_preempted: Option<Option<M>>,
    /// The current job; `None` if all are blocked.
    pub current: Option<Current<M>>,
}

/// The current job, as seen by a job that waits for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Current<M> {
    /// The message of the job.
    pub message: M,
    /// Number of due entries.
    pub due: u32,
    /// Slots earned and not spent; `None` without preemption.
    pub slots: Option<f64>,
    /// Number of slots at which the waiting job could preempt it.
    ///
    /// `None` if it never can.
    pub needed: Option<f64>,
    /// The job to preempt it next, as things stand.
    pub candidate: Option<M>,
}

impl Jobs {
    /// Returns the rank of a message's job; `None` if it has none.
    ///
    /// `name` returns the name of a message.
    pub fn rank<M>(
        &self,
        now: Timestamp,
        message: MessageId,
        name: impl Fn(MessageId) -> M,
    ) -> Option<Rank<M>> {
        let id = *self.by_message.get(&message).filter(|_| !self.is_ending)?;
        let job = &self.jobs[id];
        let current = self.index.first().map(|(_, key)| key.job);
        let parent =
            |prepayment: Prepayment| self.payer(&prepayment).map(|payer| name(payer.message));
        Some(Rank {
            before: self.order.range(..&job.key).take(MAX_COUNTED_JOBS + 1).count(),
            due: job.left,
            slots: self.slots(job),
            is_blocked: self.is_blocked(id, current),
            preempted_by: job.preempted(),
            has_preempted: job.prepayment().map(parent),
            current: current.map(|current| self.as_seen_by(now, id, current, &name)),
        })
    }

    fn slots(&self, job: &Job) -> Option<f64> {
        let cost = self.rules.cost;
        (cost > 0).then(|| job.available() as f64 / f64::from(cost))
    }

    /// Returns true if none of a job's entries may be served.
    ///
    /// For a large job behind the current one this would require a check of all its threads, so it
    /// returns false.
    fn is_blocked(&self, id: JobId, current: Option<JobId>) -> bool {
        let job = &self.jobs[id];
        match current.map(|current| &self.jobs[current]) {
            None => true,
            Some(current) if job.key < current.key => true,
            Some(_) => {
                job.left <= MAX_CHECKED_ENTRIES
                    && self.entries_of(id).all(|(thread, _)| !self.index.is_ready(thread))
            }
        }
    }

    fn as_seen_by<M>(
        &self,
        now: Timestamp,
        waiting: JobId,
        current: JobId,
        name: impl Fn(MessageId) -> M,
    ) -> Current<M> {
        let (waiting_job, job) = (&self.jobs[waiting], &self.jobs[current]);
        let may_be_preempted = self.may_be_preempted(job);
        let can_preempt = may_be_preempted
            && waiting != current
            && waiting_job.class != Class::PREEMPTING
            && waiting_job.children == 0
            && i64::from(waiting_job.max_left()) <= self.max_payable(job);
        let candidate = may_be_preempted.then(|| self.candidate(now, current)).flatten();
        Current {
            message: name(job.message),
            due: job.left,
            slots: self.slots(job),
            needed: can_preempt.then(|| self.rules.slots_needed(waiting_job.max_left())),
            candidate: candidate.map(|candidate| name(self.jobs[candidate].message)),
        }
    }
}
