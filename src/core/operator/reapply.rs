//! Reapplying the overrides to every thread when they change.
//!
//! With many threads that takes longer than delivery may stop, so some are compared in each turn.
//! The order is answered when all were. An order that comes meanwhile has a round of its own, which
//! is over where it began. A thread that was not compared yet is served as before.

use crate::Scheduler;
use crate::operator::order::{Effect, OrderTicket};
use crate::queue::thread::ThreadId;
use crate::timers::Timer;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use zsched_format::time::Timestamp;

/// Number of overrides that cost as much as a thread.
const OVERRIDES_PER_THREAD: usize = 10;

/// Progress of the comparison.
#[derive(Default, Serialize, Deserialize)]
pub struct ReapplyState {
    /// Slot in the pool of threads that comes next.
    next: usize,
    /// The rounds, the oldest first.
    rounds: VecDeque<ReapplyRound>,
    /// Number of the present version of the limits.
    limits_version: u32,
}

/// A pass over all threads for one order.
#[derive(Serialize, Deserialize)]
struct ReapplyRound {
    /// The order that waits for it.
    ///
    /// `None` if it was not ordered by an operator.
    ticket: Option<OrderTicket>,
    /// Slot at which it began.
    start: usize,
    /// It has passed the end of the pool and continues at the beginning.
    has_turned: bool,
}

impl ReapplyState {
    /// Returns true if some threads may not be compared yet.
    pub fn is_under_way(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Starts a new version of the limits.
    ///
    /// Rings are then compared, too.
    pub fn start_limits_version(&mut self) {
        self.limits_version = self.limits_version.wrapping_add(1);
    }

    /// Number of the present version of the limits.
    pub fn limits_version(&self) -> u32 {
        self.limits_version
    }

    /// Removes and returns the oldest round if it ends at the present slot.
    fn end_round(&mut self) -> Option<ReapplyRound> {
        let next = self.next;
        let is_over = |round: &ReapplyRound| round.has_turned && next >= round.start;
        if self.rounds.front().is_some_and(is_over) { self.rounds.pop_front() } else { None }
    }
}

impl Scheduler {
    /// Compares every thread with the overrides.
    ///
    /// Changes are added to the effect of the present order, which is answered after the last
    /// thread.
    pub(crate) fn reapply_overrides(&mut self, now: Timestamp) {
        let ticket = self.add_part();
        let start = self.review.next;
        self.review.rounds.push_back(ReapplyRound { ticket, start, has_turned: false });
        if self.review.rounds.len() == 1 {
            self.reapply_some(now);
        }
    }

    /// Compares the next threads.
    pub(crate) fn reapply_some(&mut self, now: Timestamp) {
        let cost = 1 + self.standing.compared_per_thread() / OVERRIDES_PER_THREAD;
        let mut left = self.settings.reload_step.max(cost);
        while self.review.is_under_way() {
            if left < cost {
                return self.timers.add(now, Timer::Reapply);
            }
            left -= cost;
            if let Some(thread) = self.threads.pool().at(self.review.next) {
                let effect = self.reapply_to_thread(thread);
                let ticket = self.review.rounds.front().and_then(|round| round.ticket);
                self.add_order_effect(ticket, &effect);
            }
            self.review.next += 1;
            if self.review.next >= self.threads.pool().slots() {
                self.review.next = 0;
                self.review.rounds.iter_mut().for_each(|round| round.has_turned = true);
            }
            while let Some(round) = self.review.end_round() {
                if let Some(ticket) = round.ticket {
                    self.finish_order_part(ticket, None);
                }
            }
        }
    }

    fn reapply_to_thread(&mut self, thread: ThreadId) -> Effect {
        let mut effect = Effect::default();
        self.reapply_limits_to_ring(self.threads[thread].ring);
        if self.apply_limits_to_thread(thread) {
            effect.threads = 1;
        }
        // The limit of the ring may have changed, too.
        self.threads.mark(thread);
        if self.update_hold(thread) {
            let thread_ref = &self.threads[thread];
            effect.threads = 1;
            effect.recipients = thread_ref.recipients;
            let fed = thread_ref.fed.iter(&self.vertices);
            effect.busy = fed.map(|vertex| self.vertices[vertex].pending).sum();
            // A thread that was released is served at once, even with `wakeup-restart-only`.
            self.threads[thread].is_woken = true;
        }
        effect
    }
}
