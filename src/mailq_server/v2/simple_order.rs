//! Orders that are given to the core once, whatever they are about.

use super::answer::{Next, SessionContext, Task};
use super::outcome::{self, OrderKind};
use zsched_core::dry_run::HoldChange;
use zsched_core::{Effect, Order};

/// Maximum number of threads examined per step of a dry run.
const MAX_THREADS_PER_STEP: usize = 1000;

/// A single order.
pub(super) struct SimpleOrder {
    kind: OrderKind,
    plan: Plan,
    effect: Effect,
    dry_run: bool,
}

enum Plan {
    /// Give this order.
    Order(Order),
    /// Find out what a change would do to threads, starting at an index.
    DryRun(HoldChange, Option<usize>),
    /// All is done.
    Done,
}

impl SimpleOrder {
    /// Creates an order to be given.
    pub(super) fn order(kind: OrderKind, order: Order) -> SimpleOrder {
        SimpleOrder { kind, plan: Plan::Order(order), effect: Effect::default(), dry_run: false }
    }

    /// Creates a dry run of a change.
    pub(super) fn preview(kind: OrderKind, change: HoldChange) -> SimpleOrder {
        let plan = Plan::DryRun(change, Some(0));
        SimpleOrder { kind, plan, effect: Effect::default(), dry_run: true }
    }

    /// Creates an order whose effect is already known.
    pub(super) fn completed(kind: OrderKind, effect: Effect) -> SimpleOrder {
        SimpleOrder { kind, plan: Plan::Done, effect, dry_run: true }
    }

    /// Returns what it has changed, or would change.
    pub(super) fn effect(&self) -> &Effect {
        &self.effect
    }
}

impl Task for SimpleOrder {
    fn next(&mut self, context: &mut SessionContext<'_>) -> Next {
        match std::mem::replace(&mut self.plan, Plan::Done) {
            Plan::Done => Next::Over,
            Plan::Order(order) => Next::Order(order),
            Plan::DryRun(_, None) => Next::Over,
            Plan::DryRun(change, mut next) => {
                let effect =
                    context.scheduler.dry_run_reapply(&change, &mut next, MAX_THREADS_PER_STEP);
                self.effect.add(&effect);
                self.plan = Plan::DryRun(change, next);
                Next::More
            }
        }
    }

    fn order_done(&mut self, effect: &Effect) {
        self.effect.add(effect);
    }

    fn tell(&self) -> String {
        outcome::tell(self.kind, &self.effect, self.dry_run)
    }

    fn progress(&self) -> String {
        "the order is carried out completely".to_string()
    }
}
