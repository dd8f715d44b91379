//! Orders about many messages.
//!
//! Messages are searched and orders are given in steps, so that delivery continues however many
//! there are.

use super::answer::{Deed, Findings, Next, Reply, Surroundings};
use super::fetch::Fetch;
use super::outcome::{self, Kind};
use super::requests::next_word;
use super::search::{Found, LOOKED_AT, Search};
use super::selection::Selection;
use super::words::{Words, Wrong};
use zsched_core::select::Selected;
use zsched_core::{Effect, Order, Target};
use zsched_spool::SpoolId;

/// The action on messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    Retry,
    Expire,
    Delete,
    Reroute,
    /// The reason, which may be empty.
    Hold(String),
    Release,
}

/// `RETRY selection`: tries waiting mail now.
pub fn retry(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    answer(rest, Verb::Retry, around)
}

/// `EXPIRE selection`: lets mail expire now.
pub fn expire(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    answer(rest, Verb::Expire, around)
}

/// `DELETE selection`: removes mail without reports.
pub fn delete(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    answer(rest, Verb::Delete, around)
}

/// `REROUTE selection`: returns mail to the router.
///
/// ZMailer recognizes the verb and none of its arguments. Text that is no selection is therefore an
/// unknown request here, too.
pub fn reroute(rest: &[u8], around: &mut Surroundings<'_>) -> Reply {
    let is_selection = next_word(rest).0.iter().any(|byte| matches!(byte, b'/' | b'='));
    if is_selection { answer(rest, Verb::Reroute, around) } else { Reply::Unknown }
}

fn answer(rest: &[u8], verb: Verb, around: &Surroundings<'_>) -> Reply {
    match read(rest) {
        Ok((selection, dry_run)) => {
            Reply::Deed(Box::new(Many::new(verb, selection, dry_run, around)))
        }
        Err(wrong) => Reply::Wrong(wrong),
    }
}

fn read(rest: &[u8]) -> Result<(Selection, bool), Wrong> {
    let mut words = Words::parse(rest)?;
    let selection = Selection::take(&mut words)?;
    let dry_run = words.is_wanted("dry-run")?;
    words.end()?;
    if selection.is_empty() {
        return Err(Wrong::new(rest.len(), "say what is meant; */* is everything"));
    }
    Ok((selection, dry_run))
}

/// An order about many messages, and its progress.
pub struct Many {
    verb: Verb,
    fetch: Fetch,
    search: Search,
    dry_run: bool,
    /// True if whole messages are meant.
    is_whole: bool,
    /// Number of messages that are not in memory and were therefore not examined.
    unseen: usize,
    /// What was changed, or would be changed by a dry run.
    sum: Effect,
    /// Number of the last message counted; more of its recipients may follow.
    last: Option<u64>,
    /// Lowest and highest message number in the order that is not answered yet.
    ordered: Option<(u64, u64)>,
}

impl Many {
    /// Prepares the order; nothing is done yet.
    pub fn new(verb: Verb, selection: Selection, dry_run: bool, around: &Surroundings<'_>) -> Many {
        let number = selection.message.as_ref().map(|message| message.number);
        let waiting = around.elsewhere.waiting();
        let unseen = if number.is_some() { 0 } else { waiting.waiting_files + waiting.paged_out };
        let fetch = Fetch::new(number);
        let is_whole = selection.means_whole_messages();
        let search = Search::new(selection, around.now, verb == Verb::Release);
        let (sum, last, ordered) = (Effect::default(), None, None);
        Many { verb, fetch, search, dry_run, is_whole, unseen, sum, last, ordered }
    }

    /// Returns what has been changed so far.
    pub fn sum(&self) -> &Effect {
        &self.sum
    }

    /// Returns true for a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    fn kind(&self) -> Kind {
        match self.verb {
            Verb::Hold(_) => Kind::HoldMessages,
            Verb::Release => Kind::Release,
            _ => Kind::Other,
        }
    }

    /// Counts what an order about these would change.
    fn foresee(&mut self, found: &[Selected], around: &Surroundings<'_>) {
        for found in found {
            let is_new = self.last != Some(found.target.number);
            self.last = Some(found.target.number);
            let effect = match self.verb {
                Verb::Hold(_) if is_new => around.scheduler.dry_run_hold(found.id),
                Verb::Release if is_new => around.scheduler.dry_run_release(found.id),
                Verb::Hold(_) | Verb::Release => Effect::default(),
                Verb::Retry => retried(found, is_new),
                Verb::Expire | Verb::Delete | Verb::Reroute => disposed(found, is_new),
            };
            self.sum.add(&effect);
        }
    }

    fn order(&mut self, found: Vec<Selected>) -> Order {
        let numbers = found.iter().map(|found| found.target.number);
        self.ordered = numbers.clone().min().zip(numbers.max());
        let mut ids: Vec<SpoolId> = found.iter().map(|found| found.id).collect();
        ids.dedup();
        let is_whole = self.is_whole;
        let target = |found: Selected| Target { is_whole, ..found.target };
        let targets: Vec<Target> = found.into_iter().map(target).collect();
        match &self.verb {
            Verb::Retry => Order::Retry(targets),
            Verb::Expire => Order::Expire(targets),
            Verb::Delete => Order::Delete(targets),
            Verb::Reroute => Order::Reroute(targets),
            Verb::Hold(reason) => Order::HoldMessages { messages: ids, reason: reason.clone() },
            Verb::Release => Order::ReleaseMessages(ids),
        }
    }
}

/// Counts the effect of a retry in the same way as the core.
fn retried(found: &Selected, is_new: bool) -> Effect {
    Effect {
        messages: u32::from(is_new),
        recipients: if found.is_waiting { found.recipients } else { 0 },
        held: if found.is_held_back { found.recipients } else { 0 },
        ..Effect::default()
    }
}

/// Counts the effect of a removal in the same way as the core.
fn disposed(found: &Selected, is_new: bool) -> Effect {
    let (recipients, busy) =
        if found.is_busy { (0, found.recipients) } else { (found.recipients, 0) };
    Effect { messages: u32::from(is_new), recipients, busy, ..Effect::default() }
}

impl Deed for Many {
    fn next(&mut self, around: &mut Surroundings<'_>) -> Next {
        // After a refusal or a failure to store, further messages would fail, too.
        if self.sum.refusal.is_some() || self.sum.unstored.is_some() {
            return Next::Over;
        }
        if let Some(step) = self.fetch.next(around) {
            return step;
        }
        match self.search.next(around) {
            Found::Needs(inquiry) => Next::Needs(inquiry),
            Found::More => Next::More,
            Found::Over => Next::Over,
            Found::Some(found) if self.dry_run => {
                self.foresee(&found, around);
                Next::More
            }
            Found::Some(found) if found.is_empty() => Next::More,
            Found::Some(found) => Next::Order(self.order(found)),
        }
    }

    fn obeyed(&mut self, effect: &Effect) {
        let (first, last) = self.ordered.take().unzip();
        let mut effect = *effect;
        // The message was already counted with the last order, which had its first recipients.
        let is_rest = first.is_some() && first == self.last;
        effect.messages = effect.messages.saturating_sub(u32::from(is_rest));
        self.sum.add(&effect);
        self.last = last;
    }

    fn learn(&mut self, findings: Findings) {
        self.search.learn(findings);
    }

    fn tell(&self) -> String {
        outcome::tell_of_many(self.kind(), &self.sum, self.dry_run, self.unseen)
    }

    fn so_far(&self) -> String {
        let far = outcome::counted(&self.sum);
        match self.ordered {
            Some(_) => format!("{far}, and at most {LOOKED_AT} messages that are under way"),
            None => far,
        }
    }
}
