//! `SHOW JSON WHY`: one object for each wait reason.

use super::rank::Ranked;
use super::{One, line, refuse, seconds, text};
use crate::v2::answer::{Findings, Reply, Step, Surroundings, Text};
use crate::v2::show::parsed_number;
use crate::why::{Pending, location, sentence};
use serde::Serialize;
use zsched_core::intake::backlog_view::FileLocation;
use zsched_core::overrides::{Author, Hold};
use zsched_core::unreachable::UnreachableReport;
use zsched_core::why::{Origin, Wait, Why};
use zsched_core::{Scheduler, UnreachableReason};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::subject::Subject;

/// A wait reason.
#[derive(Serialize)]
pub struct Waits {
    /// `at-work`, `agent-starting`, `in-line`, `retry`, `request`, `refused`, `suspended`, `held`,
    /// `window`, `pace` or `turn`.
    why: &'static str,
    /// File and line of the setting that applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// The reason as a sentence.
    sentence: String,
    /// Text of the last report.
    text: Option<String>,
    #[serde(flatten)]
    details: Details,
    /// Rank of its message, in a ring that selects work by message.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<Ranked>,
}

/// Details of some of the reasons.
#[derive(Default, Serialize)]
struct Details {
    /// `at-work`, `agent-starting`: process id of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// `at-work`: when it got the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<f64>,
    /// `at-work`: number of jobs of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<usize>,
    /// `retry`: time of the next try.
    ///
    /// `pace`: when the next delivery may start.
    ///
    /// `suspended`: when the next agent is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<f64>,
    /// `retry`: why the destination is known to be unreachable.
    ///
    /// `host-down`, `agent-asked`, `agents-die`, `dead`, `blamed` or `all-deferred`; omitted if it
    /// is not known to be unreachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<&'static str>,
    /// `retry`: the report that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<CauseShown>,
    /// `refused`: which limit refuses the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'static str>,
    /// `in-line`, `refused`, `window`: the limit, and the number in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<usize>,
    /// `suspended`: number of agents of the ring that failed to start in a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<u32>,
    /// `in-line`: number of messages that come first; 1000 means 1000 or more.
    ///
    /// `refused`: number of rings that come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
    /// `in-line`, `refused`: who set the limit, if it is not from the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_by: Option<By>,
    /// `window`: the name of the window, if it may be shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_window: Option<String>,
    /// `held`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<HeldBy>,
}

/// The report that a destination is unreachable.
#[derive(Serialize)]
pub struct CauseShown {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    at: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl From<&UnreachableReport> for CauseShown {
    fn from(cause: &UnreachableReport) -> CauseShown {
        CauseShown {
            agent: cause.pid,
            message: cause.id.map(|id| id.to_string()),
            at: seconds(cause.at),
            text: cause.diagnosis.as_ref().map(|diagnosis| text(&diagnosis.message)),
        }
    }
}

/// The author and time of an order.
#[derive(Serialize)]
pub struct By {
    by: String,
    since: f64,
    /// When it ends, if it has an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<f64>,
}

/// A hold.
#[derive(Serialize)]
pub struct HeldBy {
    scope: String,
    by: String,
    since: f64,
    reason: String,
}

impl From<&Hold> for HeldBy {
    fn from(hold: &Hold) -> HeldBy {
        let Author { name, since } = hold.author.clone();
        let (scope, reason) = (hold.scope.to_string(), hold.reason.clone());
        HeldBy { scope, by: name, since: seconds(since), reason }
    }
}

impl Waits {
    /// Creates the object for the wait reason of a thread or a message.
    pub fn new(scheduler: &Scheduler, now: Timestamp, wait: &Wait<'_>, of_message: bool) -> Waits {
        Waits {
            why: wait.why.word(),
            line: wait.why.line().map(ToString::to_string),
            sentence: sentence(scheduler, now, of_message, wait),
            text: wait.text.map(text),
            details: Details::of(&wait.why),
            rank: wait.rank.as_deref().map(Ranked::from),
        }
    }
}

impl Details {
    fn of(why: &Why) -> Details {
        let mut details = Details::default();
        match why {
            Why::AtWork { pid, since, jobs } => {
                details.pid = Some(*pid);
                details.since = since.map(seconds);
                details.jobs = Some(*jobs);
            }
            Why::AgentStarting { pid } => details.pid = Some(*pid),
            Why::InLine { agents, max, origin, before } => {
                (details.used, details.most) = (Some(*agents), Some(*max));
                details.before = *before;
                details.set_by = set_by(origin);
            }
            Why::Retry { at, unreachable, .. } => {
                details.at = Some(seconds(*at));
                details.block = unreachable.as_ref().map(|known| block_word(known.block));
                let cause = unreachable.as_ref().and_then(|known| known.cause.as_deref());
                details.cause = cause.map(CauseShown::from);
            }
            Why::Refused { refusal, limit, origin, before } => {
                details.refusal = Some(refusal.word());
                details.before = *before;
                details.most = limit.map(|limit| limit.max);
                details.used = limit.map(|limit| limit.used);
                details.set_by = set_by(origin);
            }
            Why::Window { used, max, name, .. } => {
                (details.used, details.most) = (Some(*used), Some(*max));
                details.of_window = name.as_deref().map(text);
            }
            Why::Pace { at, .. } => details.at = at.map(seconds),
            Why::Suspended { failure, .. } => {
                details.at = Some(seconds(failure.until));
                details.failures = Some(failure.count);
            }
            Why::Held { hold } => details.held_by = Some(hold.into()),
            Why::Request { .. } | Why::Turn => {}
        }
        details
    }
}

fn block_word(block: UnreachableReason) -> &'static str {
    match block {
        UnreachableReason::HostDown => "host-down",
        UnreachableReason::RetryAt => "agent-asked",
        UnreachableReason::AgentsDie => "agents-die",
        UnreachableReason::Dead => "dead",
        UnreachableReason::HostBlamed => "blamed",
        UnreachableReason::AllDeferred => "all-deferred",
    }
}

fn set_by(origin: &Origin) -> Option<By> {
    let Origin::Order(set) = origin else {
        return None;
    };
    let (by, since) = (set.author.name.clone(), seconds(set.author.since));
    Some(By { by, since, until: set.until.map(seconds) })
}

/// One wait reason.
#[derive(Serialize)]
struct WaitLine {
    channel: String,
    host: String,
    /// Number of messages with this reason.
    messages: usize,
    attempts: u32,
    #[serde(flatten)]
    waits: Waits,
}

/// A message that is not in memory.
#[derive(Serialize)]
struct OnDisk {
    why: &'static str,
    /// When it is loaded again.
    at: Option<f64>,
    sentence: String,
}

impl OnDisk {
    fn new(place: FileLocation, now: Timestamp) -> OnDisk {
        let at = match place {
            FileLocation::PagedOut(until) => until.map(seconds),
            FileLocation::Queued | FileLocation::Loading => None,
        };
        OnDisk { why: "on-disk", at, sentence: location(place, now) }
    }
}

/// Answers the request.
pub fn answer(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    let rest = text(rest);
    let subject = rest.trim();
    let Some(parsed) = Subject::parse(subject) else {
        return refuse("give a channel/host, a spool id or the name of a control file");
    };
    match Pending::new(around.scheduler, parsed) {
        Some(pending) => Reply::Text(Box::new(WhyText(pending))),
        None => match parsed_number(subject).and_then(|n| around.elsewhere.location(n)) {
            Some(place) => One::reply(OnDisk::new(place, around.now)),
            None => refuse(&format!("nothing is queued for {subject}")),
        },
    }
}

struct WhyText(Pending);

impl Text for WhyText {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let (scheduler, now) = (around.scheduler, around.now);
        let is_over = self.0.go_on(scheduler, &mut |wait, of_message| {
            let line_of_wait = WaitLine {
                channel: text(wait.destination.channel()),
                host: text(wait.destination.host()),
                messages: wait.vertices,
                attempts: wait.tries,
                waits: Waits::new(scheduler, now, wait, of_message),
            };
            line(out, &line_of_wait);
        });
        if is_over { Step::Over } else { Step::More }
    }

    fn learn(&mut self, _findings: Findings) {}
}
