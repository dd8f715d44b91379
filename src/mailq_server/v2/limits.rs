//! `SET` and `UNSET`: limits at run time.

use super::answer::{Reply, SessionContext};
use super::arguments::{Arguments, SyntaxError, Word};
use super::outcome::OrderKind;
use super::selection::{destinations, span};
use super::simple_order::SimpleOrder;
use zsched_core::overrides::{LimitName, Scope};
use zsched_core::{Order, Scheduler};
use zsched_format::time::Timestamp;

/// `SET what limit=N [for=SPAN]`
pub(super) fn set(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    reply(read_set(rest, context.scheduler, context.now).map(|order| (OrderKind::Set, order)))
}

/// `UNSET what limit`
pub(super) fn unset(rest: &[u8], _context: &mut SessionContext<'_>) -> Reply {
    reply(read_unset(rest).map(|order| (OrderKind::Unset, order)))
}

fn reply(read: Result<(OrderKind, Order), SyntaxError>) -> Reply {
    match read {
        Ok((kind, order)) => Reply::Task(Box::new(SimpleOrder::order(kind, order))),
        Err(error) => Reply::SyntaxError(error),
    }
}

fn read_set(rest: &[u8], core: &Scheduler, now: Timestamp) -> Result<Order, SyntaxError> {
    let mut words = Arguments::parse(rest)?;
    let scope = scope(&mut words, Some(core))?;
    let until = words.option("for").map(|word| span(&word)).transpose()?.map(|span| now + span);
    let mut limits =
        LimitName::ALL.iter().filter_map(|limit| Some((*limit, words.option(limit.keyword())?)));
    let first = limits.next();
    let second = limits.next();
    let Some((limit, word)) = first else {
        return Err(SyntaxError::new(rest.len(), format!("a limit is missing: {}", keywords())));
    };
    if let Some((_, word)) = second {
        return Err(word.error("one limit at a time"));
    }
    words.end()?;
    let value = word.text.parse().map_err(|_| word.error("expected a number"))?;
    Ok(Order::Set { scope, limit, value, until })
}

fn read_unset(rest: &[u8]) -> Result<Order, SyntaxError> {
    let mut words = Arguments::parse(rest)?;
    let scope = scope(&mut words, None)?;
    let word = words.expect("the name of a limit")?;
    words.end()?;
    let limit = LimitName::of_keyword(&word.text);
    let limit = limit.ok_or_else(|| word.error(format!("a limit is one of {}", keywords())))?;
    Ok(Order::Unset { scope, limit })
}

/// Parses the owner of a limit: `ring=channel/host`, or a pattern of destinations.
///
/// If the core is given, the ring must be in its configuration.
fn scope(words: &mut Arguments, core: Option<&Scheduler>) -> Result<Scope, SyntaxError> {
    let Some(ring) = words.option("ring") else {
        let word: Word = words.expect("channel/host or ring=channel/host")?;
        return destinations(&word).map(Scope::Destinations);
    };
    if core.is_some_and(|core| !core.has_clause(&ring.text)) {
        return Err(ring.error("no clause of the configuration has this pattern"));
    }
    Ok(Scope::Ring(ring.text))
}

fn keywords() -> String {
    LimitName::ALL.map(LimitName::keyword).join(", ")
}
