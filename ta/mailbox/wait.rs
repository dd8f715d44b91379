//! The wait of a delivery for a locked mailbox.

use std::thread;
use std::time::{Duration, Instant};
use zsched_agent::Delivery;

/// A wait that ends at a deadline, or when the agent is stopped.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    deadline: Instant,
    delivery: Option<&'a Delivery<'a>>,
}

impl<'a> Wait<'a> {
    /// Creates a wait during this delivery.
    pub fn during(delivery: &'a Delivery<'a>, deadline: Instant) -> Wait<'a> {
        Wait { deadline, delivery: Some(delivery) }
    }

    /// Creates a wait that only the deadline ends.
    #[cfg(test)]
    pub fn until(deadline: Instant) -> Wait<'static> {
        Wait { deadline, delivery: None }
    }

    /// Sleeps for `pause`, a fraction of a second. If the wait is over, returns `false` without
    /// sleeping.
    pub fn sleep_unless_over(&self, pause: Duration) -> bool {
        let is_over = Instant::now() >= self.deadline
            || self.delivery.is_some_and(|delivery| delivery.is_stopping());
        if !is_over {
            thread::sleep(pause);
        }
        !is_over
    }
}
