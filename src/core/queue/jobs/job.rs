//! One message in one ring, and its account of slots.

use crate::pool::Id;
use crate::queue::jobs::class::Class;
use crate::queue::jobs::key::Key;
use crate::queue::{MessageId, ThreadId, VertexId};
use serde::{Deserialize, Serialize};
use zsched_config::{Clause, JobOrder};

/// The number of a job.
pub type JobId = Id<Job>;

/// Parameters of preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Number of entries that earn a slot: `slot-cost=`.
    ///
    /// 0 means that there is no preemption.
    pub cost: u32,
    /// Percentage of the slots not needed at first: `slot-discount=`.
    pub discount: u32,
    /// Number of slots not needed at first: `slot-loan=`.
    pub loan: u32,
    /// Minimum number of slots to be earned in all: `minimum-slots=`.
    ///
    /// A job that cannot earn this number is not preempted.
    pub minimum: u32,
}

/// One message in one ring, while entries of it are due there.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// The message of its entries.
    pub message: MessageId,
    /// Unique number: a [`JobId`] is reused.
    pub number: u64,
    /// Its place in the order.
    pub key: Key,
    /// The class of its entries in the index.
    pub class: Class,
    /// Number of entries that it was classed by, unread ones included.
    pub size: u32,
    /// Its entry, if it has only one. Most never have more.
    pub only: Option<(ThreadId, VertexId)>,
    /// Entries that are due.
    pub left: u32,
    /// Maximum number of further entries: unread recipients of its message.
    pub unread: u32,
    /// Number of entries that were given to agents.
    pub selected: u32,
    /// Number of jobs that have preempted it and still exist.
    pub children: u32,
    /// Its account of preemption.
    ///
    /// Most jobs have none: they neither preempt nor are preempted.
    pub account: Option<Box<Account>>,
}

/// Account of a job: its spending, and the payment for it.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Account {
    /// Cost of the jobs that have preempted it, in entries.
    pub spent: i64,
    /// Number of jobs that have ever preempted it.
    pub preempted: u32,
    /// Payment by the job that it has preempted, if any.
    pub prepayment: Option<Prepayment>,
}

/// Payment of a preempted job for the one that preempts it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Prepayment {
    /// The job that has paid; it may be gone.
    pub parent: JobId,
    /// Its unique number: another job may have its id.
    pub number: u64,
    /// Number of entries paid for.
    pub paid: u32,
    /// Number of entries given to agents since.
    pub used: u32,
    /// More of the message is being read.
    ///
    /// The job keeps its place even while nothing of it is due.
    pub awaits_more: bool,
}

impl Rules {
    /// Returns the rules of a clause; `None` if its threads take turns.
    pub fn of(clause: &Clause) -> Option<Rules> {
        let rules = Rules {
            cost: clause.slot_cost,
            discount: clause.slot_discount,
            loan: clause.slot_loan,
            minimum: clause.minimum_slots,
        };
        (clause.job_order == JobOrder::Message || clause.slot_cost > 0).then_some(rules)
    }

    /// Returns true if a job with `total` entries can earn `minimum-slots=`.
    pub fn can_earn_minimum(&self, total: u32) -> bool {
        u64::from(total) >= u64::from(self.minimum) * u64::from(self.cost)
    }

    /// Returns true if the entries earned suffice for a preemption.
    ///
    /// `entries` is what the preempting job has left. Discount and loan only make a preemption
    /// earlier: the whole cost is paid in any case.
    pub fn suffices(&self, available: i64, entries: u32) -> bool {
        let (cost, entries) = (i64::from(self.cost), i64::from(entries));
        let needed = entries * cost * i64::from(100 - self.discount.min(100));
        (available + i64::from(self.loan) * cost).saturating_mul(100) >= needed
    }

    /// Number of slots that suffice, as for [`Rules::suffices`].
    pub fn slots_needed(&self, entries: u32) -> f64 {
        let share = f64::from(100 - self.discount.min(100)) / 100.0;
        (f64::from(entries) * share - f64::from(self.loan)).max(1.0 / f64::from(self.cost.max(1)))
    }
}

impl Job {
    /// Number of entries it has and had, plus those that may come.
    pub fn total(&self) -> u32 {
        self.selected.saturating_add(self.max_left())
    }

    /// Maximum number of entries left: those due, plus those that may come.
    pub fn max_left(&self) -> u32 {
        self.left.saturating_add(self.unread)
    }

    /// Returns true if it keeps its place without due entries.
    pub fn awaits_more(&self) -> bool {
        self.unread > 0 && self.prepayment().is_some_and(|prepayment| prepayment.awaits_more)
    }

    /// What it may still spend: entries given to agents, less the spent.
    pub fn available(&self) -> i64 {
        i64::from(self.selected) - self.account.as_ref().map_or(0, |account| account.spent)
    }

    /// The payment for it, if it has preempted another job.
    pub fn prepayment(&self) -> Option<Prepayment> {
        self.account.as_ref()?.prepayment
    }

    /// Number of jobs that have ever preempted it.
    pub fn preempted(&self) -> u32 {
        self.account.as_ref().map_or(0, |account| account.preempted)
    }

    /// Its account, created on first use.
    pub fn account_mut(&mut self) -> &mut Account {
        self.account.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_takes_at_most_88_bytes() {
        assert!(size_of::<Option<Job>>() <= 88);
    }
}
