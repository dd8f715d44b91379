//! `SHOW JSON ORDERS`: one object for each hold, each limit that was set, and each message that is to end.

use super::{AT_A_TIME, line, seconds};
use crate::mailq::v2::answer::{Findings, Reply, Step, Surroundings, Text};
use crate::scheduler::Fate;
use crate::scheduler::standing::{Ending, Hold, Scope, SetLimit};
use serde::Serialize;

/// An order in force.
#[derive(Serialize)]
pub struct Order {
    /// `hold` or `limit`; or how a message ends: `expire`, `delete` or `reroute`.
    kind: &'static str,
    /// What it is about, in the words of the request: `channel/host`, `ring=channel/host` or `id=…`.
    scope: String,
    by: String,
    since: f64,
    /// Of a hold; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Of a limit: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'static str>,
    /// Of a limit: what it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<u32>,
    /// When it ends, if it does.
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

impl From<&SetLimit> for Order {
    fn from(set: &SetLimit) -> Order {
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

impl From<&Ending> for Order {
    fn from(ending: &Ending) -> Order {
        Order {
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

/// A scope as a request has it.
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

struct OrdersText {
    next: Next,
}

/// What comes next.
enum Next {
    /// The hold of this index.
    Hold(usize),
    /// Messages from this number on.
    Message(u64),
    /// The limit of this index.
    Limit(usize),
    /// Ends of messages from this number on.
    Ending(u64),
}

impl Text for OrdersText {
    fn write(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        let standing = around.scheduler.standing_orders();
        self.next = match self.next {
            Next::Hold(index) => {
                let some = standing.holds.iter().skip(index).take(AT_A_TIME);
                some.for_each(|hold| line(out, &Order::from(hold)));
                match index + AT_A_TIME < standing.holds.len() {
                    true => Next::Hold(index + AT_A_TIME),
                    false => Next::Message(0),
                }
            }
            Next::Message(number) => {
                let mut last = None;
                for (number, hold) in standing.messages.range(number..).take(AT_A_TIME) {
                    line(out, &Order::from(hold));
                    last = number.checked_add(1);
                }
                last.map_or(Next::Limit(0), Next::Message)
            }
            Next::Limit(index) => {
                let some = standing.limits.iter().skip(index).take(AT_A_TIME);
                some.for_each(|limit| line(out, &Order::from(limit)));
                match index + AT_A_TIME < standing.limits.len() {
                    true => Next::Limit(index + AT_A_TIME),
                    false => Next::Ending(0),
                }
            }
            Next::Ending(number) => {
                let mut last = None;
                for (number, ending) in standing.endings.range(number..).take(AT_A_TIME) {
                    line(out, &Order::from(ending));
                    last = number.checked_add(1);
                }
                let Some(next) = last else {
                    return Step::Over;
                };
                Next::Ending(next)
            }
        };
        Step::More
    }

    fn learn(&mut self, _findings: Findings) {}
}
