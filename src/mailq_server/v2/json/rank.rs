//! The rank of a message among the jobs of its ring.

use serde::Serialize;
use zsched_core::rank::{COUNTED, Current, Rank};
use zsched_spool::SpoolId;

/// The rank of a due message, in a ring that selects work by message.
#[derive(Serialize)]
pub struct RankJson {
    /// File and line of `slot-cost` or `job-order`.
    line: String,
    /// Number of messages before it; 1000 means 1000 or more.
    before: usize,
    /// Priority, 0 to 9; 0 is the most urgent.
    priority: u8,
    /// Its destinations (or packets) that are due in the ring.
    due: u32,
    /// Slots that it has earned and not spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<f64>,
    /// True if none of its destinations may get an agent now.
    blocked: bool,
    /// How many messages have preempted it.
    preempted_by: u32,
    /// True if it has preempted another message.
    has_preempted: bool,
    /// Spool id of the preempted message, if it is still queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The current message of the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<CurrentMessage>,
}

/// The current message of the ring.
#[derive(Serialize)]
struct CurrentMessage {
    id: String,
    due: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<f64>,
    /// Number of slots with which the ranked message could preempt it.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<f64>,
    /// Spool id of the message that is to preempt it next.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<String>,
}

impl From<&Rank> for RankJson {
    fn from(rank: &Rank) -> RankJson {
        let job = &rank.job;
        let parent = job.has_preempted;
        RankJson {
            line: rank.line.to_string(),
            before: job.before.min(COUNTED),
            priority: rank.priority,
            due: job.due,
            slots: job.slots,
            blocked: job.is_blocked,
            preempted_by: job.preempted_by,
            has_preempted: parent.is_some(),
            parent: parent.flatten().map(|parent| parent.to_string()),
            current: job.current.as_ref().map(CurrentMessage::from),
        }
    }
}

impl From<&Current<SpoolId>> for CurrentMessage {
    fn from(current: &Current<SpoolId>) -> CurrentMessage {
        CurrentMessage {
            id: current.message.to_string(),
            due: current.due,
            slots: current.slots,
            needed: current.needed,
            candidate: current.candidate.map(|candidate| candidate.to_string()),
        }
    }
}
