//! What a scheduler tells of itself, as `docs/mailq-protocol.md` describes it.
//!
//! What a scheduler leaves out is taken for nothing: an older one knows less, and the original gives only
//! part of it. What is not known here is passed over.

use serde::Deserialize;

/// The whole queue: `SHOW JSON SUMMARY`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Summary {
    /// The time there, in seconds since 1970.
    pub time: f64,
    /// When the scheduler was started.
    pub started: f64,
    /// Its version.
    pub version: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// Messages in the queue.
    pub messages: u64,
    /// Their recipients that are not final yet.
    pub recipients: u64,
    /// Destinations.
    pub threads: u64,
    /// Destinations on hold.
    pub held_threads: u64,
    /// Messages on hold.
    pub held_messages: u64,
    /// Messages that are not in memory yet.
    pub waiting: u64,
    /// Messages that rest on disk until they are tried again.
    pub resting: u64,
    /// Their recipients.
    pub resting_recipients: u64,
    /// Agents, idle ones too.
    pub agents: u64,
    /// Agents without work.
    pub idle: u64,
    /// Age of the oldest message, in seconds.
    pub oldest: Option<f64>,
    /// Messages that have come since the start.
    pub messages_in: u64,
    /// Messages that have left since the start.
    pub messages_out: u64,
    /// Recipients that have come since the start.
    pub recipients_in: u64,
    /// Recipients that have become final since the start.
    pub recipients_out: u64,
    /// Agents that were started since the start.
    pub agents_started: u64,
    /// What was in the spool at the start is still being read.
    pub loading: bool,
    /// It is about to end.
    pub draining: bool,
    /// It starts no agents.
    pub frozen: bool,
}

/// A destination: a line of `SHOW JSON THREADS`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Thread {
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// The ring, by the pattern of its clause.
    pub ring: Option<String>,
    /// Messages.
    pub messages: u64,
    /// Recipients.
    pub recipients: u64,
    /// Reports of agents on it.
    pub attempts: u64,
    /// Vertices that are to be given to an agent.
    pub due: u64,
    /// Vertices that agents have.
    pub with_agents: u64,
    /// Vertices that wait for the wake-up.
    pub waiting: u64,
    /// Vertices on hold.
    pub held_back: u64,
    /// The agents at work on it.
    pub agents: Vec<AtWork>,
    /// The next attempt, in seconds since 1970.
    pub wakeup: Option<f64>,
    /// Age of the oldest message, in seconds.
    pub oldest: Option<f64>,
    /// Whether all of it is on hold.
    pub held: bool,
    /// Why it waits, in a word.
    pub why: Option<String>,
    /// Which limit it is, where it is one.
    pub refusal: Option<String>,
    /// Which line of the configuration says so.
    pub line: Option<String>,
    /// Why it waits, in a sentence.
    pub sentence: Option<String>,
    /// What an agent said last.
    pub text: Option<String>,
}

/// An agent at work on a destination.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct AtWork {
    /// Its process.
    pub pid: u32,
    /// What it is doing.
    pub state: String,
    /// Jobs it has.
    pub jobs: u64,
}

/// A ring: a line of `SHOW JSON RINGS`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Ring {
    /// The pattern of its clause.
    pub pattern: String,
    /// Its channel.
    pub channel: Option<String>,
    /// Its host, where there is a ring for each host.
    pub host: Option<String>,
    /// The line of its clause.
    pub line: Option<String>,
    /// Destinations.
    pub threads: u64,
    /// Messages.
    pub messages: u64,
    /// Agents, idle ones too.
    pub agents: u64,
    /// Agents without work.
    pub idle: u64,
    /// The most agents.
    pub maxring: Option<u64>,
    /// The most agents for one destination.
    pub maxthr: Option<u64>,
    /// How many jobs more than one an agent is given.
    pub overfeed: Option<u64>,
    /// How agents are started.
    pub command: Option<String>,
}

/// An agent: a line of `SHOW JSON AGENTS`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Agent {
    /// Its process.
    pub pid: u32,
    /// Its channel.
    pub channel: Option<String>,
    /// Its ring.
    pub ring: Option<String>,
    /// What it works on.
    pub thread: Option<String>,
    /// What it is doing.
    pub state: String,
    /// Jobs it has.
    pub jobs: u64,
    /// When it was started, in seconds since 1970; or how long ago.
    pub born: Option<f64>,
    /// How long ago it asked for work, in seconds.
    pub hungry: Option<f64>,
    /// How long ago it was given work, in seconds.
    pub fed: Option<f64>,
}

/// A message with a destination: a line of `SHOW JSON MESSAGES`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Message {
    /// The spool id.
    pub id: String,
    /// The control file.
    pub name: Option<String>,
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// Recipients.
    pub recipients: u64,
    /// How old the message is, in seconds.
    pub age: Option<f64>,
    /// Reports of agents on it.
    pub attempts: u64,
    /// Where it stands.
    pub place: Option<String>,
    /// When it expires, in seconds since 1970.
    pub expires: Option<f64>,
    /// What an agent said last.
    pub text: Option<String>,
}

/// A hold, a limit that was set, or the end of a message: a line of `SHOW JSON ORDERS`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Order {
    /// `hold` or `limit`; or how the message ends.
    pub kind: String,
    /// What it is about.
    pub scope: String,
    /// Whose order it is.
    pub by: Option<String>,
    /// Since when, in seconds since 1970.
    pub since: Option<f64>,
    /// Why.
    pub reason: Option<String>,
    /// Which limit.
    pub limit: Option<String>,
    /// What it is set to.
    pub value: Option<u64>,
    /// Until when, in seconds since 1970.
    pub until: Option<f64>,
}

/// What an order has done.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Outcome {
    /// Messages it is about.
    pub messages: u64,
    /// Recipients it is about.
    pub recipients: u64,
    /// Destinations it is about.
    pub threads: u64,
    /// Recipients that are with agents.
    pub busy: u64,
    /// Messages or destinations that stay on hold.
    pub held: u64,
    /// Agents it is about.
    pub agents: u64,
    /// Whether agents were started.
    pub started: bool,
    /// Whether nothing was done but counting.
    pub dry_run: bool,
}

/// Something that has happened: a line of `SUBSCRIBE`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Happening {
    /// When, in seconds since 1970.
    pub time: Option<f64>,
    /// What.
    pub event: String,
    /// The spool id of the message.
    pub id: Option<String>,
    /// The channel.
    pub channel: Option<String>,
    /// The host.
    pub host: Option<String>,
    /// The agent's process.
    pub pid: Option<u32>,
    /// What has become of an attempt.
    pub status: Option<String>,
    /// How a recipient has ended.
    pub state: Option<String>,
    /// What an agent said.
    pub text: Option<String>,
    /// Recipients of what has arrived.
    pub recipients: Option<u64>,
    /// How many events have been dropped.
    pub count: Option<u64>,
    /// The request of an order.
    pub order: Option<String>,
    /// Whose order it was.
    pub by: Option<String>,
}

impl Thread {
    /// `channel/host`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.channel, self.host)
    }

    /// Why it waits, as people know it: `retry`, `held`, or the name of the limit.
    pub fn reason(&self) -> &str {
        match (self.held, &self.refusal, &self.why) {
            (true, ..) => "held",
            (_, Some(refusal), _) => refusal,
            (_, None, Some(why)) => why,
            (_, None, None) => "",
        }
    }
}

impl Agent {
    /// How long ago it was started, in seconds.
    pub fn age(&self, now: f64) -> Option<f64> {
        /// No agent has been running for so long, in seconds.
        const LONG: f64 = 1e9;
        self.born.map(|born| if born > LONG { now - born } else { born })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_nothing_and_what_is_new_is_passed_over() {
        let read: Thread =
            serde_json::from_str(r#"{"channel":"smtp","host":"a","new":[1],"text":null}"#)
                .expect("JSON");
        assert_eq!(read.name(), "smtp/a");
        assert_eq!((read.messages, read.text, read.wakeup), (0, None, None));
        assert!(serde_json::from_str::<Thread>(r#"{"messages":"many"}"#).is_err());
    }

    #[test]
    fn an_agent_has_an_age() {
        for (born, age) in [(None, None), (Some(5.0), Some(5.0)), (Some(1.5e9), Some(7.0))] {
            let agent = Agent { born, ..Agent::default() };
            assert_eq!(agent.age(1.5e9 + 7.0), age);
        }
    }
}
