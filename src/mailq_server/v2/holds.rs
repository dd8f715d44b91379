//! `HOLD` and `RELEASE`.
//!
//! A hold on destinations, a ring or a message id also applies to mail that arrives later. With a
//! sender, a recipient or an age, the messages that match now are held one by one.

use super::answer::{Deed, Next, Reply, Surroundings};
use super::many::{Many, Verb};
use super::outcome::{self, Kind};
use super::selection::{MessageName, Selection};
use super::single::Single;
use super::words::{Words, Wrong};
use zsched_core::dry_run::HoldChange;
use zsched_core::overrides::Scope;
use zsched_core::select::Cursor;
use zsched_core::{Effect, Order, OrderRefusal, Scheduler};
use zsched_spool::SpoolId;

/// Maximum length of a reason, in bytes: it is stored with each held message.
pub const LONGEST_REASON: usize = 200;

/// What a request holds or releases.
enum What {
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
pub fn hold(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    let read = || {
        let mut words = Words::parse(rest)?;
        let reason = words.option("reason");
        let (what, dry_run) = what(&mut words, rest.len(), around.scheduler, true)?;
        words.end()?;
        let too_long = |reason: &&super::words::Word| reason.text.len() > LONGEST_REASON;
        match reason.as_ref().filter(too_long) {
            Some(reason) => Err(reason.wrong(format!("more than {LONGEST_REASON} bytes"))),
            None => Ok((what, dry_run, reason.map(|reason| reason.text).unwrap_or_default())),
        }
    };
    match read() {
        Ok((what, dry_run, reason)) => Reply::Deed(begin_hold(what, dry_run, reason, around)),
        Err(wrong) => Reply::Wrong(wrong),
    }
}

fn begin_hold(
    what: What,
    dry_run: bool,
    reason: String,
    around: &Surroundings<'_>,
) -> Box<dyn Deed> {
    let core = around.scheduler;
    let refuse = |refusal| Effect { refusal: Some(refusal), ..Effect::default() };
    Box::new(match what {
        What::Messages(selection) => {
            return Box::new(Many::new(Verb::Hold(reason), selection, dry_run, around));
        }
        What::Message(name) => match called(core, &name) {
            None => Single::known(Kind::Hold, refuse(OrderRefusal::NotFound)),
            Some(id) if dry_run => {
                let is_held = core.overrides().hold_of_message(id).is_some();
                let foreseen = core.dry_run_hold(id);
                let effect = if is_held { refuse(OrderRefusal::Already) } else { foreseen };
                Single::known(Kind::Hold, effect)
            }
            Some(id) => {
                let order = Order::Hold { scope: Scope::Message(id), reason };
                Single::order(Kind::HoldMessages, order)
            }
        },
        What::Scope(scope) if dry_run => match is_held(core, &scope) {
            true => Single::known(Kind::Hold, refuse(OrderRefusal::Already)),
            false => Single::foresee(Kind::Hold, HoldChange::Hold(scope)),
        },
        What::Scope(scope) => Single::order(Kind::Hold, Order::Hold { scope, reason }),
        What::All => Single::known(Kind::Hold, refuse(OrderRefusal::NotFound)),
    })
}

/// `RELEASE what`: releases held mail, or counts what that would change.
pub fn release(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    let read = || {
        let mut words = Words::parse(rest)?;
        let (what, dry_run) = what(&mut words, rest.len(), around.scheduler, false)?;
        words.end()?;
        Ok((what, dry_run))
    };
    match read() {
        Ok((what, dry_run)) => Reply::Deed(begin_release(what, dry_run, around)),
        Err(wrong) => Reply::Wrong(wrong),
    }
}

fn begin_release(what: What, dry_run: bool, around: &Surroundings<'_>) -> Box<dyn Deed> {
    let core = around.scheduler;
    let not_held = || Effect { refusal: Some(OrderRefusal::NotFound), ..Effect::default() };
    Box::new(match what {
        What::Messages(selection) => {
            return Box::new(Many::new(Verb::Release, selection, dry_run, around));
        }
        What::All => return Box::new(ReleaseAll::new(dry_run, around)),
        What::Message(name) => match called_and_held(core, &name) {
            None => Single::known(Kind::Release, not_held()),
            Some(id) if dry_run => Single::known(Kind::Release, core.dry_run_release(id)),
            Some(id) => Single::order(Kind::Release, Order::Release(Scope::Message(id))),
        },
        What::Scope(scope) if dry_run => match is_held(core, &scope) {
            true => Single::foresee(Kind::Release, HoldChange::Release(scope)),
            false => Single::known(Kind::Release, not_held()),
        },
        What::Scope(scope) => Single::order(Kind::Release, Order::Release(scope)),
    })
}

/// Parses what to hold or release.
///
/// The ring of a new hold must exist.
fn what(
    words: &mut Words,
    length: usize,
    core: &Scheduler,
    is_new: bool,
) -> Result<(What, bool), Wrong> {
    let dry_run = words.is_wanted("dry-run")?;
    if let Some(ring) = words.option("ring") {
        if is_new && !core.has_clause(&ring.text) {
            return Err(ring.wrong("no clause of the configuration has this pattern"));
        }
        return Ok((What::Scope(Scope::Ring(ring.text)), dry_run));
    }
    if !is_new && words.take_if("ALL") {
        return Ok((What::All, dry_run));
    }
    let selection = Selection::take(words)?;
    if selection.is_empty() {
        let what = "say what is meant: channel/host, ring=channel/host, id=...; */* is everything";
        return Err(Wrong::new(length, what));
    }
    let what = match selection {
        Selection { destinations: Some(all), message: None, older: None, addresses }
            if !addresses.are_given() =>
        {
            What::Scope(Scope::Destinations(all))
        }
        Selection { destinations: None, message: Some(name), older: None, addresses }
            if !addresses.are_given() =>
        {
            What::Message(name)
        }
        selection => What::Messages(selection),
    };
    Ok((what, dry_run))
}

fn is_held(core: &Scheduler, scope: &Scope) -> bool {
    core.overrides().holds.iter().any(|hold| hold.scope == *scope)
}

/// Returns the queued message with this name.
fn called(core: &Scheduler, name: &MessageName) -> Option<SpoolId> {
    let selection = Selection { message: Some(name.clone()), ..Selection::default() };
    let selector = selection.selector(zsched_format::time::Timestamp::from_seconds(0));
    let found = core.select(&selector, &mut Cursor::default(), 1);
    found.into_iter().find(|found| selection.is_called(found)).map(|found| found.id)
}

/// Returns the held message with this name.
///
/// It need not be queued: its control file may be temporarily unreadable.
fn called_and_held(core: &Scheduler, name: &MessageName) -> Option<SpoolId> {
    let hold = core.overrides().messages.get(&name.number)?;
    match hold.scope {
        Scope::Message(id) if called(core, name) == Some(id) || name.is_id(id) => Some(id),
        _ => None,
    }
}

/// `RELEASE ALL`: first the messages, in steps, then everything else.
struct ReleaseAll {
    messages: Many,
    /// The order that follows the messages.
    rest: Option<Single>,
    is_at_rest: bool,
}

impl ReleaseAll {
    fn new(dry_run: bool, around: &Surroundings<'_>) -> ReleaseAll {
        let orders = around.scheduler.overrides();
        let rest = match dry_run {
            _ if orders.holds.is_empty() && orders.messages.is_empty() => {
                let refusal = Some(OrderRefusal::NotFound);
                Single::known(Kind::Release, Effect { refusal, ..Effect::default() })
            }
            true => Single::foresee(Kind::Release, HoldChange::ReleaseAll),
            false => Single::order(Kind::Release, Order::ReleaseAll),
        };
        let messages = Many::new(Verb::Release, Selection::default(), dry_run, around);
        ReleaseAll { messages, rest: Some(rest), is_at_rest: false }
    }

    fn sum(&self) -> Effect {
        let mut sum = *self.messages.sum();
        if let Some(rest) = &self.rest {
            sum.add(rest.effect());
        }
        sum
    }
}

impl Deed for ReleaseAll {
    fn next(&mut self, around: &mut Surroundings<'_>) -> Next {
        if !self.is_at_rest {
            match self.messages.next(around) {
                Next::Over => self.is_at_rest = true,
                other => return other,
            }
            let orders = around.scheduler.overrides();
            // If only messages were held, nothing is left to release.
            let is_empty = orders.holds.is_empty() && orders.messages.is_empty();
            if is_empty && self.messages.sum().messages > 0 {
                self.rest = None;
            }
        }
        self.rest.as_mut().map_or(Next::Over, |rest| rest.next(around))
    }

    fn obeyed(&mut self, effect: &Effect) {
        match &mut self.rest {
            Some(rest) if self.is_at_rest => rest.obeyed(effect),
            _ => self.messages.obeyed(effect),
        }
    }

    fn tell(&self) -> String {
        outcome::tell(Kind::Release, &self.sum(), self.is_dry_run())
    }

    fn so_far(&self) -> String {
        outcome::counted(&self.sum())
    }
}

impl ReleaseAll {
    fn is_dry_run(&self) -> bool {
        self.messages.is_dry_run()
    }
}
