//! `SHOW JSON ORDERS`: one object for each hold, limit and removal in force.

use super::{MAX_OBJECTS_PER_STEP, line, seconds};
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use std::collections::BTreeMap;
use zsched_core::AfterJob;
use zsched_core::overrides::{
    Author, Hold, LimitOverride, PendingRemoval, PriorityOverride, Scope,
};
use zsched_mailq_protocol::schema::OverrideStatus;

fn hold(hold: &Hold) -> OverrideStatus {
    OverrideStatus {
        reason: Some(hold.reason.clone()),
        ..status("hold", &hold.scope, &hold.author)
    }
}

fn limit(set: &LimitOverride) -> OverrideStatus {
    OverrideStatus {
        limit: Some(set.limit.keyword().to_string()),
        value: Some(u64::from(set.value)),
        until: set.until.map(seconds),
        ..status("limit", &set.scope, &set.author)
    }
}

fn removal(ending: &PendingRemoval) -> OverrideStatus {
    let kind = match ending.after_job {
        AfterJob::Expire => "expire",
        AfterJob::Reroute => "reroute",
        AfterJob::Usual | AfterJob::OneMoreTry | AfterJob::Delete => "delete",
    };
    status(kind, &Scope::Message(ending.message), &ending.author)
}

fn priority(set: &PriorityOverride) -> OverrideStatus {
    let level = zsched_format::priority::letter(set.priority);
    let reason = Some(format!("priority {level}"));
    OverrideStatus { reason, ..status("priority", &Scope::Message(set.message), &set.author) }
}

fn status(kind: &str, scope: &Scope, author: &Author) -> OverrideStatus {
    OverrideStatus {
        kind: kind.to_string(),
        scope: scope.words(),
        by: Some(author.name.clone()),
        since: Some(seconds(author.since)),
        ..OverrideStatus::default()
    }
}

/// Answers the request.
pub(crate) fn answer() -> ReplyResult {
    // The part that is being written, and the index or message number to continue from.
    let (mut part, mut from) = (0, 0);
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let overrides = context.scheduler.view().overrides();
        let (holds, limits) = ((0..).zip(&overrides.holds), (0..).zip(&overrides.limits));
        let next = match part {
            0 => write_some(holds.skip(from as usize), hold, out),
            1 => write_some(from_number(&overrides.messages, from), hold, out),
            2 => write_some(limits.skip(from as usize), limit, out),
            3 => write_some(from_number(&overrides.removals, from), removal, out),
            4 => write_some(from_number(&overrides.priorities, from), priority, out),
            _ => return Step::Done,
        };
        part += usize::from(next.is_none());
        from = next.unwrap_or(0);
        Step::More
    }))
}

fn from_number<T>(all: &BTreeMap<u64, T>, number: u64) -> impl Iterator<Item = (u64, &T)> {
    all.range(number..).map(|(number, one)| (*number, one))
}

/// Writes some elements.
///
/// Returns the index or number to continue from; `None` at the end.
fn write_some<'t, T: 't>(
    all: impl Iterator<Item = (u64, &'t T)>,
    status: fn(&T) -> OverrideStatus,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let some = all.take(MAX_OBJECTS_PER_STEP).inspect(|(_, one)| line(out, &status(one)));
    some.last().and_then(|(number, _)| number.checked_add(1))
}
