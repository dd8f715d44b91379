//! Orders of operators: about one thing, or about many messages.
//!
//! Messages are searched and orders are given in steps, so that delivery continues however many
//! there are.

use super::arguments::{Arguments, SyntaxError};
use super::outcome::{self, OrderKind};
use super::requests::next_word;
use super::search::{MAX_ENTRIES_PER_STEP, Search};
use super::selection::Selection;
use super::task::{Answer, Reply, ReplyResult, SessionContext, Step, Task};
use std::ops::ControlFlow;
use std::time::Duration;
use zsched_core::dry_run::HoldChange;
use zsched_core::select::Selected;
use zsched_core::view::{QueuedVertex, VertexState};
use zsched_core::{Effect, Order, OrderRefusal, Target};
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::LimitChange;
use zsched_spool::SpoolId;

/// Maximum number of threads examined per step of a dry run.
const MAX_THREADS_PER_STEP: usize = 1000;

/// Time between two reports of progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

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
    /// 0 to 9, or [`zsched_format::priority::KEPT_PRIORITY`].
    Priority(u8),
}

/// `PRIORITY level selection`: sets the priority of the selected messages.
pub(super) fn priority(rest: &[u8], context: &SessionContext<'_>) -> ReplyResult {
    let (level, selection) = next_word(rest);
    let level = std::str::from_utf8(level).ok().and_then(zsched_format::priority::parse);
    match level {
        Some(level) => order_for_selection(selection, Verb::Priority(level), context),
        None => Err(SyntaxError::new(0, "the priority is a digit, or z")),
    }
}

/// `RETRY selection` and the like: an action on the selected mail.
pub(super) fn order_for_selection(
    rest: &[u8],
    verb: Verb,
    context: &SessionContext<'_>,
) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let selection = Selection::take(&mut words)?;
    let (dry_run, progress) = (words.flag("dry-run")?, words.flag("progress")?);
    words.end()?;
    selection.require(rest.len())?;
    let order = OperatorOrder::for_messages(verb, selection, dry_run, context);
    Ok(Reply::change(order.with_progress(progress, context.now)))
}

/// `REROUTE selection`: returns mail to the router.
///
/// ZMailer recognizes the verb and none of its arguments. Text that is no selection is therefore an
/// unknown request here, too.
pub(super) fn reroute(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let is_selection = next_word(rest).0.iter().any(|byte| matches!(byte, b'/' | b'='));
    if is_selection {
        order_for_selection(rest, Verb::Reroute, context)
    } else {
        Ok(Reply::Unknown)
    }
}

/// An order, and its progress: first the messages that a search finds, then what follows them.
pub(super) struct OperatorOrder {
    kind: OrderKind,
    dry_run: bool,
    messages: Option<MessageOrder>,
    follow_up: FollowUp,
    /// What was changed, or would be changed by a dry run.
    sum: Effect,
    /// Limits that it changes.
    limits: Vec<LimitChange>,
    /// Time of the next report of progress; `None` if the client did not ask for any.
    next_report: Option<Timestamp>,
}

/// What follows the messages.
enum FollowUp {
    /// Nothing.
    Nothing,
    /// These orders.
    Orders(std::vec::IntoIter<Order>),
    /// A count of what this change would do to threads, starting at an index.
    DryRun(HoldChange, usize),
}

/// An action on the messages that a search finds.
struct MessageOrder {
    verb: Verb,
    /// Number of a message that has to be loaded before the search.
    to_load: Option<u64>,
    search: Search,
    is_search_over: bool,
    /// True if whole messages are meant.
    is_whole: bool,
    /// Number of messages that are not in memory and were therefore not examined.
    not_examined: usize,
    /// Number of the last message counted; more of its recipients may follow.
    last: Option<u64>,
    /// Lowest and highest message number in the order that is not answered yet.
    ordered: Option<(u64, u64)>,
}

impl OperatorOrder {
    /// Creates an order that is given once.
    pub(super) fn new(kind: OrderKind, order: Order) -> OperatorOrder {
        OperatorOrder::sequence(kind, vec![order])
    }

    /// Creates an order in several parts.
    pub(super) fn sequence(kind: OrderKind, orders: Vec<Order>) -> OperatorOrder {
        let (follow_up, sum) = (FollowUp::Orders(orders.into_iter()), Effect::default());
        OperatorOrder { follow_up, ..OperatorOrder::finished(kind, sum) }
    }

    fn finished(kind: OrderKind, sum: Effect) -> OperatorOrder {
        let (messages, follow_up, limits) = (None, FollowUp::Nothing, Vec::new());
        OperatorOrder { kind, dry_run: false, messages, follow_up, sum, limits, next_report: None }
    }

    /// Reports its progress to the client if that is wanted.
    pub(super) fn with_progress(self, is_wanted: bool, now: Timestamp) -> OperatorOrder {
        OperatorOrder { next_report: is_wanted.then_some(now + REPORT_INTERVAL), ..self }
    }

    /// Adds the changes of limits to the answer.
    pub(super) fn with_limits(self, limits: Vec<LimitChange>) -> OperatorOrder {
        OperatorOrder { limits, ..self }
    }

    /// Creates a dry run of a change.
    pub(super) fn dry_run(kind: OrderKind, change: HoldChange) -> OperatorOrder {
        let follow_up = FollowUp::DryRun(change, 0);
        let finished = OperatorOrder::finished(kind, Effect::default());
        OperatorOrder { dry_run: true, follow_up, ..finished }
    }

    /// Creates an order that is refused.
    pub(super) fn refused(kind: OrderKind, refusal: OrderRefusal) -> OperatorOrder {
        let sum = Effect { refusal: Some(refusal), ..Effect::default() };
        OperatorOrder { dry_run: true, ..OperatorOrder::finished(kind, sum) }
    }

    /// Creates an order about the selected messages; nothing is done yet.
    pub(super) fn for_messages(
        verb: Verb,
        selection: Selection,
        dry_run: bool,
        context: &SessionContext<'_>,
    ) -> OperatorOrder {
        let kind = match verb {
            Verb::Hold(_) => OrderKind::HoldMessages,
            Verb::Priority(_) => OrderKind::Priority,
            Verb::Release => OrderKind::Release,
            _ => OrderKind::Other,
        };
        let to_load = selection.message.as_ref().map(|message| message.number);
        let waiting = context.backlog.waiting();
        let on_disk = waiting.waiting_files + waiting.paged_out;
        let messages = MessageOrder {
            to_load,
            not_examined: if to_load.is_some() { 0 } else { on_disk },
            is_whole: selection.means_whole_messages(),
            search: Search::new(selection, context.now, verb == Verb::Release),
            is_search_over: false,
            verb,
            last: None,
            ordered: None,
        };
        let messages = Some(messages);
        OperatorOrder { dry_run, messages, ..OperatorOrder::finished(kind, Effect::default()) }
    }

    /// `RELEASE ALL`: first the messages, in steps, then everything else.
    pub(super) fn release_all(dry_run: bool, context: &SessionContext<'_>) -> OperatorOrder {
        if nothing_is_held(context) {
            return OperatorOrder::refused(OrderKind::Release, OrderRefusal::NotFound);
        }
        let all = Selection::default();
        let mut order = OperatorOrder::for_messages(Verb::Release, all, dry_run, context);
        order.messages.iter_mut().for_each(|messages| messages.not_examined = 0);
        order.follow_up = match dry_run {
            true => FollowUp::DryRun(HoldChange::ReleaseAll, 0),
            false => FollowUp::Orders(vec![Order::ReleaseAll].into_iter()),
        };
        order
    }

    /// Sends the progress of the order to the client, if that was requested and is due.
    fn report_progress(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        if let Some(next) = &mut self.next_report
            && *next <= now
        {
            *next = now + REPORT_INTERVAL;
            out.extend_from_slice(format!("*{}\n", outcome::effect_counts(&self.sum)).as_bytes());
        }
    }

    /// Takes the next step, except for the answer.
    fn next(&mut self, context: &SessionContext<'_>) -> Step {
        // After a refusal or a failure to store, further orders would fail, too.
        if self.sum.refusal.is_some() || self.sum.unstored.is_some() {
            return Step::Done;
        }
        if let Some(messages) = self.messages.as_mut().filter(|messages| !messages.is_search_over) {
            match messages.next(self.dry_run, &mut self.sum, context) {
                Step::Done => messages.is_search_over = true,
                step => return step,
            }
            // If only messages were held, RELEASE ALL has nothing left to release.
            if self.sum.messages > 0 && nothing_is_held(context) {
                self.follow_up = FollowUp::Nothing;
            }
        }
        match std::mem::replace(&mut self.follow_up, FollowUp::Nothing) {
            FollowUp::Nothing => Step::Done,
            FollowUp::Orders(mut orders) => match orders.next() {
                Some(order) => {
                    self.follow_up = FollowUp::Orders(orders);
                    Step::Order(order)
                }
                None => Step::Done,
            },
            FollowUp::DryRun(change, index) => {
                let mut next = Some(index);
                let scheduler = context.scheduler;
                self.sum.add(&scheduler.view().dry_run_reapply(
                    &change,
                    &mut next,
                    MAX_THREADS_PER_STEP,
                ));
                if let Some(index) = next {
                    self.follow_up = FollowUp::DryRun(change, index);
                }
                Step::Pause
            }
        }
    }
}

/// Returns true if no hold is in force.
fn nothing_is_held(context: &SessionContext<'_>) -> bool {
    let overrides = context.scheduler.view().overrides();
    overrides.holds.is_empty() && overrides.messages.is_empty()
}

impl Task for OperatorOrder {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        let step = self.next(context);
        if let Step::Done = step {
            let unseen = self.messages.as_ref().map_or(0, |messages| messages.not_examined);
            let answer = outcome::answer(
                self.kind,
                &self.sum,
                self.dry_run,
                unseen,
                std::mem::take(&mut self.limits),
            );
            out.extend_from_slice(answer.as_bytes());
        } else {
            self.report_progress(context.now, out);
        }
        step
    }

    fn take_answer(&mut self, answer: Answer) {
        match (answer, &mut self.messages) {
            (Answer::Order(mut effect), Some(messages)) => {
                messages.order_done(&mut effect);
                self.sum.add(&effect);
            }
            (Answer::Order(effect), None) => self.sum.add(&effect),
            (answer, Some(messages)) => messages.search.take_answer(answer),
            (_, None) => {}
        }
    }

    fn progress(&self) -> String {
        let done = outcome::effect_counts(&self.sum);
        match &self.messages {
            None => "the order is carried out completely".to_string(),
            Some(MessageOrder { ordered: Some(_), .. }) => {
                format!("{done}, and up to {MAX_ENTRIES_PER_STEP} messages in progress")
            }
            Some(_) => done,
        }
    }
}

impl MessageOrder {
    /// Takes the next step; `Done` at the end of the search.
    fn next(&mut self, dry_run: bool, sum: &mut Effect, context: &SessionContext<'_>) -> Step {
        if let Some(step) = self.to_load.take().and_then(|number| context.step_to_load(number)) {
            return step;
        }
        match self.search.next(context) {
            ControlFlow::Break(step) => step,
            ControlFlow::Continue(found) if dry_run => {
                found.iter().for_each(|found| sum.add(&self.predict_effect(found, context)));
                Step::Pause
            }
            ControlFlow::Continue(found) if found.is_empty() => Step::Pause,
            ControlFlow::Continue(found) => Step::Order(self.order(found)),
        }
    }

    /// Counts what an order about this entry would change.
    fn predict_effect(&mut self, found: &Selected, context: &SessionContext<'_>) -> Effect {
        let is_new = self.last != Some(found.target.number);
        self.last = Some(found.target.number);
        match self.verb {
            Verb::Hold(_) if is_new => context.scheduler.view().dry_run_hold(found.id),
            Verb::Release if is_new => context.scheduler.view().dry_run_release(found.id),
            Verb::Priority(level) if is_new => {
                context.scheduler.view().dry_run_priority(found.id, level)
            }
            Verb::Hold(_) | Verb::Release | Verb::Priority(_) => Effect::default(),
            Verb::Retry | Verb::Expire | Verb::Delete | Verb::Reroute => {
                let vertex = found.vertex;
                let queued = vertex.and_then(|vertex| {
                    context.scheduler.view().vertex_in_message(found.id.number, vertex)
                });
                let effect = queued.map_or(Effect::default(), |queued| match self.verb {
                    Verb::Retry => effect_of_retry(&queued),
                    _ => effect_of_removal(&queued),
                });
                Effect { messages: u32::from(is_new), ..effect }
            }
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
            Verb::Priority(priority) => Order::SetPriority { messages: ids, priority: *priority },
        }
    }

    /// Records that the last order is carried out, and subtracts what is counted already.
    fn order_done(&mut self, effect: &mut Effect) {
        let (first, last) = self.ordered.take().unzip();
        // The message was already counted with the last order, which had its first recipients.
        let is_rest = first.is_some() && first == self.last;
        effect.messages = effect.messages.saturating_sub(u32::from(is_rest));
        self.last = last;
    }
}

/// Counts the effect of a retry in the same way as the core.
fn effect_of_retry(queued: &QueuedVertex<'_>) -> Effect {
    let (vertex, thread) = (queued.vertex, queued.thread);
    let is_held = vertex.state == VertexState::Held || thread.held;
    let counted = |is_counted: bool| if is_counted { vertex.pending() } else { 0 };
    Effect {
        recipients: counted(vertex.state == VertexState::Waiting && !is_held),
        held: counted(is_held),
        ..Effect::default()
    }
}

/// Counts the effect of a removal in the same way as the core.
fn effect_of_removal(queued: &QueuedVertex<'_>) -> Effect {
    let count = queued.vertex.pending();
    match queued.vertex.state {
        VertexState::Fed => Effect { busy: count, ..Effect::default() },
        _ => Effect { recipients: count, ..Effect::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_once_a_second_if_wanted() {
        let start = Timestamp::from_seconds(1_000);
        let reports = |is_wanted| {
            let order = OperatorOrder::sequence(OrderKind::Other, Vec::new());
            let mut order = order.with_progress(is_wanted, start);
            let mut out = Vec::new();
            for tenth in 0..25 {
                order.report_progress(start + tenth * Duration::from_millis(100), &mut out);
            }
            String::from_utf8(out).expect("text")
        };
        assert_eq!(reports(true), "*0 messages, 0 recipients, and 0 in agents\n".repeat(2));
        assert_eq!(reports(false), "");
    }
}
