//! Orders that are given to the core once, whatever they are about.

use super::answer::{Deed, Next, Surroundings};
use super::outcome::{self, Kind};
use zsched_core::dry_run::HoldChange;
use zsched_core::{Effect, Order};

/// Maximum number of threads examined per step of a dry run.
const FORESEEN: usize = 1000;

/// A single order.
pub struct Single {
    kind: Kind,
    plan: Plan,
    effect: Effect,
    dry_run: bool,
}

enum Plan {
    /// Give this order.
    Order(Order),
    /// Find out what a change would do to threads, starting at an index.
    Foresee(HoldChange, Option<usize>),
    /// All is done.
    Done,
}

impl Single {
    /// Creates an order to be given.
    pub fn order(kind: Kind, order: Order) -> Single {
        Single { kind, plan: Plan::Order(order), effect: Effect::default(), dry_run: false }
    }

    /// Creates a dry run of a change.
    pub fn foresee(kind: Kind, change: HoldChange) -> Single {
        let plan = Plan::Foresee(change, Some(0));
        Single { kind, plan, effect: Effect::default(), dry_run: true }
    }

    /// Creates an order whose effect is already known.
    pub fn known(kind: Kind, effect: Effect) -> Single {
        Single { kind, plan: Plan::Done, effect, dry_run: true }
    }

    /// Returns what it has changed, or would change.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }
}

impl Deed for Single {
    fn next(&mut self, around: &mut Surroundings<'_>) -> Next {
        match std::mem::replace(&mut self.plan, Plan::Done) {
            Plan::Done => Next::Over,
            Plan::Order(order) => Next::Order(order),
            Plan::Foresee(_, None) => Next::Over,
            Plan::Foresee(change, mut next) => {
                let effect = around.scheduler.dry_run_reapply(&change, &mut next, FORESEEN);
                self.effect.add(&effect);
                self.plan = Plan::Foresee(change, next);
                Next::More
            }
        }
    }

    fn obeyed(&mut self, effect: &Effect) {
        self.effect.add(effect);
    }

    fn tell(&self) -> String {
        outcome::tell(self.kind, &self.effect, self.dry_run)
    }

    fn so_far(&self) -> String {
        "it is one order, which is carried out".to_string()
    }
}
