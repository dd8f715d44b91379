//! One message in one ring, while entries of it are due there; and what it has earned and spent.

use super::class::Class;
use super::key::Key;
use crate::message::MessageId;
use crate::pool::Id;
use crate::thread::ThreadId;
use crate::vertex::VertexId;
use serde::{Deserialize, Serialize};
use zsched_config::Clause;

/// The number of a job.
pub type JobId = Id<Job>;

/// What preemption costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// So many entries of a job earn a slot: `slot-cost=`. 0 is no preemption.
    pub cost: u32,
    /// How many percent of the slots it may do without at first: `slot-discount=`.
    pub discount: u32,
    /// How many slots it may do without at first: `slot-loan=`.
    pub loan: u32,
    /// A job that cannot earn so many slots in all is not preempted: `minimum-slots=`.
    pub minimum: u32,
}

/// A job.
#[derive(Serialize, Deserialize)]
pub struct Job {
    /// Whose entries they are.
    pub message: MessageId,
    /// Tells it from all others that there ever are, as its [`JobId`] does not.
    pub number: u64,
    /// Its place in the order.
    pub key: Key,
    /// The class it has its entries under.
    pub class: Class,
    /// The number of entries that it was classed by: all that there may be.
    pub size: u32,
    /// Its entry, as long as it has no more than one. Most have never more.
    pub only: Option<(ThreadId, VertexId)>,
    /// Entries that are due.
    pub left: u32,
    /// How many more there may be at the most: recipients of its message that are not in memory.
    pub unread: u32,
    /// Entries that were given to agents.
    pub selected: u32,
    /// How many jobs that have preempted it are still there.
    pub children: u32,
    /// What preemption has done to it; most jobs neither preempt nor are preempted.
    pub ledger: Option<Box<Ledger>>,
}

/// What a job has spent, and what was paid for it.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// What those cost that have preempted it, in entries.
    pub spent: i64,
    /// Jobs that have preempted it, ever.
    pub preempted: u32,
    /// By whom its way was paid, if it has preempted another job.
    pub fare: Option<Fare>,
}

/// What the job that was preempted has paid for the one that preempts it.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Fare {
    /// Where the job is that has paid; it may be gone.
    pub parent: JobId,
    /// Which job that was: another one may have its place.
    pub number: u64,
    /// For so many entries.
    pub paid: u32,
    /// How many have been given to agents since.
    pub used: u32,
    /// More of the message is being read: its job keeps its place even while nothing of it is due.
    pub awaits_more: bool,
}

impl Rules {
    /// Those of a clause; `None` if its threads take turns.
    pub fn of(clause: &Clause) -> Option<Rules> {
        let rules = Rules {
            cost: clause.slot_cost,
            discount: clause.slot_discount,
            loan: clause.slot_loan,
            minimum: clause.minimum_slots,
        };
        (clause.job_order || clause.slot_cost > 0).then_some(rules)
    }

    /// Whether a job of so many entries could ever earn enough to be worth the look.
    pub fn is_worth_it(&self, total: u32) -> bool {
        u64::from(total) >= u64::from(self.minimum) * u64::from(self.cost)
    }

    /// Whether what a job has at its disposal suffices to be preempted by one with so many entries
    /// left. Discount and loan only make that earlier: the whole is paid in any case.
    pub fn suffices(&self, available: i64, entries: u32) -> bool {
        let (cost, entries) = (i64::from(self.cost), i64::from(entries));
        let needed = entries * cost * i64::from(100 - self.discount.min(100));
        (available + i64::from(self.loan) * cost).saturating_mul(100) >= needed
    }

    /// How many slots suffice, as [`Rules::suffices`] has it, to be preempted by a job with so many
    /// entries left.
    pub fn slots_needed(&self, entries: u32) -> f64 {
        let share = f64::from(100 - self.discount.min(100)) / 100.0;
        (f64::from(entries) * share - f64::from(self.loan)).max(1.0 / f64::from(self.cost.max(1)))
    }
}

impl Job {
    /// Entries it has and had since it came, and those that may come.
    pub fn total(&self) -> u32 {
        self.selected.saturating_add(self.most_left())
    }

    /// Entries that it may still have to do: those that are due, and those that may come.
    pub fn most_left(&self) -> u32 {
        self.left.saturating_add(self.unread)
    }

    /// Whether it keeps its place although nothing of it may be due.
    pub fn awaits_more(&self) -> bool {
        self.unread > 0 && self.fare().is_some_and(|fare| fare.awaits_more)
    }

    /// What it may yet spend, in entries: as many as were given to agents, less what was spent.
    pub fn available(&self) -> i64 {
        i64::from(self.selected) - self.ledger.as_ref().map_or(0, |ledger| ledger.spent)
    }

    /// By whom its way was paid, if it has preempted another job.
    pub fn fare(&self) -> Option<Fare> {
        self.ledger.as_ref()?.fare
    }

    /// Jobs that have preempted it, ever.
    pub fn preempted(&self) -> u32 {
        self.ledger.as_ref().map_or(0, |ledger| ledger.preempted)
    }

    /// What is written down of it, now that there is something.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        self.ledger.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_job_is_small() {
        assert!(size_of::<Option<Job>>() <= 88);
    }
}
