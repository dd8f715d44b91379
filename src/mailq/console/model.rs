//! The objects that a scheduler sends; see [`zsched_mailq_protocol::schema`].

use serde::Deserialize;
pub(super) use zsched_mailq_protocol::schema::{
    ActiveAgent, AgeStatus, AgentStatus, ConfigStatus, LimitChange, OrderResult, OverrideStatus,
    QueuedMessage, RecentCounts, RingStatus, Summary, ThreadStatus, Wait,
};

/// An event: a line of the answer to `SUBSCRIBE`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub(super) struct QueueEvent {
    /// Time, in seconds since 1970.
    pub time: Option<f64>,
    /// Kind of event.
    pub event: String,
    /// The spool id of the message.
    pub id: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// Process id of the agent.
    pub pid: Option<u32>,
    /// Offset of the recipient's line in the control file.
    pub offset: Option<u32>,
    /// Result of an attempt.
    pub status: Option<String>,
    /// Final state of a recipient.
    pub state: Option<String>,
    /// Text of an agent.
    pub text: Option<String>,
    /// Number of recipients of an arrived message.
    pub recipients: Option<u64>,
    /// Number of events that were dropped.
    pub count: Option<u64>,
    /// Request line of an order.
    pub order: Option<String>,
    /// User who gave the order.
    pub by: Option<String>,
}
