//! The review: when orders in force have changed, every thread is compared with them again.
//!
//! With many threads that takes longer than delivery may stop, so some are looked at with each turn, and the
//! order is answered when all were. One that comes meanwhile joins in, and has its own round: it is over
//! where it began. A thread that has not been looked at yet is served as before.

use super::Scheduler;
use super::order::{Effect, OrderTicket};
use super::thread::ThreadId;
use super::timers::Timer;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use zsched_format::time::Timestamp;

/// So many orders in force, with which a thread is compared, count as one thread more.
const ORDERS_PER_THREAD: usize = 10;

/// How far a review is.
#[derive(Default, Serialize, Deserialize)]
pub struct Review {
    /// The place in the pool of threads that comes next.
    next: usize,
    /// For whom, the oldest first.
    rounds: VecDeque<Round>,
    /// How often limits have changed.
    limits: u32,
}

/// A whole look at all threads, for one order.
#[derive(Serialize, Deserialize)]
struct Round {
    /// It is told what has changed; `None` where nobody ordered it.
    ticket: Option<OrderTicket>,
    /// Where it began.
    start: usize,
    /// It has come to the end of the pool, and goes on at its beginning.
    has_turned: bool,
}

impl Review {
    /// Whether there may be threads that were not looked at yet.
    pub fn is_under_way(&self) -> bool {
        !self.rounds.is_empty()
    }

    /// Limits have changed: rings are to be looked at, too.
    pub fn limits_have_changed(&mut self) {
        self.limits = self.limits.wrapping_add(1);
    }

    /// Names the limits of now, in contrast to former ones.
    pub fn limits(&self) -> u32 {
        self.limits
    }

    /// The oldest round, if it is over where the review is now.
    fn end_round(&mut self) -> Option<Round> {
        let next = self.next;
        let is_over = |round: &Round| round.has_turned && next >= round.start;
        if self.rounds.front().is_some_and(is_over) { self.rounds.pop_front() } else { None }
    }
}

impl Scheduler {
    /// Every thread is to be compared with the orders in force. What changes is added to the present order,
    /// which is not answered before.
    pub(super) fn review(&mut self, now: Timestamp) {
        let ticket = self.add_part();
        let start = self.review.next;
        self.review.rounds.push_back(Round { ticket, start, has_turned: false });
        if self.review.rounds.len() == 1 {
            self.review_on(now);
        }
    }

    /// Looks at the next threads.
    pub(super) fn review_on(&mut self, now: Timestamp) {
        let cost = 1 + self.standing.reviewed() / ORDERS_PER_THREAD;
        let mut left = self.settings.reload_step.max(cost);
        while self.review.is_under_way() {
            if left < cost {
                return self.timers.add(now, Timer::Review);
            }
            left -= cost;
            if let Some(thread) = self.threads.pool().at(self.review.next) {
                let effect = self.review_thread(thread);
                let ticket = self.review.rounds.front().and_then(|round| round.ticket);
                self.order_has_done(ticket, &effect);
            }
            self.review.next += 1;
            if self.review.next >= self.threads.pool().slots() {
                self.review.next = 0;
                self.review.rounds.iter_mut().for_each(|round| round.has_turned = true);
            }
            while let Some(round) = self.review.end_round() {
                if let Some(ticket) = round.ticket {
                    self.part_of_order_done(ticket, None);
                }
            }
        }
    }

    fn review_thread(&mut self, thread: ThreadId) -> Effect {
        let mut effect = Effect::default();
        self.review_ring(self.threads[thread].ring);
        if self.look_at_limits_of_thread(thread) {
            effect.threads = 1;
        }
        // The ring may have another limit, too.
        self.update_readiness(thread);
        if self.look_at_hold(thread) {
            let thread_ref = &self.threads[thread];
            effect.threads = 1;
            effect.recipients = thread_ref.recipients;
            let fed = thread_ref.fed.iter(&self.vertices);
            effect.busy = fed.map(|vertex| self.vertices[vertex].pending).sum();
            // One that is in a ring that has more to do is served at once.
            self.update_readiness_at_wakeup(thread);
        }
        effect
    }
}
