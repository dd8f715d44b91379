//! `HOLD` and `RELEASE`.
//!
//! A hold on destinations, a ring or a message id also applies to mail that arrives later. With a
//! sender, a recipient or an age, the messages that match now are held one by one.

use super::answer::{Next, Reply, SessionContext, Task};
use super::arguments::{Arguments, SyntaxError};
use super::bulk_order::{BulkOrder, Verb};
use super::outcome::{self, OrderKind};
use super::selection::{MessageName, Selection};
use super::simple_order::SimpleOrder;
use zsched_core::dry_run::HoldChange;
use zsched_core::overrides::Scope;
use zsched_core::select::Cursor;
use zsched_core::{Effect, Order, OrderRefusal, Scheduler};
use zsched_spool::SpoolId;

/// Maximum length of a reason, in bytes: it is stored with each held message.
pub(super) const MAX_REASON_LEN: usize = 200;

/// HoldTarget a request holds or releases.
enum HoldTarget {
    /// Destinations, or a ring.
    Scope(Scope),
    /// One message.
    Message(MessageName),
    /// Messages that match.
    Messages(Selection),
    /// Everything that is held.
    All,
}

/// `HOLD what`: holds mail, or counts what a hold would change.
pub(super) fn hold(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let read = || {
        let mut words = Arguments::parse(rest)?;
        let reason = words.option("reason");
        let (what, dry_run) = what(&mut words, rest.len(), context.scheduler, true)?;
        words.end()?;
        let too_long = |reason: &&super::arguments::Word| reason.text.len() > MAX_REASON_LEN;
        match reason.as_ref().filter(too_long) {
            Some(reason) => Err(reason.error(format!("more than {MAX_REASON_LEN} bytes"))),
            None => Ok((what, dry_run, reason.map(|reason| reason.text).unwrap_or_default())),
        }
    };
    match read() {
        Ok((what, dry_run, reason)) => Reply::Task(begin_hold(what, dry_run, reason, context)),
        Err(error) => Reply::SyntaxError(error),
    }
}

fn begin_hold(
    what: HoldTarget,
    dry_run: bool,
    reason: String,
    context: &SessionContext<'_>,
) -> Box<dyn Task> {
    let core = context.scheduler;
    let refuse = |refusal| Effect { refusal: Some(refusal), ..Effect::default() };
    Box::new(match what {
        HoldTarget::Messages(selection) => {
            return Box::new(BulkOrder::new(Verb::Hold(reason), selection, dry_run, context));
        }
        HoldTarget::Message(name) => match find_message(core, &name) {
            None => SimpleOrder::completed(OrderKind::Hold, refuse(OrderRefusal::NotFound)),
            Some(id) if dry_run => {
                let is_held = core.overrides().hold_of_message(id).is_some();
                let foreseen = core.dry_run_hold(id);
                let effect = if is_held { refuse(OrderRefusal::Already) } else { foreseen };
                SimpleOrder::completed(OrderKind::Hold, effect)
            }
            Some(id) => {
                let order = Order::Hold { scope: Scope::Message(id), reason };
                SimpleOrder::order(OrderKind::HoldMessages, order)
            }
        },
        HoldTarget::Scope(scope) if dry_run => match is_held(core, &scope) {
            true => SimpleOrder::completed(OrderKind::Hold, refuse(OrderRefusal::Already)),
            false => SimpleOrder::preview(OrderKind::Hold, HoldChange::Hold(scope)),
        },
        HoldTarget::Scope(scope) => {
            SimpleOrder::order(OrderKind::Hold, Order::Hold { scope, reason })
        }
        HoldTarget::All => SimpleOrder::completed(OrderKind::Hold, refuse(OrderRefusal::NotFound)),
    })
}

/// `RELEASE what`: releases held mail, or counts what that would change.
pub(super) fn release(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let read = || {
        let mut words = Arguments::parse(rest)?;
        let (what, dry_run) = what(&mut words, rest.len(), context.scheduler, false)?;
        words.end()?;
        Ok((what, dry_run))
    };
    match read() {
        Ok((what, dry_run)) => Reply::Task(begin_release(what, dry_run, context)),
        Err(error) => Reply::SyntaxError(error),
    }
}

fn begin_release(what: HoldTarget, dry_run: bool, context: &SessionContext<'_>) -> Box<dyn Task> {
    let core = context.scheduler;
    let not_held = || Effect { refusal: Some(OrderRefusal::NotFound), ..Effect::default() };
    Box::new(match what {
        HoldTarget::Messages(selection) => {
            return Box::new(BulkOrder::new(Verb::Release, selection, dry_run, context));
        }
        HoldTarget::All => return Box::new(ReleaseAll::new(dry_run, context)),
        HoldTarget::Message(name) => match find_held_message(core, &name) {
            None => SimpleOrder::completed(OrderKind::Release, not_held()),
            Some(id) if dry_run => {
                SimpleOrder::completed(OrderKind::Release, core.dry_run_release(id))
            }
            Some(id) => SimpleOrder::order(OrderKind::Release, Order::Release(Scope::Message(id))),
        },
        HoldTarget::Scope(scope) if dry_run => match is_held(core, &scope) {
            true => SimpleOrder::preview(OrderKind::Release, HoldChange::Release(scope)),
            false => SimpleOrder::completed(OrderKind::Release, not_held()),
        },
        HoldTarget::Scope(scope) => SimpleOrder::order(OrderKind::Release, Order::Release(scope)),
    })
}

/// Parses what to hold or release.
///
/// The ring of a new hold must exist.
fn what(
    words: &mut Arguments,
    length: usize,
    core: &Scheduler,
    is_new: bool,
) -> Result<(HoldTarget, bool), SyntaxError> {
    let dry_run = words.flag("dry-run")?;
    if let Some(ring) = words.option("ring") {
        if is_new && !core.has_clause(&ring.text) {
            return Err(ring.error("no clause of the configuration has this pattern"));
        }
        return Ok((HoldTarget::Scope(Scope::Ring(ring.text)), dry_run));
    }
    if !is_new && words.take_if("ALL") {
        return Ok((HoldTarget::All, dry_run));
    }
    let selection = Selection::take(words)?;
    if selection.is_empty() {
        let what = "missing selection: channel/host, ring=channel/host, id=...; */* is everything";
        return Err(SyntaxError::new(length, what));
    }
    let what = match selection {
        Selection { destinations: Some(all), message: None, older: None, addresses }
            if !addresses.is_given() =>
        {
            HoldTarget::Scope(Scope::Destinations(all))
        }
        Selection { destinations: None, message: Some(name), older: None, addresses }
            if !addresses.is_given() =>
        {
            HoldTarget::Message(name)
        }
        selection => HoldTarget::Messages(selection),
    };
    Ok((what, dry_run))
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

/// `RELEASE ALL`: first the messages, in steps, then everything else.
struct ReleaseAll {
    messages: BulkOrder,
    /// The order that follows the messages.
    rest: Option<SimpleOrder>,
    messages_done: bool,
}

impl ReleaseAll {
    fn new(dry_run: bool, context: &SessionContext<'_>) -> ReleaseAll {
        let orders = context.scheduler.overrides();
        let rest = match dry_run {
            _ if orders.holds.is_empty() && orders.messages.is_empty() => {
                let refusal = Some(OrderRefusal::NotFound);
                SimpleOrder::completed(OrderKind::Release, Effect { refusal, ..Effect::default() })
            }
            true => SimpleOrder::preview(OrderKind::Release, HoldChange::ReleaseAll),
            false => SimpleOrder::order(OrderKind::Release, Order::ReleaseAll),
        };
        let messages = BulkOrder::new(Verb::Release, Selection::default(), dry_run, context);
        ReleaseAll { messages, rest: Some(rest), messages_done: false }
    }

    fn sum(&self) -> Effect {
        let mut sum = *self.messages.sum();
        if let Some(rest) = &self.rest {
            sum.add(rest.effect());
        }
        sum
    }
}

impl Task for ReleaseAll {
    fn next(&mut self, context: &mut SessionContext<'_>) -> Next {
        if !self.messages_done {
            match self.messages.next(context) {
                Next::Over => self.messages_done = true,
                other => return other,
            }
            let orders = context.scheduler.overrides();
            // If only messages were held, nothing is left to release.
            let is_empty = orders.holds.is_empty() && orders.messages.is_empty();
            if is_empty && self.messages.sum().messages > 0 {
                self.rest = None;
            }
        }
        self.rest.as_mut().map_or(Next::Over, |rest| rest.next(context))
    }

    fn order_done(&mut self, effect: &Effect) {
        match &mut self.rest {
            Some(rest) if self.messages_done => rest.order_done(effect),
            _ => self.messages.order_done(effect),
        }
    }

    fn tell(&self) -> String {
        outcome::tell(OrderKind::Release, &self.sum(), self.is_dry_run())
    }

    fn progress(&self) -> String {
        outcome::effect_counts(&self.sum())
    }
}

impl ReleaseAll {
    fn is_dry_run(&self) -> bool {
        self.messages.is_dry_run()
    }
}
