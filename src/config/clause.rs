//! The effective clause of a destination, and its draft.

use super::flow::Flow;
use super::table::Keyword;
use super::value::Value;
use super::{AccountKind, AgentCommand, ConfigContext};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::priority::MailPriority;

/// Seconds in a day.
const SECONDS_PER_DAY: u64 = 86_400;
/// Default of `retries`.
const DEFAULT_RETRIES: [u32; 9] = [1, 1, 2, 3, 5, 8, 13, 21, 34];
/// Default of `idlemax`, as a multiple of the clause's interval.
const DEFAULT_IDLE_INTERVALS: u32 = 3;

/// Identifies an effective clause within one configuration.
///
/// Destinations with the same id belong to the same ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClauseId(pub u32);

/// A line of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceLocation {
    /// The path of the file, as it was given.
    #[serde(with = "zsched_format::serde_bytes::path")]
    pub file: Rc<Path>,
    /// The line number, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            // The built-in default, which has no line.
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{}:{line}", self.file.display()),
        }
    }
}

/// The process priority of an agent, or of the scheduler itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Niceness {
    /// Added to that of the parent process (`nice=`, `sysnice=`), −40 to 39.
    Relative(i32),
    /// Absolute (`priority=`, `syspriority=`), −20 to 19.
    Absolute(i32),
}

impl Niceness {
    pub(crate) fn is_relative(&self) -> bool {
        matches!(self, Niceness::Relative(_))
    }

    pub(crate) fn is_absolute(&self) -> bool {
        matches!(self, Niceness::Absolute(_))
    }
}

/// How the next message for an agent is chosen. `job-order`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOrder {
    /// Destinations take turns; inside one, the message that has been due the longest goes first.
    #[default]
    Turns,
    /// One message after the other, whatever their destinations.
    Message,
    /// Destinations take turns; inside one, a random message goes first.
    Random,
}

/// All settings of a destination, with defaults and inherited values filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clause {
    /// Its id within the configuration.
    pub id: ClauseId,
    /// Channel half of the pattern of the deciding clause.
    ///
    /// That is the clause with the command; without one, the last matching clause other than `*/*`;
    /// else `*/*`.
    pub channel_pattern: String,
    /// Host half of the same pattern; `*` if it has none.
    pub host_pattern: String,
    /// Position of the deciding clause.
    pub location: SourceLocation,
    /// Lines of all clauses of the file that it combines.
    pub combined_lines: Vec<u32>,
    /// Time between attempts, to be multiplied by a factor of [`retries`](Clause::retries).
    ///
    /// `interval=`, default 1m, never zero.
    pub interval: Duration,
    /// Maximum time that an agent may be idle. `idlemax=`, default three intervals.
    pub idle_max: Duration,
    /// Age at which a recipient expires, once it has been tried; `None` is never.
    ///
    /// `expiry=`, default 3d; 0 is never.
    pub expiry: Option<Duration>,
    /// Time after [`expiry`](Clause::expiry) at which even an untried recipient expires.
    ///
    /// `expiry2=`, default none (the original then uses a day).
    pub expiry2: Option<Duration>,
    /// Wait before each successive retry, in intervals.
    ///
    /// Never empty; a factor of 0 means "at once". `retries=`, default 1 1 2 3 5 8 13 21 34.
    pub retries: Vec<u32>,
    /// Divisor of the correction that moves a retry time towards a whole interval.
    ///
    /// `skew=`, default 5, at least 1.
    pub skew: u32,
    /// Maximum number of agents in all rings, checked when this clause needs one.
    ///
    /// `None` is as many as the process can have. `maxta=`, default 0, which is `None`.
    pub max_agents: Option<u32>,
    /// Maximum number of agents of the channel. `maxchannel=`, default that of `maxta`.
    pub max_channel: Option<u32>,
    /// Maximum number of agents of the ring. `maxring=`, default that of `maxta`.
    pub max_ring: Option<u32>,
    /// Maximum number of agents of one thread. `maxthr=`, default 1, at least 1.
    pub max_thread: u32,
    /// Maximum number of jobs beyond the first that an agent is fed before it answers.
    ///
    /// `overfeed=`, default 150, 0 to 10,000.
    pub overfeed: u32,
    /// Feed the oldest message first, instead of in random order. `ageorder`, default off.
    pub age_order: bool,
    /// Start no agent until the host is requested (ETRN). `queueonly`, default off.
    pub queue_only: bool,
    /// With [`queue_only`](Clause::queue_only): attempts are made at the times of `interval` and
    /// `retries` as well.
    ///
    /// True if the clause with `queueonly`, or a later one, names either of them.
    pub has_attempts: bool,
    /// A new message starts no further agent for a thread that already has one.
    ///
    /// `wakeuprestartonly`, default off.
    pub wakeup_restart_only: bool,
    /// AgentCommand that starts an agent; `None` leaves the mail queued. `command=`, no default.
    pub command: Option<AgentCommand>,
    /// User id that agents run as; `None` is the scheduler's own.
    ///
    /// `user=`, default root if the scheduler runs as root, else none.
    pub user: Option<u32>,
    /// Group id that agents run as; `None` is the scheduler's own.
    ///
    /// `group=`, default that of `daemon` if the scheduler runs as root and the group exists, else
    /// none.
    pub group: Option<u32>,
    /// Process priority of agents. `nice=` or `priority=`, the last one counts; default none.
    pub nice: Option<Niceness>,
    /// Ages at which failures are reported while other recipients still wait.
    ///
    /// At most four, of which the original uses the first. `reporttimes=`, default none.
    pub report_times: Vec<Duration>,
    /// Name of the form for delivery reports. `deliveryform=`, default none.
    pub delivery_form: Option<String>,
    /// Name of the form for expiry reports. `expiryform=`, default none.
    pub expiry_form: Option<String>,
    /// Time without output after which an agent with work is killed.
    ///
    /// `agent-timeout=`, default 1h, never zero.
    pub agent_timeout: Duration,
    /// Maximum number of recipients of large messages in memory for the clause.
    ///
    /// Applies only if memory is limited. `recipient-limit=`, default 20000.
    pub recipient_limit: u32,
    /// The same in addition, for messages that preempt others.
    ///
    /// `extra-recipient-limit=`, default 1000.
    pub extra_recipient_limit: u32,
    /// More of a message is read when there is room for this number of recipients.
    ///
    /// `refill-limit=`, default 100.
    pub refill_limit: u32,
    /// Time after which more is read even with less room.
    ///
    /// `refill-delay=`, default 5s.
    pub refill_delay: Duration,
    /// Maximum age of an agent. It is retired once its current jobs are done.
    ///
    /// `agent-life=`, default none, never zero.
    pub agent_life: Option<Duration>,
    /// Maximum number of jobs of an agent. It is retired once they are done; `None` is no limit.
    ///
    /// `agent-jobs=`, default 0, which is `None`.
    pub agent_jobs: Option<u32>,
    /// Time after which an idle agent is asked whether it lives; `None` is never.
    ///
    /// `idle-ping=`, default none, never zero.
    pub idle_ping: Option<Duration>,
    /// Maximum number of recipients of a message in one job; 0 is all.
    ///
    /// For agents that accept a list of recipients. `packet=`, default 0.
    pub packet: u32,
    /// Flow control of its destinations.
    pub flow: Flow,
    /// How the next message for an agent is chosen.
    ///
    /// `job-order`, default by turns; a [`slot_cost`](Clause::slot_cost) implies `Message`.
    pub job_order: JobOrder,
    /// Head start that a step of a message's priority gives. `priority-step=`, default 1m.
    pub priority_step: Duration,
    /// Number of deliveries of a message that earn a slot for preempting it; 0 is no preemption.
    ///
    /// `slot-cost=`, default 0.
    pub slot_cost: u32,
    /// Percentage of the required slots that preemption may lack at first.
    ///
    /// `slot-discount=`, default 50, at most 100.
    pub slot_discount: u32,
    /// Number of slots that preemption may lack at first. `slot-loan=`, default 3.
    pub slot_loan: u32,
    /// Minimum number of slots that a message must be able to earn to be preempted.
    ///
    /// `minimum-slots=`, default 3.
    pub minimum_slots: u32,
    /// Priority of its mail in getting agents. `mail-priority=`, default 5.
    pub mail_priority: MailPriority,
    /// The keywords that the matching clauses name, each with the line in force.
    pub lines: BTreeMap<Cow<'static, str>, u32>,
}

impl Clause {
    /// Returns true if mail is tried only when its host is requested (ETRN).
    pub fn is_etrn_only(&self) -> bool {
        self.queue_only && !self.has_attempts
    }

    /// Position where a keyword is set for this clause; if no clause names it, that of the clause.
    pub fn location_of(&self, keyword: &str) -> SourceLocation {
        let line = self.lines.get(keyword).copied().unwrap_or(self.location.line);
        SourceLocation { file: Rc::clone(&self.location.file), line }
    }
}

/// The user and group of agents where the file names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefaultAccounts {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl DefaultAccounts {
    /// Root and the group `daemon` if the scheduler runs as root, else none.
    pub(crate) fn for_context(context: &ConfigContext) -> io::Result<DefaultAccounts> {
        match context.is_root {
            true => {
                let group = (context.find_id)(AccountKind::Group, "daemon")?;
                Ok(DefaultAccounts { user: Some(0), group })
            }
            false => Ok(DefaultAccounts::default()),
        }
    }
}

/// A clause under construction: defaults, overridden by the settings of matching clauses.
#[derive(Clone, Debug)]
pub(crate) struct ClauseDraft {
    pub clause: Clause,
    /// The process priority of the scheduler itself.
    pub scheduler_niceness: Option<Niceness>,
}

impl ClauseDraft {
    /// A draft with all defaults.
    pub(crate) fn new(location: SourceLocation, default_accounts: DefaultAccounts) -> ClauseDraft {
        let interval = Duration::from_secs(60);
        let clause = Clause {
            id: ClauseId(0),
            channel_pattern: "*".to_string(),
            host_pattern: "*".to_string(),
            location,
            interval,
            idle_max: interval * DEFAULT_IDLE_INTERVALS,
            expiry: Some(Duration::from_secs(3 * SECONDS_PER_DAY)),
            expiry2: None,
            retries: DEFAULT_RETRIES.to_vec(),
            skew: 5,
            max_agents: None,
            max_channel: None,
            max_ring: None,
            max_thread: 1,
            overfeed: 150,
            age_order: false,
            queue_only: false,
            has_attempts: false,
            wakeup_restart_only: false,
            command: None,
            user: default_accounts.user,
            group: default_accounts.group,
            nice: None,
            report_times: Vec::new(),
            delivery_form: None,
            expiry_form: None,
            agent_timeout: Duration::from_secs(3_600),
            recipient_limit: 20_000,
            extra_recipient_limit: 1000,
            refill_limit: 100,
            refill_delay: Duration::from_secs(5),
            agent_life: None,
            agent_jobs: None,
            idle_ping: None,
            packet: 0,
            flow: Flow::default(),
            job_order: JobOrder::default(),
            priority_step: zsched_format::priority::PRIORITY_STEP,
            slot_cost: 0,
            slot_discount: 50,
            slot_loan: 3,
            minimum_slots: 3,
            mail_priority: MailPriority::default(),
            lines: BTreeMap::new(),
            combined_lines: Vec::new(),
        };
        ClauseDraft { clause, scheduler_niceness: None }
    }

    /// Completes the clause once all settings are applied.
    ///
    /// Sets the defaults that depend on other values, and corrects what the file may have as 0.
    pub(crate) fn finish(&mut self) {
        let clause = &mut self.clause;
        let is_set = |keyword: &str| clause.lines.contains_key(keyword);
        if !is_set("idlemax") {
            clause.idle_max = clause.interval * DEFAULT_IDLE_INTERVALS;
        }
        if !is_set("maxchannel") {
            clause.max_channel = clause.max_agents;
        }
        if !is_set("maxring") {
            clause.max_ring = clause.max_agents;
        }
        clause.max_thread = clause.max_thread.max(1);
        clause.expiry = clause.expiry.filter(|age| !age.is_zero());
    }
}

/// A keyword of a clause, with its value.
pub(crate) struct Setting {
    pub(crate) keyword: &'static Keyword<ClauseDraft>,
    pub(crate) value: Value<ClauseDraft>,
    /// The line number.
    pub(crate) line: u32,
}

impl Setting {
    /// Applies the setting to a draft.
    pub(crate) fn apply(&self, draft: &mut ClauseDraft) {
        (self.value.set)(draft);
        draft.clause.lines.insert(self.keyword.name.into(), self.line);
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?} in line {}", self.keyword.name, self.value.text, self.line)
    }
}
