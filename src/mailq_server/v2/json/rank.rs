//! The rank of a message among the jobs of its ring.

use zsched_core::rank::{Current, JobRank, MAX_COUNTED_JOBS};
use zsched_mailq_protocol::schema;
use zsched_spool::SpoolId;

/// Returns the rank as it is sent.
pub(super) fn rank(rank: &JobRank) -> schema::Rank {
    let job = &rank.job;
    let parent = job.has_preempted;
    schema::Rank {
        line: rank.line.to_string(),
        before: job.before.min(MAX_COUNTED_JOBS) as u64,
        priority: rank.priority,
        due: job.due,
        slots: job.slots,
        blocked: job.is_blocked,
        preempted_by: job.preempted_by,
        has_preempted: parent.is_some(),
        parent: parent.flatten().map(|parent| parent.to_string()),
        current: job.current.as_ref().map(current),
    }
}

fn current(current: &Current<SpoolId>) -> schema::CurrentMessage {
    schema::CurrentMessage {
        id: current.message.to_string(),
        due: current.due,
        slots: current.slots,
        needed: current.needed,
        candidate: current.candidate.map(|candidate| candidate.to_string()),
    }
}
