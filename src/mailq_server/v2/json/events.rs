//! `SUBSCRIBE`: what happens, as it happens.

use crate::v2::answer::{Reply, Surroundings};
use crate::v2::events::Interest;
use serde::Serialize;

/// Something that has happened. Times are seconds since 1970.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Happening<'a> {
    /// A message was taken in.
    Arrived {
        /// When.
        time: f64,
        /// Its spool id.
        id: String,
        /// Recipients to do.
        recipients: u32,
    },
    /// An agent has reported about a recipient, or has not.
    Attempt {
        /// When.
        time: f64,
        /// The message's spool id.
        id: String,
        /// Where it was to go.
        channel: &'a str,
        /// Where it was to go.
        host: &'a str,
        /// The agent's process.
        pid: Option<u32>,
        /// Where the recipient's line is in the control file; of several, the first.
        offset: u32,
        /// How many recipients it is about, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<usize>,
        /// What became of it: `delivered`, `deferred` or `failed`.
        status: &'a str,
        /// The word of the agent's report; `null` if it has not made one.
        report: Option<&'a str>,
        /// What the agent said.
        text: &'a str,
    },
    /// A recipient is done.
    Finished {
        /// When.
        time: f64,
        /// The message's spool id.
        id: String,
        /// Where it was to go.
        channel: &'a str,
        /// Where it was to go.
        host: &'a str,
        /// Where the recipient's line is in the control file; of several, the first.
        offset: u32,
        /// How many recipients it is about, if more than one.
        #[serde(skip_serializing_if = "Option::is_none")]
        recipients: Option<usize>,
        /// `delivered`, `failed`, `expired`, `deleted`, `rerouted`, or `found`: the control file says that
        /// somebody else has finished it.
        state: &'a str,
    },
    /// A message has left the spool.
    Left {
        /// When.
        time: f64,
        /// Its spool id.
        id: String,
    },
    /// An agent was started.
    AgentStarted {
        /// When.
        time: f64,
        /// Its process.
        pid: u32,
        /// Its channel.
        channel: &'a str,
        /// The host that it works for first.
        host: Option<&'a str>,
        /// The pattern of the clause that it serves.
        ring: String,
    },
    /// An agent has ended.
    AgentEnded {
        /// When.
        time: f64,
        /// Its process; `null` if it could not be started.
        pid: Option<u32>,
        /// Its channel.
        channel: &'a str,
        /// The host that it worked for last.
        host: Option<&'a str>,
        /// The pattern of the clause that it served.
        ring: String,
        /// How, for people.
        how: String,
    },
    /// An operator has ordered something.
    Order {
        /// When.
        time: f64,
        /// Who.
        by: &'a str,
        /// The request.
        order: &'a str,
    },
    /// There is a new configuration.
    Reloaded {
        /// When.
        time: f64,
    },
    /// There were events that could not be told in time.
    Dropped {
        /// How many.
        count: u64,
    },
}

/// Answers the request.
pub fn subscribe(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    match Interest::parse(rest) {
        Ok(interest) => Reply::Stream(around.watch.subscribe(interest)),
        Err(wrong) => Reply::Wrong(wrong),
    }
}
