//! Orders about many messages.
//!
//! Messages are searched and orders are given in steps, so that delivery continues however many
//! there are.

use super::answer::{LookupResult, Next, Reply, SessionContext, Task};
use super::arguments::{Arguments, SyntaxError};
use super::fetch::Fetch;
use super::outcome::{self, OrderKind};
use super::requests::next_word;
use super::search::{Found, MAX_ENTRIES_PER_STEP, Search};
use super::selection::Selection;
use zsched_core::select::Selected;
use zsched_core::{Effect, Order, Target};
use zsched_spool::SpoolId;

/// The action on messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Retry,
    Expire,
    Delete,
    Reroute,
    /// The reason, which may be empty.
    Hold(String),
    Release,
}

/// `RETRY selection`: tries waiting mail now.
pub(super) fn retry(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    answer(rest, Verb::Retry, context)
}

/// `EXPIRE selection`: lets mail expire now.
pub(super) fn expire(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    answer(rest, Verb::Expire, context)
}

/// `DELETE selection`: removes mail without reports.
pub(super) fn delete(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    answer(rest, Verb::Delete, context)
}

/// `REROUTE selection`: returns mail to the router.
///
/// ZMailer recognizes the verb and none of its arguments. Text that is no selection is therefore an
/// unknown request here, too.
pub(super) fn reroute(rest: &[u8], context: &mut SessionContext<'_>) -> Reply {
    let is_selection = next_word(rest).0.iter().any(|byte| matches!(byte, b'/' | b'='));
    if is_selection { answer(rest, Verb::Reroute, context) } else { Reply::Unknown }
}

fn answer(rest: &[u8], verb: Verb, context: &SessionContext<'_>) -> Reply {
    match read(rest) {
        Ok((selection, dry_run)) => {
            Reply::Task(Box::new(BulkOrder::new(verb, selection, dry_run, context)))
        }
        Err(error) => Reply::SyntaxError(error),
    }
}

fn read(rest: &[u8]) -> Result<(Selection, bool), SyntaxError> {
    let mut words = Arguments::parse(rest)?;
    let selection = Selection::take(&mut words)?;
    let dry_run = words.flag("dry-run")?;
    words.end()?;
    if selection.is_empty() {
        return Err(SyntaxError::new(rest.len(), "missing selection; */* is everything"));
    }
    Ok((selection, dry_run))
}

/// An order about many messages, and its progress.
pub(super) struct BulkOrder {
    verb: Verb,
    fetch: Fetch,
    search: Search,
    dry_run: bool,
    /// True if whole messages are meant.
    is_whole: bool,
    /// Number of messages that are not in memory and were therefore not examined.
    not_examined: usize,
    /// What was changed, or would be changed by a dry run.
    sum: Effect,
    /// Number of the last message counted; more of its recipients may follow.
    last: Option<u64>,
    /// Lowest and highest message number in the order that is not answered yet.
    ordered: Option<(u64, u64)>,
}

impl BulkOrder {
    /// Prepares the order; nothing is done yet.
    pub(super) fn new(
        verb: Verb,
        selection: Selection,
        dry_run: bool,
        context: &SessionContext<'_>,
    ) -> BulkOrder {
        let number = selection.message.as_ref().map(|message| message.number);
        let waiting = context.backlog.waiting();
        let not_examined =
            if number.is_some() { 0 } else { waiting.waiting_files + waiting.paged_out };
        let fetch = Fetch::new(number);
        let is_whole = selection.means_whole_messages();
        let search = Search::new(selection, context.now, verb == Verb::Release);
        let (sum, last, ordered) = (Effect::default(), None, None);
        BulkOrder { verb, fetch, search, dry_run, is_whole, not_examined, sum, last, ordered }
    }

    /// Returns what has been changed so far.
    pub(super) fn sum(&self) -> &Effect {
        &self.sum
    }

    /// Returns true for a dry run.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    fn kind(&self) -> OrderKind {
        match self.verb {
            Verb::Hold(_) => OrderKind::HoldMessages,
            Verb::Release => OrderKind::Release,
            _ => OrderKind::Other,
        }
    }

    /// Counts what an order about these would change.
    fn count_effect(&mut self, found: &[Selected], context: &SessionContext<'_>) {
        for found in found {
            let is_new = self.last != Some(found.target.number);
            self.last = Some(found.target.number);
            let effect = match self.verb {
                Verb::Hold(_) if is_new => context.scheduler.dry_run_hold(found.id),
                Verb::Release if is_new => context.scheduler.dry_run_release(found.id),
                Verb::Hold(_) | Verb::Release => Effect::default(),
                Verb::Retry => effect_of_retry(found, is_new),
                Verb::Expire | Verb::Delete | Verb::Reroute => effect_of_removal(found, is_new),
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
fn effect_of_retry(found: &Selected, is_new: bool) -> Effect {
    Effect {
        messages: u32::from(is_new),
        recipients: if found.is_waiting { found.recipients } else { 0 },
        held: if found.is_held_back { found.recipients } else { 0 },
        ..Effect::default()
    }
}

/// Counts the effect of a removal in the same way as the core.
fn effect_of_removal(found: &Selected, is_new: bool) -> Effect {
    let (recipients, busy) =
        if found.is_busy { (0, found.recipients) } else { (found.recipients, 0) };
    Effect { messages: u32::from(is_new), recipients, busy, ..Effect::default() }
}

impl Task for BulkOrder {
    fn next(&mut self, context: &mut SessionContext<'_>) -> Next {
        // After a refusal or a failure to store, further messages would fail, too.
        if self.sum.refusal.is_some() || self.sum.unstored.is_some() {
            return Next::Over;
        }
        if let Some(step) = self.fetch.next(context) {
            return step;
        }
        match self.search.next(context) {
            Found::Needs(lookup) => Next::Needs(lookup),
            Found::More => Next::More,
            Found::Over => Next::Over,
            Found::Some(found) if self.dry_run => {
                self.count_effect(&found, context);
                Next::More
            }
            Found::Some(found) if found.is_empty() => Next::More,
            Found::Some(found) => Next::Order(self.order(found)),
        }
    }

    fn order_done(&mut self, effect: &Effect) {
        let (first, last) = self.ordered.take().unzip();
        let mut effect = *effect;
        // The message was already counted with the last order, which had its first recipients.
        let is_rest = first.is_some() && first == self.last;
        effect.messages = effect.messages.saturating_sub(u32::from(is_rest));
        self.sum.add(&effect);
        self.last = last;
    }

    fn lookup_done(&mut self, result: LookupResult) {
        self.search.lookup_done(result);
    }

    fn tell(&self) -> String {
        outcome::answer_with_unseen(self.kind(), &self.sum, self.dry_run, self.not_examined)
    }

    fn progress(&self) -> String {
        let far = outcome::effect_counts(&self.sum);
        match self.ordered {
            Some(_) => {
                format!("{far}, and up to {MAX_ENTRIES_PER_STEP} messages in progress")
            }
            None => far,
        }
    }
}
