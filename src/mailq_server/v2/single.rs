//! Orders that are one for the core, whatever they are about.

use super::answer::{Deed, Next, Surroundings};
use super::outcome::{self, Kind};
use zsched_core::foresee::HoldChange;
use zsched_core::{Effect, Order};

/// So many threads are looked at in one step of a dry run.
const FORESEEN: usize = 1000;

/// One order.
pub struct Single {
    kind: Kind,
    plan: Plan,
    effect: Effect,
    dry_run: bool,
}

enum Plan {
    /// To give an order.
    Order(Order),
    /// To find out what a change would do to threads, from a place on.
    Foresee(HoldChange, Option<usize>),
    /// All is done.
    Done,
}

impl Single {
    /// An order that is to be given.
    pub fn order(kind: Kind, order: Order) -> Single {
        Single { kind, plan: Plan::Order(order), effect: Effect::default(), dry_run: false }
    }

    /// Finds out what a change would do.
    pub fn foresee(kind: Kind, change: HoldChange) -> Single {
        let plan = Plan::Foresee(change, Some(0));
        Single { kind, plan, effect: Effect::default(), dry_run: true }
    }

    /// Tells what is known already of a dry run.
    pub fn known(kind: Kind, effect: Effect) -> Single {
        Single { kind, plan: Plan::Done, effect, dry_run: true }
    }

    /// What it has changed, or would.
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
                let effect = around.scheduler.foresee_review(&change, &mut next, FORESEEN);
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
