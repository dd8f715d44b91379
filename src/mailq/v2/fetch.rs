//! An order is about a message that may not be in memory: then it is read first.

use super::answer::{Chore, Next, Surroundings};
use crate::time::Timestamp;
use std::time::Duration;

/// So long it is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A message that is wanted in memory.
pub struct Fetch {
    number: Option<u64>,
    /// When it was asked for.
    asked: Option<Timestamp>,
}

impl Fetch {
    /// Nothing is asked yet. Without a number there is nothing to be done.
    pub fn new(number: Option<u64>) -> Fetch {
        Fetch { number, asked: None }
    }

    /// What is to be done before the message is there; `None` if it is, or never will be.
    pub fn next(&mut self, around: &Surroundings<'_>) -> Option<Next> {
        let number = self.number?;
        let is_there = around.scheduler.spool_id(number).is_some();
        let is_late = self.asked.is_some_and(|asked| around.now.since(asked) > PATIENCE);
        if is_there || is_late || around.elsewhere.whereabouts(number).is_none() {
            self.number = None;
            return None;
        }
        if self.asked.replace(self.asked.unwrap_or(around.now)).is_none() {
            return Some(Next::Chore(Chore::Load(number)));
        }
        Some(Next::More)
    }
}
