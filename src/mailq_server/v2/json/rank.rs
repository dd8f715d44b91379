//! How a message stands among the others of its ring.

use serde::Serialize;
use zsched_core::rank::{COUNTED, Current, Rank};
use zsched_spool::SpoolId;

/// What goes with a reason for a message that is due where work goes by messages.
#[derive(Serialize)]
pub struct Ranked {
    /// File and line of `slot-cost` or `job-order`.
    line: String,
    /// Messages before it; 1000 is that or more.
    before: usize,
    /// 0 to 9, 0 first.
    priority: u8,
    /// Destinations (or packets) of it that are due in the ring.
    due: u32,
    /// Slots it has earned and not spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<f64>,
    /// Nothing of it may be given to an agent.
    blocked: bool,
    /// How many messages have preempted it.
    preempted_by: u32,
    /// It has preempted another one.
    has_preempted: bool,
    /// Which that is, if it is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// Whose turn it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<Turn>,
}

/// The message whose turn it is.
#[derive(Serialize)]
struct Turn {
    id: String,
    due: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<f64>,
    /// With so many slots it could be preempted by the one that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<f64>,
    /// Who is to preempt it next.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<String>,
}

impl From<&Rank> for Ranked {
    fn from(rank: &Rank) -> Ranked {
        let job = &rank.job;
        let parent = job.has_preempted;
        Ranked {
            line: rank.line.to_string(),
            before: job.before.min(COUNTED),
            priority: rank.priority,
            due: job.due,
            slots: job.slots,
            blocked: job.is_blocked,
            preempted_by: job.preempted_by,
            has_preempted: parent.is_some(),
            parent: parent.flatten().map(|parent| parent.to_string()),
            current: job.current.as_ref().map(Turn::from),
        }
    }
}

impl From<&Current<SpoolId>> for Turn {
    fn from(current: &Current<SpoolId>) -> Turn {
        Turn {
            id: current.message.to_string(),
            due: current.due,
            slots: current.slots,
            needed: current.needed,
            candidate: current.candidate.map(|candidate| candidate.to_string()),
        }
    }
}
