//! `SHOW JSON ORDERS`: one object for each hold, limit and removal in force.

use super::{MAX_OBJECTS_PER_STEP, line, seconds};
use crate::v2::task::{Reply, ReplyResult, SessionContext, Step};
use std::collections::BTreeMap;
use zsched_core::AfterJob;
use zsched_core::overrides::{Author, Hold, LimitOverride, PendingRemoval, Scope};
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

fn status(kind: &str, scope: &Scope, author: &Author) -> OverrideStatus {
    OverrideStatus {
        kind: kind.to_string(),
        scope: words(scope),
        by: Some(author.name.clone()),
        since: Some(seconds(author.since)),
        ..OverrideStatus::default()
    }
}

/// Formats a scope as in a request.
fn words(scope: &Scope) -> String {
    match scope {
        Scope::Destinations(destinations) => destinations.text().to_string(),
        Scope::Ring(pattern) => format!("ring={pattern}"),
        Scope::Message(id) => format!("id={id}"),
    }
}

/// Answers the request.
pub(crate) fn answer() -> ReplyResult {
    // The part that is being written, and the index or message number to continue from.
    let (mut part, mut from) = (0, 0);
    Ok(Reply::text(move |context: &mut SessionContext<'_>, out: &mut Vec<u8>| {
        let overrides = context.scheduler.overrides();
        let next = match part {
            0 => list(&overrides.holds, from, hold, out),
            1 => map(&overrides.messages, from, hold, out),
            2 => list(&overrides.limits, from, limit, out),
            3 => map(&overrides.endings, from, removal, out),
            _ => return Step::Done,
        };
        part += usize::from(next.is_none());
        from = next.unwrap_or(0);
        Step::More
    }))
}

/// Writes some elements from an index on.
///
/// Returns the index to continue from.
fn list<T>(
    all: &[T],
    index: u64,
    status: fn(&T) -> OverrideStatus,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let index = index as usize;
    all.iter().skip(index).take(MAX_OBJECTS_PER_STEP).for_each(|one| line(out, &status(one)));
    Some(index + MAX_OBJECTS_PER_STEP).filter(|next| *next < all.len()).map(|next| next as u64)
}

/// Writes some elements from a message number on.
///
/// Returns the number to continue from.
fn map<T>(
    all: &BTreeMap<u64, T>,
    number: u64,
    status: fn(&T) -> OverrideStatus,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let some = all.range(number..).take(MAX_OBJECTS_PER_STEP);
    some.clone().for_each(|(_, one)| line(out, &status(one)));
    some.last().and_then(|(number, _)| number.checked_add(1))
}
