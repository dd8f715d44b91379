//! Order of due vertices in a ring with jobs, for `mailq why`.

use crate::query::view::{QueuedVertex, View};
use crate::queue::{MessageId, VertexState, jobs};
use zsched_config::SourceLocation;
use zsched_spool::SpoolId;

pub use jobs::{Current, MAX_COUNTED_JOBS};

/// Position of a message among the others of a ring.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRank {
    /// The message.
    pub id: SpoolId,
    /// Its priority, 0 to 9, 0 first.
    pub priority: u8,
    /// `slot-cost` or `job-order`.
    pub keyword: &'static str,
    /// Where the keyword is set.
    pub line: SourceLocation,
    /// Position of its job, and the job that is served now.
    pub job: jobs::Rank<SpoolId>,
}

impl<'s> View<'s> {
    /// The position of a vertex's message in its ring.
    ///
    /// `None` if the vertex is not due, or the threads of the ring take turns.
    pub(super) fn rank_of(self, queued: &QueuedVertex<'_>) -> Option<Box<JobRank>> {
        let QueuedVertex { vertex, message, ring, .. } = queued;
        let jobs = ring.jobs.as_deref().filter(|_| vertex.state == VertexState::Due)?;
        let id = |message: MessageId| self.core.queue.message(message).spool_id();
        let job = jobs.rank(self.core.cx.now, vertex.message, id)?;
        let keyword = if ring.clause.slot_cost > 0 { "slot-cost" } else { "job-order" };
        Some(Box::new(JobRank {
            id: message.spool_id(),
            priority: message.priority,
            keyword,
            line: ring.clause.location_of(keyword),
            job,
        }))
    }
}
