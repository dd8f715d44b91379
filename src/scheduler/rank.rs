//! Why something that is due comes when it does, in a ring whose work goes by messages.

use super::Scheduler;
use super::jobs;
use super::message::MessageId;
use super::vertex::{Place, VertexId};
use crate::config::Place as Line;
use crate::spool::SpoolId;

pub use jobs::COUNTED;

/// How a message stands among the others of a ring: what `jobs::rank` says, by names that last.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    /// `slot-cost` or `job-order`.
    pub keyword: &'static str,
    /// Where that is set.
    pub line: Line,
    /// Of the message, 0 to 9, 0 first.
    pub priority: u8,
    /// Messages before it; one more than [`COUNTED`] is that or more.
    pub before: usize,
    /// Destinations (or packets) of it that are due.
    pub due: u32,
    /// Slots it has earned and not spent, less than none if it has been preempted on credit; `None` without
    /// preemption.
    pub slots: Option<f64>,
    /// No agent may be given anything of it, wherever it goes.
    pub is_blocked: bool,
    /// How many messages have preempted it.
    pub preempted_by: u32,
    /// It has preempted a message itself: this one, if that is still there.
    pub has_preempted: Option<Option<SpoolId>>,
    /// Whose turn it is; `None` if everything is blocked.
    pub current: Option<Current>,
}

/// The message whose turn it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Current {
    /// Its name.
    pub id: SpoolId,
    /// It is the one that was asked about.
    pub is_same: bool,
    /// Destinations (or packets) of it that are due.
    pub due: u32,
    /// Slots it has earned and not spent; `None` without preemption.
    pub slots: Option<f64>,
    /// With so many the one that was asked about could preempt it; `None` if that cannot be.
    pub needed: Option<f64>,
    /// Who is to preempt it next, as things stand.
    pub candidate: Option<SpoolId>,
    /// That is the one that was asked about.
    pub is_to_be_preempted_by_it: bool,
}

impl Scheduler {
    /// How the message of a vertex stands in its ring; `None` if the vertex is not due, or the threads of
    /// the ring take turns.
    pub(super) fn rank_of(&self, vertex: VertexId) -> Option<Box<Rank>> {
        let vertex = &self.vertices[vertex];
        let ring = &self.rings[self.threads[vertex.thread].ring];
        let jobs = ring.jobs.as_deref().filter(|_| vertex.place == Place::Due)?;
        let rank = jobs.rank(self.told_at, vertex.message)?;
        let id = |message: MessageId| self.messages[message].spool_id();
        let keyword = if ring.clause.slot_cost > 0 { "slot-cost" } else { "job-order" };
        let current = rank.current.map(|current| Current {
            id: id(current.message),
            is_same: current.message == vertex.message,
            due: current.due,
            slots: current.slots,
            needed: current.needed,
            candidate: current.candidate.map(id),
            is_to_be_preempted_by_it: current.candidate == Some(vertex.message),
        });
        Some(Box::new(Rank {
            keyword,
            line: ring.clause.place_of(keyword),
            priority: self.messages[vertex.message].priority,
            before: rank.before,
            due: rank.due,
            slots: rank.slots,
            is_blocked: rank.is_blocked,
            preempted_by: rank.preempted_by,
            has_preempted: rank.has_preempted.map(|parent| parent.map(id)),
            current,
        }))
    }
}
