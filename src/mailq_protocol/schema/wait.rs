//! What mail waits for.

use serde::{Deserialize, Serialize};

/// The reason for waiting of a destination or a message.
///
/// Fields without a value are omitted, except `text`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// `at-work`, `agent-starting`, `in-line`, `retry`, `request`, `refused`, `suspended`, `held`,
    /// `scheduled`, `kept`, `window`, `pace` or `turn`.
    pub why: String,
    /// File and line of the setting that applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The reason as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Last text of an agent.
    pub text: Option<String>,
    /// `at-work`, `agent-starting`: process id of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// `at-work`: time when the agent got the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<f64>,
    /// `at-work`: time of the agent's last report, or when it got work after a time without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<f64>,
    /// `at-work`: number of jobs of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u64>,
    /// `retry`: time of the next try.
    ///
    /// `pace`: when the next delivery may start.
    ///
    /// `suspended`: when the next agent is started.
    ///
    /// `scheduled`: when its sender allows delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// `retry`: why the destination is known to be unreachable.
    ///
    /// `host-down`, `agent-asked`, `agents-die`, `dead`, `blamed` or `all-deferred`; omitted if it
    /// is not known to be unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// `retry`: the report that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// `refused`: the limit that refuses the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// `in-line`, `refused`, `window`: the limit.
    #[serde(rename = "most", skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// `in-line`, `refused`, `window`: the number in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// `suspended`: number of agents of the ring that failed to start in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// `in-line`: number of messages that come first; 1000 means 1000 or more.
    ///
    /// `refused`: number of rings that come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// `in-line`, `refused`: author of the limit, if it is not from the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<LimitAuthor>,
    /// `window`: the name of the window, if it may be shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_window: Option<String>,
    /// `held`: the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HoldAuthor>,
    /// `scheduled`: the window of the day that its sender has set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day_window: Option<String>,
    /// Rank of its message, in a ring that selects work by message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<Rank>,
}

/// What mail waits for: a line of `SHOW JSON WHY`.
///
/// It is about messages for a destination that wait for the same, or about one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitLine {
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// Number of messages.
    pub messages: u64,
    /// Number of agent reports.
    pub attempts: u64,
    /// Reason for waiting.
    #[serde(flatten)]
    pub wait: Wait,
}

/// What is known about a message as a whole: another line of `SHOW JSON WHY`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageRemark {
    /// `deadline`, `report` or `on-disk`; or `more`, for what the answer leaves out.
    pub why: String,
    /// When it is loaded again, or its deadline.
    pub at: Option<f64>,
    /// A sentence for people.
    pub sentence: String,
}

/// The report that a destination is unreachable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// Process id of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<u32>,
    /// Spool id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time of the report.
    pub at: f64,
    /// Text of the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The author and time of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitAuthor {
    /// User who set it.
    pub by: String,
    /// Time when it was set.
    pub since: f64,
    /// When it ends, if it has an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
}

/// The scope, author and reason of a hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HoldAuthor {
    /// Part of the queue that it applies to.
    pub scope: String,
    /// User who gave the order.
    pub by: String,
    /// Time of the order.
    pub since: f64,
    /// Reason, as the user gave it; may be empty.
    pub reason: String,
}

/// The rank of a due message, in a ring that selects work by message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rank {
    /// File and line of `slot-cost` or `job-order`.
    pub line: String,
    /// Number of messages before it; 1000 means 1000 or more.
    pub before: u64,
    /// Priority, 0 to 9; 0 is the most urgent.
    pub priority: u8,
    /// Its destinations (or packets) that are due in the ring.
    pub due: u32,
    /// Slots that it has earned and not spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<f64>,
    /// True if none of its destinations may get an agent now.
    pub blocked: bool,
    /// Number of messages that have preempted it.
    pub preempted_by: u32,
    /// True if it has preempted another message.
    pub has_preempted: bool,
    /// Spool id of the preempted message, if it is still queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The current message of the ring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<CurrentMessage>,
}

/// The current message of a ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CurrentMessage {
    /// Its spool id.
    pub id: String,
    /// Its destinations (or packets) that are due in the ring.
    pub due: u32,
    /// Slots that it has earned and not spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<f64>,
    /// Number of slots with which the ranked message could preempt it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<f64>,
    /// Spool id of the message that is to preempt it next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
}
