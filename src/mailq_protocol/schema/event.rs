//! The events of the feed.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// An event of the feed (`SUBSCRIBE`). Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum QueueEvent<'a> {
    /// A message was accepted.
    Arrived {
        /// Time of the event.
        time: f64,
        /// Its spool id.
        id: String,
        /// Recipients that are not finished.
        recipients: u64,
    },
    /// An agent reported about a recipient, or ended without a report.
    Attempt {
        /// Time of the event.
        time: f64,
        /// The message's spool id.
        id: String,
        /// Channel of its destination.
        channel: Cow<'a, str>,
        /// Host of its destination.
        host: Cow<'a, str>,
        /// Process id of the agent.
        pid: Option<u32>,
        /// Offset of the recipient's line in the control file; the first of several.
        offset: u32,
        /// Number of recipients, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<u64>,
        /// The result: `delivered`, `deferred` or `failed`.
        status: Cow<'a, str>,
        /// Status word of the agent's report; `null` without a report.
        report: Option<Cow<'a, str>>,
        /// Text of the report.
        text: Cow<'a, str>,
    },
    /// A recipient is finished.
    Finished {
        /// Time of the event.
        time: f64,
        /// The message's spool id.
        id: String,
        /// Channel of its destination.
        channel: Cow<'a, str>,
        /// Host of its destination.
        host: Cow<'a, str>,
        /// Offset of the recipient's line in the control file; the first of several.
        offset: u32,
        /// Number of recipients, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<u64>,
        /// `delivered`, `failed`, `expired`, `deleted`, `rerouted` or `found`.
        ///
        /// `found`: the control file shows that another program has finished it.
        state: Cow<'a, str>,
    },
    /// A message has left the spool.
    Left {
        /// Time of the event.
        time: f64,
        /// Its spool id.
        id: String,
    },
    /// An agent was started.
    AgentStarted {
        /// Time of the event.
        time: f64,
        /// Its process id.
        pid: u32,
        /// Its channel.
        channel: Cow<'a, str>,
        /// The first host that it works for.
        host: Option<Cow<'a, str>>,
        /// Pattern of the clause that it serves.
        ring: String,
    },
    /// An agent has ended.
    AgentEnded {
        /// Time of the event.
        time: f64,
        /// Its process id; `null` if it could not be started.
        pid: Option<u32>,
        /// Its channel.
        channel: Cow<'a, str>,
        /// The last host that it worked for.
        host: Option<Cow<'a, str>>,
        /// Pattern of the clause that it served.
        ring: String,
        /// How it ended, as text.
        how: String,
    },
    /// An operator gave an order.
    Order {
        /// Time of the event.
        time: f64,
        /// The operator.
        by: Cow<'a, str>,
        /// The request.
        order: Cow<'a, str>,
    },
    /// A new configuration was loaded.
    Reloaded {
        /// Time of the event.
        time: f64,
    },
    /// Events were lost because the subscriber did not read them in time.
    Dropped {
        /// Number of events.
        count: u64,
    },
    /// An event of a later scheduler.
    #[serde(other, skip_serializing)]
    Unknown,
}
