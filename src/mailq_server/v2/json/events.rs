//! `SUBSCRIBE`: the event feed.

use crate::v2::events::SubscriptionFilter;
use crate::v2::task::{Reply, ReplyResult, SessionContext};
use serde::Serialize;

/// An event. Times are seconds since 1970.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum FeedEvent<'a> {
    /// A message was accepted.
    Arrived {
        /// Time of the event.
        time: f64,
        /// Its spool id.
        id: String,
        /// Recipients that are not finished.
        recipients: u32,
    },
    /// An agent reported about a recipient, or ended without a report.
    Attempt {
        /// Time of the event.
        time: f64,
        /// The message's spool id.
        id: String,
        /// Channel of its destination.
        channel: &'a str,
        /// Host of its destination.
        host: &'a str,
        /// Process id of the agent.
        pid: Option<u32>,
        /// Offset of the recipient's line in the control file; the first of several.
        offset: u32,
        /// Number of recipients, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<usize>,
        /// The result: `delivered`, `deferred` or `failed`.
        status: &'a str,
        /// Status word of the agent's report; `null` without a report.
        report: Option<&'a str>,
        /// Text of the report.
        text: &'a str,
    },
    /// A recipient is finished.
    Finished {
        /// Time of the event.
        time: f64,
        /// The message's spool id.
        id: String,
        /// Channel of its destination.
        channel: &'a str,
        /// Host of its destination.
        host: &'a str,
        /// Offset of the recipient's line in the control file; the first of several.
        offset: u32,
        /// Number of recipients, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<usize>,
        /// `delivered`, `failed`, `expired`, `deleted`, `rerouted` or `found`.
        ///
        /// `found`: the control file shows that another program has finished it.
        state: &'a str,
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
        channel: &'a str,
        /// The first host that it works for.
        host: Option<&'a str>,
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
        channel: &'a str,
        /// The last host that it worked for.
        host: Option<&'a str>,
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
        by: &'a str,
        /// The request.
        order: &'a str,
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
}

/// Answers the request.
pub(crate) fn subscribe(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    Ok(Reply::Stream(context.watch.subscribe(SubscriptionFilter::parse(rest)?)))
}
