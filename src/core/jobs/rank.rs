//! How a job stands among the others: for those who ask why it waits.

use super::job::{Job, JobId};
use super::{Class, Jobs};
use crate::message::MessageId;
use zsched_format::time::Timestamp;

/// So many jobs before one are counted. For whoever waits longer it makes no difference.
pub const COUNTED: usize = 1000;
/// Jobs with up to so many entries are asked whether any of these may be served.
const ASKED: u32 = 1000;

/// How the job of a message stands. `M` is what messages are called.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rank<M = MessageId> {
    /// Jobs before it; one more than [`COUNTED`] is that or more.
    pub before: usize,
    /// Entries of it that are due.
    pub due: u32,
    /// Slots it has earned and not spent; less than none if it has been preempted on credit. `None`
    /// without preemption.
    pub slots: Option<f64>,
    /// None of its entries may be served: their threads have no window to spare.
    pub is_blocked: bool,
    /// How many jobs have preempted it.
    pub preempted_by: u32,
    /// It has preempted another one itself: that of this message, if that is still there.
    pub has_preempted: Option<Option<M>>,
    /// The current job; `None` if all are blocked.
    pub current: Option<Current<M>>,
}

/// The current job, as one sees it that waits for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Current<M = MessageId> {
    /// Whose job it is.
    pub message: M,
    /// Entries of it that are due.
    pub due: u32,
    /// Slots it has earned and not spent. `None` without preemption.
    pub slots: Option<f64>,
    /// With so many slots it could be preempted by the one that waits; `None` if that cannot be.
    pub needed: Option<f64>,
    /// Who is to preempt it next, as things stand.
    pub candidate: Option<M>,
}

impl<M> Rank<M> {
    /// The same, with other names of messages.
    pub fn named<N>(self, name: impl Fn(M) -> N) -> Rank<N> {
        let Rank { before, due, slots, is_blocked, preempted_by, has_preempted, current } = self;
        let has_preempted = has_preempted.map(|parent| parent.map(&name));
        let current = current.map(|Current { message, due, slots, needed, candidate }| Current {
            message: name(message),
            due,
            slots,
            needed,
            candidate: candidate.map(&name),
        });
        Rank { before, due, slots, is_blocked, preempted_by, has_preempted, current }
    }
}

impl Jobs {
    /// How the job of a message stands; `None` if nothing of it is due.
    pub fn rank(&self, now: Timestamp, message: MessageId) -> Option<Rank> {
        let id = *self.by_message.get(&message).filter(|_| !self.is_ending)?;
        let job = &self.jobs[id];
        let current = self.index.first().map(|(_, key)| key.job);
        let parent = |fare: super::job::Fare| {
            let parent = self.jobs.get(fare.parent).filter(|parent| parent.number == fare.number);
            parent.map(|parent| parent.message)
        };
        Some(Rank {
            before: self.order.range(..&job.key).take(COUNTED + 1).count(),
            due: job.left,
            slots: self.slots(job),
            is_blocked: self.is_blocked(id, current),
            preempted_by: job.preempted(),
            has_preempted: job.fare().map(parent),
            current: current.map(|current| self.seen_from(now, id, current)),
        })
    }

    fn slots(&self, job: &Job) -> Option<f64> {
        let cost = self.rules.cost;
        (cost > 0).then(|| job.available() as f64 / f64::from(cost))
    }

    /// Of a large job behind the current one nobody knows without asking all its threads: then it is not.
    fn is_blocked(&self, id: JobId, current: Option<JobId>) -> bool {
        let job = &self.jobs[id];
        match current.map(|current| &self.jobs[current]) {
            None => true,
            Some(current) if job.key < current.key => true,
            Some(_) => {
                job.left <= ASKED
                    && self.entries_of(id).all(|(thread, _)| !self.index.is_ready(thread))
            }
        }
    }

    fn seen_from(&self, now: Timestamp, waiting: JobId, current: JobId) -> Current {
        let (waiting_job, job) = (&self.jobs[waiting], &self.jobs[current]);
        let may_be_preempted = self.may_be_preempted(job);
        let can_preempt = may_be_preempted
            && waiting != current
            && waiting_job.class != Class::PREEMPTING
            && waiting_job.children == 0
            && i64::from(waiting_job.most_left()) <= self.most_to_pay(job);
        let candidate = may_be_preempted.then(|| self.candidate(now, current)).flatten();
        Current {
            message: job.message,
            due: job.left,
            slots: self.slots(job),
            needed: can_preempt.then(|| self.rules.slots_needed(waiting_job.most_left())),
            candidate: candidate.map(|candidate| self.jobs[candidate].message),
        }
    }
}
