//! `HOLD` and `RELEASE`.
//!
//! A hold on destinations, a ring or a message id also applies to mail that arrives later. With a
//! sender, a recipient, an age or a size, the messages that match now are held one by one.

use super::arguments::{Arguments, SyntaxError};
use super::limits::ring;
use super::operator_order::{OperatorOrder, Verb};
use super::outcome::OrderKind;
use super::selection::{MessageName, Selection};
use super::task::{Reply, ReplyResult, SessionContext};
use zsched_core::dry_run::HoldChange;
use zsched_core::overrides::Scope;
use zsched_core::view::MessageFlag;
use zsched_core::{Order, OrderRefusal, Scheduler};
use zsched_mailq_protocol::words::MAX_REASON_LEN;
use zsched_spool::SpoolId;

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
    let (dry_run, progress) = (words.flag("dry-run")?, words.flag("progress")?);
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
    let (scope, kind) = match target {
        HoldTarget::Messages(selection) => {
            let order =
                OperatorOrder::for_messages(Verb::Hold(reason), selection, dry_run, context);
            return Ok(Reply::change(order.with_progress(progress, context.now)));
        }
        HoldTarget::Scope(scope) => (Some(scope), OrderKind::Hold),
        HoldTarget::Message(name) => {
            (find_message(core, &name).map(Scope::Message), OrderKind::HoldMessages)
        }
    };
    Ok(Reply::change(match scope {
        None => refused(OrderRefusal::NotFound),
        Some(scope) if !dry_run => OperatorOrder::new(kind, Order::Hold { scope, reason }),
        Some(scope) if core.view().overrides().is_held(&scope) => refused(OrderRefusal::Already),
        Some(scope) => OperatorOrder::dry_run(kind, HoldChange::Hold(scope)),
    }))
}

/// `RELEASE what`: releases held mail, or counts what that would change.
pub(super) fn release(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let core = context.scheduler;
    let mut words = Arguments::parse(rest)?;
    let (dry_run, progress) = (words.flag("dry-run")?, words.flag("progress")?);
    let target = match ring(&mut words, None)? {
        Some(ring) => HoldTarget::Scope(ring),
        None if words.take_if("ALL") => {
            words.end()?;
            let order = OperatorOrder::release_all(dry_run, context);
            return Ok(Reply::change(order.with_progress(progress, context.now)));
        }
        None => HoldTarget::take(&mut words, rest.len())?,
    };
    words.end()?;
    let scope = match target {
        HoldTarget::Messages(selection) => {
            let order = OperatorOrder::for_messages(Verb::Release, selection, dry_run, context);
            return Ok(Reply::change(order.with_progress(progress, context.now)));
        }
        HoldTarget::Scope(scope) => Some(scope),
        HoldTarget::Message(name) => find_held_message(core, &name).map(Scope::Message),
    };
    let kind = OrderKind::Release;
    Ok(Reply::change(match scope {
        Some(scope) if !dry_run => OperatorOrder::new(kind, Order::Release(scope)),
        Some(scope) if core.view().overrides().is_held(&scope) => {
            OperatorOrder::dry_run(kind, HoldChange::Release(scope))
        }
        _ => OperatorOrder::refused(kind, OrderRefusal::NotFound),
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
        if selection.older.is_some() || selection.held || selection.files.is_given() {
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

/// Returns the queued message with this name.
fn find_message(core: &Scheduler, name: &MessageName) -> Option<SpoolId> {
    let message = core.view().message(name.number)?;
    let has_recipients = message.pending > 0 || message.is(MessageFlag::Partial);
    let is_named = name.matches(message.spool_id(), &message.name());
    (is_named && has_recipients && !message.is(MessageFlag::Removing)).then(|| message.spool_id())
}

/// Returns the held message with this name.
///
/// It need not be queued: its control file may be temporarily unreadable.
fn find_held_message(core: &Scheduler, name: &MessageName) -> Option<SpoolId> {
    let hold = core.view().overrides().messages.get(&name.number)?;
    match hold.scope {
        Scope::Message(id) if find_message(core, name) == Some(id) || name.matches_id(id) => {
            Some(id)
        }
        _ => None,
    }
}
