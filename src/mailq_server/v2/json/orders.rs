//! `SHOW JSON ORDERS`: one object for each hold, limit and removal in force.

use super::{AT_A_TIME, line, seconds};
use crate::v2::answer::{Findings, Reply, Step, Surroundings, Text};
use serde::Serialize;
use std::collections::BTreeMap;
use zsched_core::AfterJob;
use zsched_core::overrides::{Hold, LimitOverride, PendingRemoval, Scope};

/// A hold, limit or removal in force.
#[derive(Serialize)]
pub struct Order {
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

impl From<&Hold> for Order {
    fn from(hold: &Hold) -> Order {
        Order {
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

impl From<&LimitOverride> for Order {
    fn from(set: &LimitOverride) -> Order {
        Order {
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

impl From<&PendingRemoval> for Order {
    fn from(ending: &PendingRemoval) -> Order {
        Order {
            kind: match ending.fate {
                AfterJob::Expire => "expire",
                AfterJob::Reroute => "reroute",
                AfterJob::Usual | AfterJob::OneMoreTry | AfterJob::Delete => "delete",
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
pub fn answer(_rest: &[u8], _around: &mut Surroundings<'_>) -> Reply {
    Reply::Text(Box::new(OrdersText { next: Next::Hold(0) }))
}

/// Writes some elements from an index on.
///
/// Returns the index to continue from.
fn list<'s, T>(all: &'s [T], index: usize, out: &mut Vec<u8>) -> Option<usize>
where
    Order: From<&'s T>,
{
    all.iter().skip(index).take(AT_A_TIME).for_each(|one| line(out, &Order::from(one)));
    Some(index + AT_A_TIME).filter(|next| *next < all.len())
}

/// Writes some elements from a message number on.
///
/// Returns the number to continue from.
fn map<'s, T>(all: &'s BTreeMap<u64, T>, number: u64, out: &mut Vec<u8>) -> Option<u64>
where
    Order: From<&'s T>,
{
    let some = all.range(number..).take(AT_A_TIME);
    some.clone().for_each(|(_, one)| line(out, &Order::from(one)));
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
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let standing = around.scheduler.overrides();
        let next = match self.next {
            Next::Hold(index) => {
                Some(list(&standing.holds, index, out).map_or(Next::Message(0), Next::Hold))
            }
            Next::Message(number) => {
                Some(map(&standing.messages, number, out).map_or(Next::Limit(0), Next::Message))
            }
            Next::Limit(index) => {
                Some(list(&standing.limits, index, out).map_or(Next::Removal(0), Next::Limit))
            }
            Next::Removal(number) => map(&standing.endings, number, out).map(Next::Removal),
        };
        let Some(next) = next else {
            return Step::Over;
        };
        self.next = next;
        Step::More
    }

    fn learn(&mut self, _findings: Findings) {}
}
