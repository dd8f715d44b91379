//! `SET` and `UNSET`: limits at run time.

use super::arguments::{Arguments, SyntaxError};
use super::operator_order::OperatorOrder;
use super::outcome::OrderKind;
use super::selection::{destinations, span};
use super::task::{Reply, ReplyResult, SessionContext};
use zsched_core::overrides::{LimitName, Scope};
use zsched_core::{Order, Scheduler};

/// `SET what limit=N [for=SPAN]`
pub(super) fn set(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let scope = scope(&mut words, Some(context.scheduler))?;
    let span = words.option("for").map(|word| span(&word)).transpose()?;
    let until = span.map(|span| context.now + span);
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
    let order = Order::Set { scope, limit, value, until };
    Ok(Reply::change(OperatorOrder::new(OrderKind::Set, order)))
}

/// `UNSET what limit`
pub(super) fn unset(rest: &[u8]) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let scope = scope(&mut words, None)?;
    let word = words.expect("the name of a limit")?;
    words.end()?;
    let limit = LimitName::of_keyword(&word.text);
    let limit = limit.ok_or_else(|| word.error(format!("a limit is one of {}", keywords())))?;
    Ok(Reply::change(OperatorOrder::new(OrderKind::Unset, Order::Unset { scope, limit })))
}

/// Takes `ring=channel/host` out of a request, if it is given.
///
/// If the core is given, the ring must be in its configuration.
pub(super) fn ring(
    words: &mut Arguments,
    core: Option<&Scheduler>,
) -> Result<Option<Scope>, SyntaxError> {
    match words.option("ring") {
        Some(ring) if core.is_some_and(|core| !core.has_clause(&ring.text)) => {
            Err(ring.error("no clause of the configuration has this pattern"))
        }
        ring => Ok(ring.map(|ring| Scope::Ring(ring.text))),
    }
}

/// Parses the owner of a limit: `ring=channel/host`, or a pattern of destinations.
///
/// If the core is given, the ring must be in its configuration.
fn scope(words: &mut Arguments, core: Option<&Scheduler>) -> Result<Scope, SyntaxError> {
    if let Some(ring) = ring(words, core)? {
        return Ok(ring);
    }
    destinations(&words.expect("channel/host or ring=channel/host")?).map(Scope::Destinations)
}

fn keywords() -> String {
    LimitName::ALL.map(LimitName::keyword).join(", ")
}
