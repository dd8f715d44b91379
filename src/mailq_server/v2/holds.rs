//! `HOLD` and `RELEASE`.
//!
//! A hold on destinations, a ring or a message id also applies to mail that arrives later. With a
//! sender, a recipient or an age, the messages that match now are held one by one.

use super::arguments::{Arguments, SyntaxError};
use super::limits::ring;
use super::operator_order::{OperatorOrder, Verb};
use super::outcome::OrderKind;
use super::selection::{MessageName, Selection};
use super::task::{Reply, ReplyResult, SessionContext};
use zsched_core::dry_run::HoldChange;
use zsched_core::overrides::Scope;
use zsched_core::select::Cursor;
use zsched_core::{Order, OrderRefusal, Scheduler};
use zsched_spool::SpoolId;

/// Maximum length of a reason, in bytes: it is stored with each held message.
pub(super) const MAX_REASON_LEN: usize = 200;

/// What a request holds or releases.
enum HoldTarget {
    /// Destinations, or a ring.
    Scope(Scope),
    /// One message.
    Message(MessageName),
    /// Messages that match.
    Messages(Selection),
}

/// `HOLD what`: holds mail, or counts what a hold would change.
pub(super) fn hold(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let core = context.scheduler;
    let mut words = Arguments::parse(rest)?;
    let reason = words.option("reason");
    let dry_run = words.flag("dry-run")?;
    let target = match ring(&mut words, Some(core))? {
        Some(ring) => HoldTarget::Scope(ring),
        None => HoldTarget::take(&mut words, rest.len())?,
    };
    words.end()?;
    if let Some(reason) = reason.as_ref().filter(|reason| reason.text.len() > MAX_REASON_LEN) {
        return Err(reason.error(format!("more than {MAX_REASON_LEN} bytes")));
    }
    let reason = reason.map(|reason| reason.text).unwrap_or_default();
    let refused = |refusal| OperatorOrder::refused(OrderKind::Hold, refusal);
    Ok(Reply::change(match target {
        HoldTarget::Messages(selection) => {
            OperatorOrder::about_messages(Verb::Hold(reason), selection, dry_run, context)
        }
        HoldTarget::Message(name) => match find_message(core, &name) {
            None => refused(OrderRefusal::NotFound),
            Some(id) if !dry_run => {
                let order = Order::Hold { scope: Scope::Message(id), reason };
                OperatorOrder::new(OrderKind::HoldMessages, order)
            }
            Some(id) => match core.overrides().hold_of_message(id) {
                Some(_) => refused(OrderRefusal::Already),
                None => OperatorOrder::completed(OrderKind::Hold, core.dry_run_hold(id)),
            },
        },
        HoldTarget::Scope(scope) if !dry_run => {
            OperatorOrder::new(OrderKind::Hold, Order::Hold { scope, reason })
        }
        HoldTarget::Scope(scope) if is_held(core, &scope) => refused(OrderRefusal::Already),
        HoldTarget::Scope(scope) => {
            OperatorOrder::dry_run(OrderKind::Hold, HoldChange::Hold(scope))
        }
    }))
}

/// `RELEASE what`: releases held mail, or counts what that would change.
pub(super) fn release(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let core = context.scheduler;
    let mut words = Arguments::parse(rest)?;
    let dry_run = words.flag("dry-run")?;
    let target = match ring(&mut words, None)? {
        Some(ring) => HoldTarget::Scope(ring),
        None if words.take_if("ALL") => {
            words.end()?;
            return Ok(Reply::change(OperatorOrder::release_all(dry_run, context)));
        }
        None => HoldTarget::take(&mut words, rest.len())?,
    };
    words.end()?;
    let not_held = || OperatorOrder::refused(OrderKind::Release, OrderRefusal::NotFound);
    let order = |scope| OperatorOrder::new(OrderKind::Release, Order::Release(scope));
    Ok(Reply::change(match target {
        HoldTarget::Messages(selection) => {
            OperatorOrder::about_messages(Verb::Release, selection, dry_run, context)
        }
        HoldTarget::Message(name) => match find_held_message(core, &name) {
            None => not_held(),
            Some(id) if !dry_run => order(Scope::Message(id)),
            Some(id) => OperatorOrder::completed(OrderKind::Release, core.dry_run_release(id)),
        },
        HoldTarget::Scope(scope) if !dry_run => order(scope),
        HoldTarget::Scope(scope) if is_held(core, &scope) => {
            OperatorOrder::dry_run(OrderKind::Release, HoldChange::Release(scope))
        }
        HoldTarget::Scope(_) => not_held(),
    }))
}

impl HoldTarget {
    /// Takes the mail to hold or release out of a request of this length.
    fn take(words: &mut Arguments, length: usize) -> Result<HoldTarget, SyntaxError> {
        let selection = Selection::take(words)?;
        if selection.is_empty() {
            let what =
                "missing selection: channel/host, ring=channel/host, id=...; */* is everything";
            return Err(SyntaxError::new(length, what));
        }
        if selection.older.is_some() || selection.addresses.is_given() {
            return Ok(HoldTarget::Messages(selection));
        }
        Ok(match selection {
            Selection { destinations: Some(all), message: None, .. } => {
                HoldTarget::Scope(Scope::Destinations(all))
            }
            Selection { destinations: None, message: Some(name), .. } => HoldTarget::Message(name),
            selection => HoldTarget::Messages(selection),
        })
    }
}

fn is_held(core: &Scheduler, scope: &Scope) -> bool {
    core.overrides().holds.iter().any(|hold| hold.scope == *scope)
}

/// Returns the queued message with this name.
fn find_message(core: &Scheduler, name: &MessageName) -> Option<SpoolId> {
    let selection = Selection { message: Some(name.clone()), ..Selection::default() };
    let selector = selection.selector(zsched_format::time::Timestamp::from_seconds(0));
    let found = core.select(&selector, &mut Cursor::default(), 1);
    found.into_iter().find(|found| selection.matches_name(found)).map(|found| found.id)
}

/// Returns the held message with this name.
///
/// It need not be queued: its control file may be temporarily unreadable.
fn find_held_message(core: &Scheduler, name: &MessageName) -> Option<SpoolId> {
    let hold = core.overrides().messages.get(&name.number)?;
    match hold.scope {
        Scope::Message(id) if find_message(core, name) == Some(id) || name.matches_id(id) => {
            Some(id)
        }
        _ => None,
    }
}
