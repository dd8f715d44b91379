//! `SHOW JSON WHY`: one object for each wait reason.

use super::rank::rank;
use super::{line, seconds, single_object, text};
use crate::explain::{MessageRemark, location, sentence};
use crate::v2::show_why::{self, WhyForm};
use crate::v2::task::{Reply, ReplyResult, SessionContext};
use serde::Serialize;
use zsched_core::intake::backlog_view::FileLocation;
use zsched_core::overrides::{Author, Hold};
use zsched_core::unreachable;
use zsched_core::why::{self as core, Origin, Why};
use zsched_core::{Scheduler, UnreachableReason};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::{Cause, HoldAuthor, LimitAuthor, Wait};

/// Returns the wait reason of a thread or a message as it is sent.
pub fn wait(
    scheduler: &Scheduler,
    now: Timestamp,
    wait: &core::Wait<'_>,
    of_message: bool,
) -> Wait {
    let mut object = Wait {
        why: wait.why.word().to_string(),
        line: wait.why.line().map(ToString::to_string),
        sentence: Some(sentence(scheduler, now, of_message, wait)),
        text: wait.text.map(text),
        rank: wait.rank.as_deref().map(rank),
        ..Wait::default()
    };
    add_details(&mut object, &wait.why);
    object
}

/// Sets the fields that only some reasons have.
fn add_details(wait: &mut Wait, why: &Why) {
    match why {
        Why::AtWork { pid, since, heard, jobs } => {
            wait.pid = Some(*pid);
            wait.heard = Some(seconds(*heard));
            wait.since = since.map(seconds);
            wait.jobs = Some(*jobs as u64);
        }
        Why::AgentStarting { pid } => wait.pid = Some(*pid),
        Why::InLine { agents, max, origin, before } => {
            (wait.used, wait.most) = (Some(*agents as u64), Some(*max as u64));
            wait.before = before.map(|before| before as u64);
            wait.set_by = set_by(origin);
        }
        Why::Retry { at, unreachable, .. } => {
            wait.at = Some(seconds(*at));
            wait.block = unreachable.as_ref().map(|known| reason_word(known.reason).to_string());
            let cause = unreachable.as_ref().and_then(|known| known.cause.as_deref());
            wait.cause = cause.map(self::cause);
        }
        Why::Refused { refusal, limit, origin, before } => {
            wait.refusal = Some(refusal.word().to_string());
            wait.before = before.map(|before| before as u64);
            wait.most = limit.map(|limit| limit.max as u64);
            wait.used = limit.map(|limit| limit.used as u64);
            wait.set_by = set_by(origin);
        }
        Why::Window { used, max, name, .. } => {
            (wait.used, wait.most) = (Some(*used as u64), Some(*max as u64));
            wait.of_window = name.as_deref().map(text);
        }
        Why::Pace { at, .. } => wait.at = at.map(seconds),
        Why::Suspended { failure, .. } => {
            wait.at = Some(seconds(failure.until));
            wait.failures = Some(failure.count);
        }
        Why::Held { hold } => wait.held_by = Some(held_by(hold)),
        Why::Scheduled { at, window } => {
            wait.at = Some(seconds(*at));
            wait.day_window = window.as_ref().map(|window| window.text().to_string());
        }
        Why::Request { .. } | Why::Kept | Why::Turn => {}
    }
}

/// Returns the report that a destination is unreachable as it is sent.
fn cause(cause: &unreachable::UnreachableReport) -> Cause {
    Cause {
        agent: cause.pid,
        message: cause.id.map(|id| id.to_string()),
        at: seconds(cause.at),
        text: cause.diagnosis.as_ref().map(|diagnosis| text(&diagnosis.message)),
    }
}

fn held_by(hold: &Hold) -> HoldAuthor {
    let Author { name, since } = hold.author.clone();
    let (scope, reason) = (hold.scope.to_string(), hold.reason.clone());
    HoldAuthor { scope, by: name, since: seconds(since), reason }
}

fn reason_word(reason: UnreachableReason) -> &'static str {
    match reason {
        UnreachableReason::HostDown => "host-down",
        UnreachableReason::RetryAt => "agent-asked",
        UnreachableReason::AgentsDie => "agents-die",
        UnreachableReason::Dead => "dead",
        UnreachableReason::HostBlamed => "blamed",
        UnreachableReason::AllDeferred => "all-deferred",
    }
}

fn set_by(origin: &Origin) -> Option<LimitAuthor> {
    let Origin::Order(set) = origin else {
        return None;
    };
    let (by, since) = (set.author.name.clone(), seconds(set.author.since));
    Some(LimitAuthor { by, since, until: set.until.map(seconds) })
}

/// One wait reason.
#[derive(Serialize)]
struct WaitLineJson {
    channel: String,
    host: String,
    /// Number of messages with this reason.
    messages: usize,
    attempts: u32,
    #[serde(flatten)]
    waits: Wait,
}

/// What is known about a message as a whole.
#[derive(Serialize)]
struct MessageWhyJson {
    why: &'static str,
    /// When it is loaded again, or its deadline.
    at: Option<f64>,
    sentence: String,
}

/// Answers the request.
pub(crate) fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    show_why::answer(
        rest,
        context,
        WhyForm { write: write_wait, remark, on_disk, more: Some(more) },
    )
}

fn write_wait(
    scheduler: &Scheduler,
    now: Timestamp,
    wait: &core::Wait<'_>,
    is_of_message: bool,
    out: &mut Vec<u8>,
) {
    let object = WaitLineJson {
        channel: text(wait.destination.channel()),
        host: text(wait.destination.host()),
        messages: wait.vertices,
        attempts: wait.tries,
        waits: self::wait(scheduler, now, wait, is_of_message),
    };
    line(out, &object);
}

fn remark(remark: &MessageRemark, out: &mut Vec<u8>) {
    let MessageRemark { word, at, sentence } = remark;
    line(out, &MessageWhyJson { why: word, at: at.map(seconds), sentence: sentence.clone() });
}

/// Writes how much more matches, as a reason without a destination.
fn more(what: &str, out: &mut Vec<u8>) {
    let sentence = format!("{what}, which the answer leaves out");
    line(out, &MessageWhyJson { why: "more", at: None, sentence });
}

fn on_disk(place: FileLocation, now: Timestamp) -> Reply {
    single_object(&MessageWhyJson {
        why: "on-disk",
        at: match place {
            FileLocation::PagedOut(until) => until.map(seconds),
            FileLocation::Queued | FileLocation::Loading => None,
        },
        sentence: location(place, now),
    })
}
