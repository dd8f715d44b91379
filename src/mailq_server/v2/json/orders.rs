//! `SHOW JSON ORDERS`: one object for each hold, limit and removal in force.

use super::{MAX_OBJECTS_PER_STEP, line, seconds};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
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
pub fn answer(_rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    Reply::Text(Box::new(OrdersText { next: Next::Hold(0) }))
}

/// Writes some elements from an index on.
///
/// Returns the index to continue from.
fn list<T>(
    all: &[T],
    index: usize,
    status: fn(&T) -> OverrideStatus,
    out: &mut Vec<u8>,
) -> Option<usize> {
    all.iter().skip(index).take(MAX_OBJECTS_PER_STEP).for_each(|one| line(out, &status(one)));
    Some(index + MAX_OBJECTS_PER_STEP).filter(|next| *next < all.len())
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

struct OrdersText {
    next: Next,
}

/// The next elements to write.
enum Next {
    /// Holds from this index on.
    Hold(usize),
    /// Held messages from this number on.
    Message(u64),
    /// Limits from this index on.
    Limit(usize),
    /// Removals from this message number on.
    Removal(u64),
}

impl Text for OrdersText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let overrides = context.scheduler.overrides();
        let next = match self.next {
            Next::Hold(index) => {
                Some(list(&overrides.holds, index, hold, out).map_or(Next::Message(0), Next::Hold))
            }
            Next::Message(number) => Some(
                map(&overrides.messages, number, hold, out).map_or(Next::Limit(0), Next::Message),
            ),
            Next::Limit(index) => Some(
                list(&overrides.limits, index, limit, out).map_or(Next::Removal(0), Next::Limit),
            ),
            Next::Removal(number) => {
                map(&overrides.endings, number, removal, out).map(Next::Removal)
            }
        };
        let Some(next) = next else {
            return Step::Over;
        };
        self.next = next;
        Step::More
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}
