//! What applies to a destination: the effective clause, and how it comes about.

use super::flow::Flow;
use super::{Command, Context};
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
const DAY: u64 = 86_400;
/// The retry factors of a clause that names none.
const DEFAULT_RETRIES: [u32; 9] = [1, 1, 2, 3, 5, 8, 13, 21, 34];
/// What `idlemax` is when it is not given: so many times the clause's interval.
const IDLE_INTERVALS: u32 = 3;

/// Names an effective clause within one configuration. Destinations with the same one make up one
/// ring of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClauseId(pub u32);

/// A line of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file, under the name it was asked for.
    #[serde(with = "zsched_format::serde_bytes::path")]
    pub file: Rc<Path>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// The priority that an agent, or the scheduler itself, runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Niceness {
    /// So much more than the process that starts it (`nice=`, `sysnice=`), −40 to 39.
    Relative(i32),
    /// Exactly this (`priority=`, `syspriority=`), −20 to 19.
    Absolute(i32),
}

/// Everything that applies to a destination, with defaults and what other clauses say put in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clause {
    /// Names it within its configuration.
    pub id: ClauseId,
    /// Channel half of the pattern of the clause that decided: the one with the command, or without
    /// one the last that matched, `*/*` coming last.
    pub channel_pattern: String,
    /// Host half of the same pattern; `*` if it has none.
    pub host_pattern: String,
    /// Where that clause begins.
    pub place: Place,
    /// Time between attempts, to be multiplied by a factor of [`retries`](Clause::retries).
    /// `interval=`, default 1m, never zero.
    pub interval: Duration,
    /// How long an agent may be without work. `idlemax=`, default three intervals.
    pub idle_max: Duration,
    /// Age at which a recipient that has been tried is given up; `None` is never. `expiry=`,
    /// default 3d; 0 is never.
    pub expiry: Option<Duration>,
    /// Time beyond [`expiry`](Clause::expiry) after which even a recipient that has never been tried
    /// is given up. `expiry2=`, default none (the original then takes a day).
    pub expiry2: Option<Duration>,
    /// How many intervals lie between one attempt and the next, in order. Never empty; a factor of 0
    /// is "at once". `retries=`, default 1 1 2 3 5 8 13 21 34.
    pub retries: Vec<u32>,
    /// Divides the correction of a retry time towards a whole interval. `skew=`, default 5, at
    /// least 1.
    pub skew: u32,
    /// Most agents at a time of all rings, looked at when this clause wants one; `None` is as many as
    /// the process can have. `maxta=`, default 0, which is `None`.
    pub max_agents: Option<u32>,
    /// Most agents at a time of the channel. `maxchannel=`, default that of `maxta`.
    pub max_channel: Option<u32>,
    /// Most agents at a time of the ring. `maxring=`, default that of `maxta`.
    pub max_ring: Option<u32>,
    /// Most agents at a time of one thread. `maxthr=`, default 1, at least 1.
    pub max_thread: u32,
    /// How many jobs more than one an agent is fed before it has to answer. `overfeed=`, default 150,
    /// 0 to 10,000.
    pub overfeed: u32,
    /// Feed the oldest message first, instead of a random order. `ageorder`, default off.
    pub age_order: bool,
    /// Start nothing until somebody asks for the host. `queueonly`, default off.
    pub queue_only: bool,
    /// With [`queue_only`](Clause::queue_only): attempts are made as well, at the times of `interval` and
    /// `retries`, since the clause with `queueonly` or a later one names either.
    pub has_attempts: bool,
    /// A new message starts no further agent for a thread that has one. `wakeuprestartonly`, default
    /// off.
    pub wakeup_restart_only: bool,
    /// How to start an agent; `None` leaves the mail in the queue. `command=`, no default.
    pub command: Option<Command>,
    /// User id that agents run as; `None` is the scheduler's own. `user=`, default root if the
    /// scheduler is run by root, else none.
    pub user: Option<u32>,
    /// Group id that agents run as; `None` is the scheduler's own. `group=`, default that of `daemon`
    /// if the scheduler is run by root and there is one, else none.
    pub group: Option<u32>,
    /// Process priority of agents. `nice=` or `priority=`, whichever comes last; default none.
    pub nice: Option<Niceness>,
    /// After which time failures are reported to the sender while other recipients still wait: at
    /// most four, of which the original uses the first. `reporttimes=`, default none.
    pub report_times: Vec<Duration>,
    /// Name of a form for reports of deliveries. `deliveryform=`, default none.
    pub delivery_form: Option<String>,
    /// Name of a form for reports of expiry. `expiryform=`, default none.
    pub expiry_form: Option<String>,
    /// How long an agent with work may be silent before it is killed. `agent-timeout=`, default 1h,
    /// never zero.
    pub agent_timeout: Duration,
    /// Recipients of large messages that may be in memory for the clause, where memory is limited at all.
    /// `recipient-limit=`, default 20000.
    pub recipient_limit: u32,
    /// More of them, of messages that preempt others. `extra-recipient-limit=`, default 1000.
    pub extra_recipient_limit: u32,
    /// More of a message is read when there is room for so many recipients. `refill-limit=`, default 100.
    pub refill_limit: u32,
    /// Or for fewer, when so much time has passed since. `refill-delay=`, default 5s.
    pub refill_delay: Duration,
    /// How old an agent may become before it is retired, as soon as it has ended its jobs.
    /// `agent-life=`, default none, never zero.
    pub agent_life: Option<Duration>,
    /// Most recipients of a message that an agent is given as one job, for agents that take a list of
    /// them; 0 is all. `packet=`, default 0.
    pub packet: u32,
    /// How the flow to its destinations is steered.
    pub flow: Flow,
    /// Work is chosen by message, not by thread. `job-order`, default off; a
    /// [`slot_cost`](Clause::slot_cost) implies it.
    pub job_order: bool,
    /// So many deliveries of a message earn a slot for preempting it; 0 is no preemption. `slot-cost=`,
    /// default 0.
    pub slot_cost: u32,
    /// Percentage of the slots that a message may be preempted without at first. `slot-discount=`,
    /// default 50, at most 100.
    pub slot_discount: u32,
    /// Slots that a message may be preempted without at first. `slot-loan=`, default 3.
    pub slot_loan: u32,
    /// Messages that cannot earn so many slots are not preempted. `minimum-slots=`, default 3.
    pub minimum_slots: u32,
    /// Which mail gets agents first. `mail-priority=`, default 5.
    pub mail_priority: MailPriority,
    /// The keywords that the matching clauses name, each with the line that decided.
    pub lines: BTreeMap<Cow<'static, str>, u32>,
}

impl Clause {
    /// Whether mail is tried only on request for its host.
    pub fn waits_for_request(&self) -> bool {
        self.queue_only && !self.has_attempts
    }

    /// Where a keyword is set for this clause; where none names it, where the clause begins.
    pub fn place_of(&self, keyword: &str) -> Place {
        let line = self.lines.get(keyword).copied().unwrap_or(self.place.line);
        Place { file: Rc::clone(&self.place.file), line }
    }
}

/// A user and a group to run agents as, where the file names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub user: Option<u32>,
    pub group: Option<u32>,
}

impl Identity {
    /// Root and the group `daemon`, where that is possible.
    pub fn default_of(context: &Context) -> io::Result<Identity> {
        match context.is_root {
            true => Ok(Identity { user: Some(0), group: (context.group_id)("daemon")? }),
            false => Ok(Identity::default()),
        }
    }
}

/// A clause in the making: defaults, over which the settings of matching clauses are applied.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub clause: Clause,
    /// Absent until set: the default depends on the interval.
    pub idle_max: Option<Duration>,
    /// Absent until set: the default is that of all agents.
    pub max_channel: Option<Option<u32>>,
    /// Absent until set: the default is that of all agents.
    pub max_ring: Option<Option<u32>>,
}

impl Draft {
    /// All defaults.
    pub fn new(place: Place, identity: Identity) -> Draft {
        let interval = Duration::from_secs(60);
        let clause = Clause {
            id: ClauseId(0),
            channel_pattern: "*".to_string(),
            host_pattern: "*".to_string(),
            place,
            interval,
            idle_max: interval * IDLE_INTERVALS,
            expiry: Some(Duration::from_secs(3 * DAY)),
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
            user: identity.user,
            group: identity.group,
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
            packet: 0,
            flow: Flow::default(),
            job_order: false,
            slot_cost: 0,
            slot_discount: 50,
            slot_loan: 3,
            minimum_slots: 3,
            mail_priority: MailPriority::default(),
            lines: BTreeMap::new(),
        };
        Draft { clause, idle_max: None, max_channel: None, max_ring: None }
    }

    /// The clause, with the defaults that depend on other values.
    pub fn finish(self) -> Clause {
        let clause = self.clause;
        Clause {
            idle_max: self.idle_max.unwrap_or(clause.interval * IDLE_INTERVALS),
            max_channel: self.max_channel.unwrap_or(clause.max_agents),
            max_ring: self.max_ring.unwrap_or(clause.max_agents),
            ..clause
        }
    }
}
