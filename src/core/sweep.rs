//! The sweep: a pass over all threads, for a change that concerns each of them.
//!
//! A new configuration, a step of the clock, and changed overrides are such changes. One cursor
//! goes round the threads for all of them, some threads in each turn ([`crate::stepwise`]). A
//! change is complete when the cursor is back where it was when the change came.
//!
//! Until the cursor reaches a thread, it is served as before. A thread that something arrives for,
//! or whose timer expires, gets the configuration and the clock at once.

use crate::Scheduler;
use crate::operator::order::OrderTicket;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Number of overrides that cost as much as a thread.
const OVERRIDES_PER_THREAD: usize = 10;

/// A change that is applied to every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SweptChange {
    /// A new configuration.
    Configuration,
    /// A step of the clock.
    Clock,
    /// Overrides of operators, with the order that waits for it.
    Overrides(Option<OrderTicket>),
}

/// The changes that are not applied to all threads yet.
#[derive(Default, Serialize, Deserialize)]
pub struct ThreadSweep {
    /// Slot of the next thread.
    cursor: usize,
    /// The oldest first, which is complete first.
    rounds: VecDeque<SweepRound>,
}

/// One round of the cursor.
#[derive(Serialize, Deserialize)]
struct SweepRound {
    change: SweptChange,
    /// Slot at which it began.
    start: usize,
    /// The cursor has passed the last slot and continues at the first.
    has_turned: bool,
}

impl ThreadSweep {
    /// Returns true if threads may still be without this change.
    pub fn applies(&self, change: SweptChange) -> bool {
        self.rounds.iter().any(|round| round.change == change)
    }

    /// Returns true if threads may still be without the newest overrides.
    pub fn applies_overrides(&self) -> bool {
        self.override_orders().next().is_some()
    }

    /// The orders of the changed overrides, the oldest first.
    pub(crate) fn override_orders(&self) -> impl Iterator<Item = Option<OrderTicket>> {
        self.rounds.iter().filter_map(|round| match round.change {
            SweptChange::Overrides(order) => Some(order),
            _ => None,
        })
    }

    /// Starts a round for a change.
    ///
    /// A newer configuration or clock step replaces the former one.
    fn start(&mut self, change: SweptChange) {
        if !matches!(change, SweptChange::Overrides(_)) {
            self.rounds.retain(|round| round.change != change);
        }
        self.rounds.push_back(SweepRound { change, start: self.cursor, has_turned: false });
    }

    /// Moves the cursor to the next of `slots` slots.
    fn advance(&mut self, slots: usize) {
        self.cursor += 1;
        if self.cursor >= slots {
            self.cursor = 0;
            for round in &mut self.rounds {
                // Its first slot may be gone. Then it ends at the next turn.
                round.start = if round.has_turned { 0 } else { round.start };
                round.has_turned = true;
            }
        }
    }

    /// Removes and returns the oldest change if it is complete.
    fn pop_complete(&mut self) -> Option<SweptChange> {
        let round = self.rounds.front()?;
        let is_complete = round.has_turned && self.cursor >= round.start;
        if is_complete { self.rounds.pop_front().map(|round| round.change) } else { None }
    }
}

impl Scheduler {
    /// Starts to apply a change to all threads, and applies it to the first of them.
    pub(crate) fn start_sweep(&mut self, change: SweptChange) {
        self.sweep.start(change);
        let mut budget = self.cx.settings.step();
        while budget > 0 && self.sweep.rounds.len() == 1 && self.may_sweep() {
            budget = self.sweep_step(budget);
        }
    }

    /// Returns true if the sweep has threads left, and may go on.
    pub(crate) fn may_sweep(&self) -> bool {
        !self.sweep.rounds.is_empty() && !self.queue.has_backfill()
    }

    /// Applies the changes to the next thread.
    pub(crate) fn sweep_step(&mut self, budget: usize) -> usize {
        let mut cost = 1;
        if let Some(thread) = self.queue.threads().pool().at(self.sweep.cursor) {
            if self.sweep.applies(SweptChange::Configuration) {
                cost = self.queue.thread(thread).step_cost();
            }
            self.reassign_ring(thread);
            let order = self.sweep.override_orders().next();
            if let Some(order) = order {
                cost += self.overrides.compared_per_thread() / OVERRIDES_PER_THREAD;
                let effect = self.queue.apply_overrides(&self.overrides, thread);
                self.orders.add_order_effect(order, &effect);
            }
        }
        self.sweep.advance(self.queue.threads().pool().slots());
        while let Some(change) = self.sweep.pop_complete() {
            if let SweptChange::Overrides(Some(order)) = change {
                self.orders.finish_order_part(&mut self.cx, order, None);
            }
        }
        budget.saturating_sub(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_ends_when_its_first_slot_is_gone() {
        let mut sweep = ThreadSweep::default();
        (0..40).for_each(|_| sweep.advance(100));
        sweep.start(SweptChange::Clock);
        // All threads leave, and one arrives.
        let is_over = |sweep: &mut ThreadSweep| {
            sweep.advance(1);
            sweep.pop_complete().is_some()
        };
        assert!(!is_over(&mut sweep));
        assert!(is_over(&mut sweep));
    }
}
