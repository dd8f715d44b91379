//! Loads the message of an order if it is not in memory.

use super::answer::{AdminCommand, Next, SessionContext};

/// A message that an order needs in memory.
pub(super) struct Fetch {
    number: Option<u64>,
}

impl Fetch {
    /// Creates a fetch that has not begun.
    ///
    /// Without a number there is nothing to load.
    pub(super) fn new(number: Option<u64>) -> Fetch {
        Fetch { number }
    }

    /// Returns the step that loads the message.
    ///
    /// `None` if it is in memory, or cannot be loaded, or was requested before: the session waits
    /// until the step is done, so one request is enough.
    pub(super) fn next(&mut self, context: &SessionContext<'_>) -> Option<Next> {
        let number = self.number.take()?;
        let is_there = context.scheduler.spool_id(number).is_some();
        let can_come = !is_there && context.backlog.location(number).is_some();
        can_come.then_some(Next::AdminCommand(AdminCommand::Load(number)))
    }
}
