//! `SET` and `UNSET`: limits at run time.

use super::arguments::{Arguments, SyntaxError};
use super::operator_order::OperatorOrder;
use super::outcome::OrderKind;
use super::selection::{destinations, span};
use super::task::{Reply, ReplyResult, SessionContext};
use zsched_core::overrides::{LimitName, LimitOverride, MAX_OVERRIDES, Scope};
use zsched_core::{Order, OrderRefusal, Scheduler};
use zsched_mailq_protocol::schema::LimitChange;

/// `SET what limit=N ... [for=SPAN]`: checks all of these limits, then sets them.
pub(super) fn set(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let core = context.scheduler;
    let mut words = Arguments::parse(rest)?;
    let scope = scope(&mut words, Some(core))?;
    let span = words.option("for").map(|word| span(&word)).transpose()?;
    let until = span.map(|span| context.now + span);
    let (mut orders, mut changes) = (Vec::new(), Vec::new());
    for limit in LimitName::ALL {
        let Some(word) = words.option(limit.keyword()) else {
            continue;
        };
        let value = word.text.parse().map_err(|_| word.error("expected a number"))?;
        if let Some(refusal) = core.view().refusal_of_limit(&scope, limit, value) {
            return Ok(Reply::change(OperatorOrder::refused(OrderKind::Set, refusal)));
        }
        changes.push(change(limit, core.view().limit_of_scope(&scope, limit).0, Some(value)));
        orders.push(Order::Set { scope: scope.clone(), limit, value, until });
    }
    words.end()?;
    if orders.len() > 1 && core.view().overrides().limits.len() + orders.len() > MAX_OVERRIDES {
        return Ok(Reply::change(OperatorOrder::refused(OrderKind::Set, OrderRefusal::TooMany)));
    }
    if orders.is_empty() {
        return Err(SyntaxError::new(rest.len(), format!("a limit is missing: {}", keywords())));
    }
    Ok(Reply::change(OperatorOrder::sequence(OrderKind::Set, orders).with_limits(changes)))
}

/// `UNSET what limit ...`
pub(super) fn unset(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let core = context.scheduler;
    let mut words = Arguments::parse(rest)?;
    let scope = scope(&mut words, None)?;
    let (mut orders, mut changes) = (Vec::new(), Vec::new());
    let mut next = Some(words.expect("the name of a limit")?);
    while let Some(word) = next {
        let limit = LimitName::of_keyword(&word.text)
            .ok_or_else(|| word.error(format!("a limit is one of {}", keywords())))?;
        let is_it = |set: &LimitOverride| set.scope == scope && set.limit == limit;
        if !core.view().overrides().limits.iter().any(is_it) {
            return Ok(Reply::change(OperatorOrder::refused(
                OrderKind::Unset,
                OrderRefusal::NotFound,
            )));
        }
        let (old, new) = (
            core.view().limit_of_scope(&scope, limit).0,
            core.view().limit_after_reset(&scope, limit),
        );
        if changes.iter().any(|known: &LimitChange| known.limit == limit.keyword()) {
            return Err(word.error("this limit is named twice"));
        }
        changes.push(change(limit, old, new));
        orders.push(Order::Unset { scope: scope.clone(), limit });
        next = words.next_word();
    }
    words.end()?;
    Ok(Reply::change(OperatorOrder::sequence(OrderKind::Unset, orders).with_limits(changes)))
}

fn change(limit: LimitName, old: Option<u32>, new: Option<u32>) -> LimitChange {
    let (limit, [old, new]) =
        (limit.keyword().to_string(), [old, new].map(|value| value.map(u64::from)));
    LimitChange { limit, old, new }
}

/// Takes `ring=channel/host` out of a request, if it is given.
///
/// If the core is given, the ring must be in its configuration.
pub(super) fn ring(
    words: &mut Arguments,
    core: Option<&Scheduler>,
) -> Result<Option<Scope>, SyntaxError> {
    match words.option("ring") {
        Some(ring) if core.is_some_and(|core| !core.view().has_clause(&ring.text)) => {
            Err(ring.error(format!("no clause of the configuration has the pattern {}", ring.text)))
        }
        ring => Ok(ring.map(|ring| Scope::Ring(ring.text))),
    }
}

/// Parses the owner of a limit: `ring=channel/host`, or a pattern of destinations.
///
/// If the core is given, the ring must be in its configuration.
fn scope(words: &mut Arguments, core: Option<&Scheduler>) -> Result<Scope, SyntaxError> {
    let of_clauses = |mut error: SyntaxError| {
        error.what.push_str(
            "; maxta, maxchannel, maxring and overfeed are limits of a clause, only maxthr can also \
             be that of a destination (mailq rings lists the clauses)",
        );
        error
    };
    if let Some(ring) = ring(words, core).map_err(of_clauses)? {
        return Ok(ring);
    }
    destinations(&words.expect("channel/host or ring=channel/host")?).map(Scope::Destinations)
}

fn keywords() -> String {
    LimitName::ALL.map(LimitName::keyword).join(", ")
}
