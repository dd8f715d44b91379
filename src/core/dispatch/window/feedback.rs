//! Feedback: the number of agents, learned from deliveries.
//!
//! The algorithm is Postfix's (`SCHEDULER_README`, "Concurrency scheduling").
//!
//! A delivery that the host has answered adds `positive-feedback` to a sum. When the sum reaches
//! one, at the end of a round, the window grows by one agent. A delivery that could not reach the
//! host subtracts `negative-feedback`, and the first one of a round takes a whole agent at once.
//! Otherwise too much mail would be deferred before the window has shrunk.

use serde::{Deserialize, Serialize};
use std::fmt;
use zsched_config::Flow;

/// Tolerance for the rounding errors in the sum of a round.
const ROUNDING_TOLERANCE: f64 = 1e-9;

/// State that was learned about the concurrency of one destination.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// The window: maximum number of agents at a time, at least 1.
    pub concurrency: u32,
    /// Sum towards one more agent.
    success: f64,
    /// What is left until one agent less.
    failure: f64,
    /// Failed pseudo-cohorts in a row.
    ///
    /// They are rounds of as many deliveries as the window is large.
    failed_cohorts: f64,
}

impl Feedback {
    /// Creates the state of an unknown destination.
    pub fn new(concurrency: u32) -> Feedback {
        Feedback { concurrency: concurrency.max(1), ..Feedback::default() }
    }

    /// Processes an answer of the host.
    ///
    /// `initial` is the initial window, `limit` the largest, and `busy` the number of agents at
    /// work, this one included.
    pub fn answered(&mut self, flow: &Flow, initial: u32, limit: u32, busy: u32) {
        self.failed_cohorts = 0.0;
        let Some(feedback) = flow.positive else {
            return;
        };
        // A window that is not used up does not grow. It would otherwise have to shrink all the way
        // back before there are fewer deliveries.
        if self.concurrency >= busy.saturating_add(initial) {
            return;
        }
        self.success += feedback.at_concurrency(self.concurrency);
        while self.success >= 1.0 - ROUNDING_TOLERANCE {
            self.concurrency += 1;
            self.failure = 0.0;
            self.success = (self.success - 1.0).max(0.0);
        }
        self.concurrency = self.concurrency.min(limit.max(1));
    }

    /// Processes a delivery that could not reach the host.
    ///
    /// Returns true if too many rounds have failed: the destination is dead.
    pub fn failed(&mut self, flow: &Flow) -> bool {
        self.failed_cohorts += 1.0 / f64::from(self.concurrency);
        let limit = f64::from(flow.failed_cohorts);
        if flow.failed_cohorts > 0 && self.failed_cohorts >= limit - ROUNDING_TOLERANCE {
            return true;
        }
        if let Some(feedback) = flow.negative {
            self.failure -= feedback.at_concurrency(self.concurrency);
            while self.failure < -ROUNDING_TOLERANCE {
                self.concurrency = self.concurrency.saturating_sub(1);
                self.failure += 1.0;
                self.success = 0.0;
            }
            self.concurrency = self.concurrency.max(1);
        }
        false
    }
}

impl fmt::Display for Feedback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Feedback { concurrency, success, failure, failed_cohorts } = self;
        write!(
            f,
            "{concurrency} (success {success:.3}, failure {failure:.3}, failed rounds \
             {failed_cohorts:.3})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::clause;

    fn flow(text: &str) -> Flow {
        clause(text).flow.clone()
    }

    fn windows(feedback: &mut Feedback, flow: &Flow, events: &str) -> Vec<u32> {
        let mut all = Vec::new();
        for event in events.chars() {
            match event {
                '+' => feedback.answered(flow, 20, 20, 20),
                _ => assert!(!feedback.failed(flow)),
            }
            all.push(feedback.concurrency);
        }
        all
    }

    #[test]
    fn feedback_one_changes_window_with_each_delivery() {
        let flow = flow("maxthr=20 positive-feedback=1 negative-feedback=1");
        let mut feedback = Feedback::new(5);
        assert_eq!(windows(&mut feedback, &flow, "+++---"), [6, 7, 8, 7, 6, 5]);
    }

    #[test]
    fn window_grows_at_end_of_round_and_shrinks_at_start() {
        let flow =
            flow("maxthr=20 positive-feedback=1/concurrency negative-feedback=1/concurrency");
        let mut feedback = Feedback::new(4);
        assert_eq!(windows(&mut feedback, &flow, "++++"), [4, 4, 4, 5]);
        // The first failure takes the agent; the rest of the round takes nothing more.
        assert_eq!(windows(&mut feedback, &flow, "----"), [4, 4, 4, 4]);
        assert_eq!(windows(&mut feedback, &flow, "-"), [3]);
        // A failure in the middle restarts the round of answers.
        assert_eq!(windows(&mut feedback, &flow, "++++"), [3, 3, 4, 4]);
        let mut feedback = Feedback::new(4);
        assert_eq!(windows(&mut feedback, &flow, "+++-++++"), [4, 4, 4, 3, 3, 3, 4, 4]);
    }

    #[test]
    fn sqrt_and_fraction_feedback_change_window_per_round() {
        let root = flow("maxthr=20 positive-feedback=1/sqrt(concurrency) negative-feedback=0.25");
        let mut feedback = Feedback::new(4);
        assert_eq!(windows(&mut feedback, &root, "++--"), [4, 5, 4, 4]);
        let sixths = flow("maxthr=20 positive-feedback=1/concurrency");
        let mut feedback = Feedback::new(6);
        assert_eq!(windows(&mut feedback, &sixths, "++++++-"), [6, 6, 6, 6, 6, 7, 7]);
    }

    #[test]
    fn window_stays_between_one_and_limit() {
        let flow = flow("maxthr=20 positive-feedback=1 negative-feedback=1");
        let mut feedback = Feedback::new(1);
        assert_eq!(windows(&mut feedback, &flow, "---"), [1, 1, 1]);
        feedback.answered(&flow, 3, 2, 1);
        feedback.answered(&flow, 3, 2, 2);
        assert_eq!(feedback.concurrency, 2);
    }

    #[test]
    fn unused_window_does_not_grow() {
        let flow = flow("maxthr=20 positive-feedback=1 negative-feedback=1");
        let mut feedback = Feedback::new(5);
        feedback.answered(&flow, 2, 20, 3);
        assert_eq!(feedback.concurrency, 5);
        feedback.answered(&flow, 2, 20, 4);
        assert_eq!(feedback.concurrency, 6);
    }

    #[test]
    fn failed_rounds_up_to_limit_make_destination_dead() {
        let flow = flow("maxthr=20 failed-cohort-limit=2");
        let mut feedback = Feedback::new(5);
        let is_dead: Vec<bool> = (0..10).map(|_| feedback.failed(&flow)).collect();
        assert_eq!(is_dead.iter().filter(|is_dead| **is_dead).count(), 1);
        assert!(is_dead[9]);
        let mut feedback = Feedback::new(5);
        for _ in 0..9 {
            assert!(!feedback.failed(&flow));
        }
        // One answer restarts the count.
        feedback.answered(&flow, 5, 20, 5);
        assert!(!feedback.failed(&flow));
    }
}
