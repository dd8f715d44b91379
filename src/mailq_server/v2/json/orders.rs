//! `SHOW JSON ORDERS`: one object for each hold, limit and removal in force.

use super::{MAX_OBJECTS_PER_STEP, line, seconds};
use crate::v2::answer::{LookupResult, Reply, SessionContext, Step, Text};
use serde::Serialize;
use std::collections::BTreeMap;
use zsched_core::Fate;
use zsched_core::standing::{Ending, Hold, Scope, SetLimit};

/// A hold, limit or removal in force.
#[derive(Serialize)]
pub struct OverrideJson {
    /// `hold` or `limit`, or the kind of removal: `expire`, `delete` or `reroute`.
    kind: &'static str,
    /// Its scope, as in a request: `channel/host`, `ring=channel/host` or `id=…`.
    scope: String,
    by: String,
    since: f64,
    /// Of a hold: the reason; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Of a limit: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
    /// Of a limit: its current value.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u32>,
    /// When it ends, if it has an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<f64>,
}

impl From<&Hold> for OverrideJson {
    fn from(hold: &Hold) -> OverrideJson {
        OverrideJson {
            kind: "hold",
            scope: words(&hold.scope),
            by: hold.author.name.clone(),
            since: seconds(hold.author.since),
            reason: Some(hold.reason.clone()),
            limit: None,
            value: None,
            until: None,
        }
    }
}

impl From<&SetLimit> for OverrideJson {
    fn from(set: &SetLimit) -> OverrideJson {
        OverrideJson {
            kind: "limit",
            scope: words(&set.scope),
            by: set.author.name.clone(),
            since: seconds(set.author.since),
            reason: None,
            limit: Some(set.limit.keyword()),
            value: Some(set.value),
            until: set.until.map(seconds),
        }
    }
}

impl From<&Ending> for OverrideJson {
    fn from(ending: &Ending) -> OverrideJson {
        OverrideJson {
            kind: match ending.fate {
                Fate::Expire => "expire",
                Fate::Reroute => "reroute",
                Fate::Usual | Fate::OneMoreTry | Fate::Delete => "delete",
            },
            scope: words(&Scope::Message(ending.message)),
            by: ending.author.name.clone(),
            since: seconds(ending.author.since),
            reason: None,
            limit: None,
            value: None,
            until: None,
        }
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
fn list<'s, T>(all: &'s [T], index: usize, out: &mut Vec<u8>) -> Option<usize>
where
    OverrideJson: From<&'s T>,
{
    all.iter()
        .skip(index)
        .take(MAX_OBJECTS_PER_STEP)
        .for_each(|one| line(out, &OverrideJson::from(one)));
    Some(index + MAX_OBJECTS_PER_STEP).filter(|next| *next < all.len())
}

/// Writes some elements from a message number on.
///
/// Returns the number to continue from.
fn map<'s, T>(all: &'s BTreeMap<u64, T>, number: u64, out: &mut Vec<u8>) -> Option<u64>
where
    OverrideJson: From<&'s T>,
{
    let some = all.range(number..).take(MAX_OBJECTS_PER_STEP);
    some.clone().for_each(|(_, one)| line(out, &OverrideJson::from(one)));
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
    Ending(u64),
}

impl Text for OrdersText {
    fn write(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let standing = context.scheduler.standing_orders();
        let next = match self.next {
            Next::Hold(index) => {
                Some(list(&standing.holds, index, out).map_or(Next::Message(0), Next::Hold))
            }
            Next::Message(number) => {
                Some(map(&standing.messages, number, out).map_or(Next::Limit(0), Next::Message))
            }
            Next::Limit(index) => {
                Some(list(&standing.limits, index, out).map_or(Next::Ending(0), Next::Limit))
            }
            Next::Ending(number) => map(&standing.endings, number, out).map(Next::Ending),
        };
        let Some(next) = next else {
            return Step::Over;
        };
        self.next = next;
        Step::More
    }

    fn lookup_done(&mut self, _findings: LookupResult) {}
}
