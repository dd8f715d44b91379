//! The JSON objects of MAILQ version 2, as `docs/mailq-protocol.md` describes them.
//!
//! The server writes them, the client reads them. Fields that are missing have default values:
//! older schedulers send fewer fields, and the reports of ZMailer's schedulers have only part of
//! them. Unknown fields are ignored.
//!
//! Times are seconds since 1970; ages are whole seconds on the wire.

mod event;
mod smtp;
mod wait;

pub use event::QueueEvent;
pub use smtp::{RecentSmtpCounts, SmtpAlarm, SmtpReason, SmtpTraffic};
pub use wait::{
    Cause, CurrentMessage, HoldAuthor, LimitAuthor, MessageRemark, Rank, Wait, WaitLine,
};

use serde::{Deserialize, Serialize, Serializer};

/// The whole queue: `SHOW JSON SUMMARY`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Time at the scheduler, in seconds since 1970.
    pub time: f64,
    /// Start of the scheduler, in seconds since 1970.
    pub started: f64,
    /// Version of the scheduler.
    pub version: Option<String>,
    /// Process id of the scheduler.
    pub pid: Option<u32>,
    /// Messages in the queue.
    pub messages: u64,
    /// Recipients in the queue that are not final yet.
    pub recipients: u64,
    /// Destinations.
    pub threads: u64,
    /// Destinations on hold.
    pub held_threads: u64,
    /// Messages on hold.
    pub held_messages: u64,
    /// Holds of destinations and rings that are in force, also those that no mail has met.
    pub holds: u64,
    /// Recipients that wait for another try, or whose destination is unreachable or has no agents.
    pub undelivered: u64,
    /// Destinations with such recipients.
    pub undelivered_threads: u64,
    /// Messages of the backlog: on disk, and not loaded yet.
    pub waiting: u64,
    /// Paged-out messages: on disk until their next try.
    pub resting: u64,
    /// Recipients of the paged-out messages.
    pub resting_recipients: u64,
    /// Messages whose reports to senders are being sent, or wait for that.
    #[serde(skip_serializing_if = "is_zero")]
    pub reports: u64,
    /// Agents, including idle ones.
    pub agents: u64,
    /// Agents without work.
    pub idle: u64,
    /// Age of the oldest message, in seconds.
    #[serde(serialize_with = "whole_seconds")]
    pub oldest: Option<f64>,
    /// Messages that arrived since the start.
    pub messages_in: u64,
    /// Messages that left since the start.
    pub messages_out: u64,
    /// Recipients that arrived since the start.
    pub recipients_in: u64,
    /// Recipients that have become final since the start.
    pub recipients_out: u64,
    /// Agents that were started since the start of the scheduler.
    pub agents_started: u64,
    /// True while the spool is read after the start.
    pub loading: bool,
    /// True while the scheduler shuts down.
    pub draining: bool,
    /// True if the scheduler starts no agents (option `-F`).
    pub frozen: bool,
    /// The log level, if an operator has set another than that of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// What was counted in the last 1, 5 and 15 minutes.
    pub recent: Vec<RecentCounts>,
    /// What is wrong with the scheduler as a whole, in sentences.
    pub warnings: Vec<String>,
}

/// The configuration on disk: `SHOW JSON CONFIG`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigStatus {
    /// False if a reload would refuse it.
    pub usable: bool,
    /// True if it is the text that the scheduler has loaded.
    pub in_force: bool,
    /// The first errors, with file, line and column.
    pub errors: Vec<String>,
}

/// What was counted in the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentCounts {
    /// The span, in minutes.
    pub minutes: u64,
    /// The part of it since the start of the scheduler, in seconds.
    pub seconds: f64,
    /// Messages that arrived.
    pub messages_in: u64,
    /// Messages that left.
    pub messages_out: u64,
    /// Recipients that arrived.
    pub recipients_in: u64,
    /// Recipients that have become final.
    pub recipients_out: u64,
}

/// A destination: a line of `SHOW JSON THREADS`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadStatus {
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// Pattern of the clause of its ring.
    pub ring: Option<String>,
    /// Messages.
    pub messages: u64,
    /// Recipients.
    pub recipients: u64,
    /// Recipients that were tried and wait for another try.
    pub deferred: u64,
    /// Recipients that cannot be delivered: the deferred ones, or all, if the destination is
    /// unreachable or has no agents.
    pub undelivered: u64,
    /// Number of agent reports.
    pub attempts: u64,
    /// Vertices that are due.
    pub due: u64,
    /// Vertices that are with agents.
    pub with_agents: u64,
    /// Vertices that wait for the wake-up of the destination.
    pub waiting: u64,
    /// Vertices on hold.
    pub held_back: u64,
    /// The agents at work on it.
    pub agents: Vec<ActiveAgent>,
    /// The next attempt, in seconds since 1970.
    pub wakeup: Option<f64>,
    /// Age of the oldest message, in seconds.
    #[serde(serialize_with = "whole_seconds")]
    pub oldest: Option<f64>,
    /// True if the whole destination is on hold.
    pub held: bool,
    /// Maximum number of agents.
    pub max_agents: u64,
    /// Number of agents that may work on it now.
    pub window: u64,
    /// Name of its window, if it may be shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_name: Option<String>,
    /// Reason for waiting.
    #[serde(flatten)]
    pub wait: Option<Wait>,
}

/// An agent at work on a destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActiveAgent {
    /// Process id.
    pub pid: u32,
    /// State of the agent.
    pub state: String,
    /// Number of jobs it has.
    pub jobs: u64,
}

/// Upper limits of ages in `SHOW JSON AGES`, in minutes, as in Postfix's `qshape`.
pub const AGE_LIMITS: [u64; 9] = [5, 10, 20, 40, 80, 160, 320, 640, 1280];

/// Recipients by age: a line of `SHOW JSON AGES`. The first line is the total.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgeStatus {
    /// The channel; `None` for the total.
    pub channel: Option<String>,
    /// The host; `None` for the total.
    pub host: Option<String>,
    /// Recipients of any age.
    pub recipients: u64,
    /// Upper limits of the ages, in minutes.
    pub minutes: Vec<u64>,
    /// Recipients younger than each limit and not than the one before; the last number is the rest.
    pub ages: Vec<u64>,
}

/// A bulk job that is not finished: a line of `SHOW JSON JOBS`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BulkJobStatus {
    /// Its name.
    pub id: String,
    /// The name of the list.
    pub list: Option<String>,
    /// `running`, `scheduled`, `paused`, `kept`, `receiving`, `retries`, `lost`, `cancelling` or
    /// `disk-error`.
    pub state: String,
    /// When a job that is scheduled or has a disk error goes on.
    pub until: Option<f64>,
    /// All recipients.
    pub recipients: u64,
    /// Delivered recipients.
    pub delivered: u64,
    /// Recipients that have failed or expired.
    pub failed: u64,
    /// Recipients of packets in `postman/`.
    pub aside: u64,
    /// Recipients that were deleted, rerouted, cancelled, too late or given up.
    pub dropped: u64,
    /// Recipients whose packet has vanished, and that wait for a decision.
    pub lost: u64,
    /// Recipients that were tried, and are tried again.
    pub deferred: u64,
    /// Recipients that agents have.
    pub at_work: u64,
    /// Recipients that are not final.
    pub pending: u64,
    /// Recipients in packets in the queue.
    pub queued: u64,
    /// Packets in the queue.
    pub packets: u64,
    /// Priority of its packets.
    pub priority: u64,
    /// Maximum number of recipients in a packet.
    pub packet_size: u64,
    /// Maximum part of the agents of a destination, in percent.
    pub share: u64,
    /// Recipients that are delivered or fail in a minute, at present.
    pub per_minute: Option<f64>,
    /// When it ends at this rate.
    pub expected_end: Option<f64>,
    /// Destinations with recipients that are in no packet: those with most.
    ///
    /// Only in the answer about one job.
    pub full: Vec<FullDestination>,
}

/// A destination with recipients of a bulk job that are in no packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FullDestination {
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// Recipients of the job that are not in a packet yet.
    pub recipients: u64,
}

/// A ring: a line of `SHOW JSON RINGS`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingStatus {
    /// The pattern of its clause.
    pub pattern: String,
    /// Its channel.
    pub channel: Option<String>,
    /// Host, if each host has its own ring.
    pub host: Option<String>,
    /// Line of its clause in the configuration.
    pub line: Option<String>,
    /// Lines of all clauses that its effective clause combines.
    pub lines: Vec<u32>,
    /// Destinations.
    pub threads: u64,
    /// Messages.
    pub messages: u64,
    /// Agents, including idle ones.
    pub agents: u64,
    /// Agents without work.
    pub idle: u64,
    /// Maximum number of agents.
    pub maxring: Option<u64>,
    /// Maximum number of agents for one destination.
    pub maxthr: Option<u64>,
    /// Number of jobs that an agent is given beyond the first.
    pub overfeed: Option<u64>,
    /// Command line of its agents.
    pub command: Option<String>,
}

/// An agent: a line of `SHOW JSON AGENTS`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentStatus {
    /// Process id.
    pub pid: u32,
    /// Its channel.
    pub channel: Option<String>,
    /// Its ring.
    pub ring: Option<String>,
    /// Destination it works on.
    pub thread: Option<String>,
    /// State of the agent.
    pub state: String,
    /// Number of jobs it has.
    pub jobs: u64,
    /// Start in seconds since 1970, or age in seconds.
    pub born: Option<f64>,
    /// Time since it asked for work, in seconds.
    #[serde(serialize_with = "whole_seconds")]
    pub hungry: Option<f64>,
    /// Time since its last report, in seconds.
    ///
    /// Without any, since its first job.
    ///
    /// `None` without jobs.
    #[serde(serialize_with = "whole_seconds")]
    pub silent: Option<f64>,
    /// Time since it was given work, in seconds.
    #[serde(serialize_with = "whole_seconds")]
    pub fed: Option<f64>,
}

/// A message and one of its destinations: a line of `SHOW JSON MESSAGES`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuedMessage {
    /// The spool id.
    pub id: String,
    /// Name of the control file.
    pub name: Option<String>,
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// Recipients.
    pub recipients: u64,
    /// Age of the message, in seconds.
    #[serde(serialize_with = "whole_seconds")]
    pub age: Option<f64>,
    /// Number of attempts.
    pub attempts: u64,
    /// Delivery state, as a keyword.
    pub place: Option<String>,
    /// Expiry, in seconds since 1970.
    pub expires: Option<f64>,
    /// Last text of an agent.
    pub text: Option<String>,
}

/// A message: the answer to `SHOW JSON MESSAGE`. Its destinations follow, as `destinations`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageStatus {
    /// Its spool id.
    pub id: String,
    /// The number that the names of its files begin with.
    pub number: u64,
    /// The name of its control file.
    pub name: String,
    /// When its message file was modified.
    pub arrived: f64,
    /// When it was routed.
    pub routed: f64,
    /// Seconds since it arrived.
    pub age: i64,
    /// Priority, 0 to 9; 0 is the most urgent.
    pub priority: u8,
    /// Recipients that are not final.
    pub recipients: u32,
    /// All recipients, including final ones.
    pub recipients_in_all: u32,
    /// Recipients that have failed.
    pub failed: u32,
    /// True if the message is held as a whole.
    pub held: bool,
    /// True if all recipients are final, and the message is being removed from the spool.
    pub leaving: bool,
    /// The report to its sender: `planned`, `requested` or `failed`.
    pub report: Option<String>,
    /// The deadline that its sender has set.
    pub deliver_by: Option<f64>,
    /// True if the message fails at the deadline; otherwise its sender gets a report.
    pub deliver_by_returns: Option<bool>,
}

/// A destination of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageDestination {
    /// The channel.
    pub channel: String,
    /// The host.
    pub host: String,
    /// Recipients that are not final.
    pub recipients: u32,
    /// Number of attempts.
    pub attempts: u32,
    /// `due`, `with-agent`, `waiting` or `held`.
    pub place: String,
    /// Expiry, in seconds since 1970.
    pub expires: Option<f64>,
    /// Offsets of the recipients' lines in the control file; at most the first thousand.
    pub offsets: Vec<u32>,
    /// Reason for waiting.
    #[serde(flatten)]
    pub wait: Wait,
}

/// An override in force: a line of `SHOW JSON ORDERS`.
///
/// It is a hold, a limit, or the removal of a message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OverrideStatus {
    /// `hold` or `limit`; or the kind of removal.
    pub kind: String,
    /// Part of the queue that it applies to.
    pub scope: String,
    /// User who gave the order.
    pub by: Option<String>,
    /// Start, in seconds since 1970.
    pub since: Option<f64>,
    /// Reason, as the user gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Value of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// End, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<f64>,
}

/// Result of an order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderResult {
    /// Messages affected.
    pub messages: u64,
    /// Recipients affected.
    pub recipients: u64,
    /// Destinations affected.
    pub threads: u64,
    /// Affected recipients that are with agents.
    pub busy: u64,
    /// Messages or destinations that stay on hold.
    pub held: u64,
    /// Agents affected.
    pub agents: u64,
    /// True if agents were started.
    pub started: bool,
    /// True for a dry run, which only counts.
    pub dry_run: bool,
    /// Messages that are not in memory and were not examined.
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen: u64,
    /// Limits that were set or reset.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitChange>,
}

/// A limit that was set or reset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitChange {
    /// Its keyword.
    pub limit: String,
    /// The value before; `None` is no limit.
    pub old: Option<u64>,
    /// The value now.
    pub new: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn whole_seconds<S: Serializer>(age: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    age.map(|age| age as i64).serialize(serializer)
}

impl ThreadStatus {
    /// `channel/host`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.channel, self.host)
    }

    /// Reason for waiting: `retry`, `held`, or the name of a limit.
    pub fn reason(&self) -> &str {
        match &self.wait {
            _ if self.held => "held",
            Some(Wait { refusal: Some(refusal), .. }) => refusal,
            Some(wait) => &wait.why,
            None => "",
        }
    }

    /// Last text of an agent.
    pub fn text(&self) -> Option<&str> {
        self.wait.as_ref()?.text.as_deref()
    }

    /// Reason for waiting, as a sentence.
    pub fn sentence(&self) -> Option<&str> {
        self.wait.as_ref()?.sentence.as_deref()
    }
}

impl RingStatus {
    /// Its pattern; with `others` of the same pattern also its host, or the lines of its clauses.
    pub fn name(&self, others: bool) -> String {
        let lines = || self.lines.iter().map(u32::to_string).collect::<Vec<String>>().join(", ");
        match &self.host {
            _ if !others => self.pattern.clone(),
            Some(host) => format!("{} for {host}", self.pattern),
            None if self.lines.is_empty() => self.pattern.clone(),
            None => format!("{} (clauses of lines {})", self.pattern, lines()),
        }
    }
}

impl AgentStatus {
    /// Age, in seconds.
    pub fn age(&self, now: f64) -> Option<f64> {
        /// Above this, `born` is a point in time: no agent gets that old.
        const MAX_AGENT_AGE: f64 = 1e9;
        self.born.map(|born| if born > MAX_AGENT_AGE { now - born } else { born })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_with_missing_and_unknown_fields_is_read() {
        let read: ThreadStatus =
            serde_json::from_str(r#"{"channel":"smtp","host":"a","new":[1],"text":null}"#)
                .expect("JSON");
        assert_eq!(read.name(), "smtp/a");
        assert_eq!((read.messages, read.text(), read.wakeup), (0, None, None));
        assert!(serde_json::from_str::<ThreadStatus>(r#"{"messages":"many"}"#).is_err());
    }

    #[test]
    fn number_is_read_as_it_was_written() {
        let written = RecentCounts { seconds: 1.5587172200000001, ..RecentCounts::default() };
        let json = serde_json::to_string(&written).expect("JSON");
        let read: RecentCounts = serde_json::from_str(&json).expect("the same");
        assert_eq!(read, written);
    }

    #[test]
    fn rings_of_one_pattern_have_names_of_their_own() {
        let ring = |host: Option<&str>, lines: &[u32]| RingStatus {
            pattern: "smtp/*".to_string(),
            host: host.map(str::to_string),
            lines: lines.to_vec(),
            ..RingStatus::default()
        };
        for (ring, name) in [
            (ring(None, &[3, 9]), "smtp/* (clauses of lines 3, 9)"),
            (ring(Some("a.test"), &[3]), "smtp/* for a.test"),
            (ring(None, &[]), "smtp/*"),
        ] {
            assert_eq!(ring.name(true), name);
            assert_eq!(ring.name(false), "smtp/*");
        }
    }

    #[test]
    fn agent_age_accepts_start_or_age() {
        for (born, age) in [(None, None), (Some(5.0), Some(5.0)), (Some(1.5e9), Some(7.0))] {
            let agent = AgentStatus { born, ..AgentStatus::default() };
            assert_eq!(agent.age(1.5e9 + 7.0), age);
        }
    }
}
