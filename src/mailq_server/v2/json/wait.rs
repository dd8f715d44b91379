//! What mail waits for, as it is sent.

use super::{seconds, text};
use crate::v2::task::SessionContext;
use zsched_core::UnreachableReason;
use zsched_core::overrides::{Author, Hold};
use zsched_core::rank::{Current, JobRank, MAX_COUNTED_JOBS};
use zsched_core::unreachable;
use zsched_core::why::{self as core, Origin, Why};
use zsched_explain::sentence;
use zsched_mailq_protocol::schema::{
    Cause, CurrentMessage, HoldAuthor, LimitAuthor, Rank, Wait, WaitLine,
};
use zsched_spool::SpoolId;

/// Returns the wait reason of a thread or a message as it is sent.
pub(super) fn wait(context: &SessionContext<'_>, wait: &core::Wait<'_>, of_message: bool) -> Wait {
    let mut object = Wait {
        why: wait.why.word().to_string(),
        line: wait.why.line().map(ToString::to_string),
        sentence: Some(sentence(context.scheduler, context.now, of_message, wait)),
        text: wait.text.map(text),
        rank: wait.rank.as_deref().map(rank),
        ..Wait::default()
    };
    add_details(&mut object, &wait.why);
    object
}

/// Returns a line of `SHOW JSON WHY`.
pub(crate) fn wait_line(
    context: &SessionContext<'_>,
    wait: &core::Wait<'_>,
    of_message: bool,
) -> WaitLine {
    WaitLine {
        channel: text(wait.destination.channel()),
        host: text(wait.destination.host()),
        messages: wait.vertices as u64,
        attempts: wait.tries.into(),
        wait: self::wait(context, wait, of_message),
    }
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
            (wait.used, wait.max) = (Some(*agents as u64), Some(*max as u64));
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
            wait.max = limit.map(|limit| limit.max as u64);
            wait.used = limit.map(|limit| limit.used as u64);
            wait.set_by = set_by(origin);
        }
        Why::Window { used, max, name, .. } => {
            (wait.used, wait.max) = (Some(*used as u64), Some(*max as u64));
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
        Why::Request { .. } | Why::Kept | Why::Job { .. } | Why::Turn => {}
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

/// Returns the rank as it is sent.
fn rank(rank: &JobRank) -> Rank {
    let job = &rank.job;
    let parent = job.has_preempted;
    Rank {
        line: rank.line.to_string(),
        before: job.before.min(MAX_COUNTED_JOBS) as u64,
        priority: rank.priority,
        due: job.due,
        slots: job.slots,
        blocked: job.is_blocked,
        preempted_by: job.preempted_by,
        has_preempted: parent.is_some(),
        parent: parent.flatten().map(|parent| parent.to_string()),
        current: job.current.as_ref().map(current),
    }
}

fn current(current: &Current<SpoolId>) -> CurrentMessage {
    CurrentMessage {
        id: current.message.to_string(),
        due: current.due,
        slots: current.slots,
        needed: current.needed,
        candidate: current.candidate.map(|candidate| candidate.to_string()),
    }
}
