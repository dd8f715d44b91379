//! `SHOW JSON WHY`: one object for each wait reason.

use super::rank::RankJson;
use super::{SingleObject, line, refuse, seconds, text};
use crate::explain::{ExplainCursor, location, sentence};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use crate::v2::show::message_number;
use serde::Serialize;
use zsched_core::intake::backlog::Location;
use zsched_core::standing::{Author, Hold};
use zsched_core::unreachable::Cause;
use zsched_core::why::{Origin, Wait, Why};
use zsched_core::{Block, Scheduler};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::subject::Subject;

/// A wait reason.
#[derive(Serialize)]
pub struct WaitJson {
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
    rank: Option<RankJson>,
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
    cause: Option<CauseJson>,
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
    set_by: Option<AuthorJson>,
    /// `window`: the name of the window, if it may be shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_window: Option<String>,
    /// `held`.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<HoldJson>,
}

/// The report that a destination is unreachable.
#[derive(Serialize)]
pub struct CauseJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    at: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl From<&Cause> for CauseJson {
    fn from(cause: &Cause) -> CauseJson {
        CauseJson {
            agent: cause.pid,
            message: cause.id.map(|id| id.to_string()),
            at: seconds(cause.at),
            text: cause.diagnosis.as_ref().map(|diagnosis| text(&diagnosis.message)),
        }
    }
}

/// The author and time of an order.
#[derive(Serialize)]
pub struct AuthorJson {
    by: String,
    since: f64,
    /// When it ends, if it has an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<f64>,
}

/// A hold.
#[derive(Serialize)]
pub struct HoldJson {
    scope: String,
    by: String,
    since: f64,
    reason: String,
}

impl From<&Hold> for HoldJson {
    fn from(hold: &Hold) -> HoldJson {
        let Author { name, since } = hold.author.clone();
        let (scope, reason) = (hold.scope.to_string(), hold.reason.clone());
        HoldJson { scope, by: name, since: seconds(since), reason }
    }
}

impl WaitJson {
    /// Creates the object for the wait reason of a thread or a message.
    pub fn new(
        scheduler: &Scheduler,
        now: Timestamp,
        wait: &Wait<'_>,
        of_message: bool,
    ) -> WaitJson {
        WaitJson {
            why: wait.why.word(),
            line: wait.why.line().map(ToString::to_string),
            sentence: sentence(scheduler, now, of_message, wait),
            text: wait.text.map(text),
            details: Details::of(&wait.why),
            rank: wait.rank.as_deref().map(RankJson::from),
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
            Why::InLine { agents, most, origin, before } => {
                (details.used, details.most) = (Some(*agents), Some(*most));
                details.before = *before;
                details.set_by = set_by(origin);
            }
            Why::Retry { at, unreachable, .. } => {
                details.at = Some(seconds(*at));
                details.block = unreachable.as_ref().map(|known| block_word(known.block));
                let cause = unreachable.as_ref().and_then(|known| known.cause.as_deref());
                details.cause = cause.map(CauseJson::from);
            }
            Why::Refused { refusal, limit, origin, before } => {
                details.refusal = Some(refusal.word());
                details.before = *before;
                details.most = limit.map(|limit| limit.most);
                details.used = limit.map(|limit| limit.used);
                details.set_by = set_by(origin);
            }
            Why::Window { used, most, name, .. } => {
                (details.used, details.most) = (Some(*used), Some(*most));
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

fn block_word(block: Block) -> &'static str {
    match block {
        Block::HostDown => "host-down",
        Block::AgentAsked => "agent-asked",
        Block::AgentsDie => "agents-die",
        Block::Dead => "dead",
        Block::Blamed => "blamed",
        Block::AllDeferred => "all-deferred",
    }
}

fn set_by(origin: &Origin) -> Option<AuthorJson> {
    let Origin::Order(set) = origin else {
        return None;
    };
    let (by, since) = (set.author.name.clone(), seconds(set.author.since));
    Some(AuthorJson { by, since, until: set.until.map(seconds) })
}

/// SingleObject wait reason.
#[derive(Serialize)]
struct WaitLineJson {
    channel: String,
    host: String,
    /// Number of messages with this reason.
    messages: usize,
    attempts: u32,
    #[serde(flatten)]
    waits: WaitJson,
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
    fn new(place: Location, now: Timestamp) -> OnDisk {
        let at = match place {
            Location::PagedOut(until) => until.map(seconds),
            Location::Queued | Location::Loading => None,
        };
        OnDisk { why: "on-disk", at, sentence: location(place, now) }
    }
}

/// Answers the request.
pub fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let rest = text(rest);
    let subject = rest.trim();
    let Some(parsed) = Subject::parse(subject) else {
        return refuse("give a channel/host, a spool id or the name of a control file");
    };
    match ExplainCursor::new(context.scheduler, parsed) {
        Some(pending) => Reply::Text(Box::new(WhyText(pending))),
        None => match message_number(subject).and_then(|n| context.backlog.location(n)) {
            Some(place) => SingleObject::reply(OnDisk::new(place, context.now)),
            None => refuse(&format!("no mail is queued for {subject}")),
        },
    }
}

struct WhyText(ExplainCursor);

impl Text for WhyText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let (scheduler, now) = (context.scheduler, context.now);
        let is_over = self.0.next_reasons(scheduler, &mut |wait, of_message| {
            let line_of_wait = WaitLineJson {
                channel: text(wait.destination.channel()),
                host: text(wait.destination.host()),
                messages: wait.vertices,
                attempts: wait.tries,
                waits: WaitJson::new(scheduler, now, wait, of_message),
            };
            line(out, &line_of_wait);
        });
        if is_over { Step::Over } else { Step::More }
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}
