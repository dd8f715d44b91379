//! An order is about a message that may not be in memory: then it is read first.

use super::answer::{Chore, Next, Surroundings};

/// A message that is wanted in memory.
pub struct Fetch {
    number: Option<u64>,
}

impl Fetch {
    /// Nothing is asked yet. Without a number there is nothing to be done.
    pub fn new(number: Option<u64>) -> Fetch {
        Fetch { number }
    }

    /// What is to be done before the message is there; `None` if it is, or never will be. The session waits
    /// until that is done, so it is asked for once.
    pub fn next(&mut self, around: &Surroundings<'_>) -> Option<Next> {
        let number = self.number.take()?;
        let is_there = around.scheduler.spool_id(number).is_some();
        let can_come = !is_there && around.elsewhere.whereabouts(number).is_some();
        can_come.then_some(Next::Chore(Chore::Load(number)))
    }
}
