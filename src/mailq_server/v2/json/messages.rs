//! `SHOW JSON MESSAGES`: one object for each message and destination.

use super::{MAX_OBJECTS_PER_STEP, ago, line, seconds, text};
use crate::v2::arguments::Arguments;
use crate::v2::search::Search;
use crate::v2::selection::Selection;
use crate::v2::task::{Answer, Reply, ReplyResult, SessionContext, Step, Task};
use std::ops::ControlFlow;
use std::vec;
use zsched_core::select::Selected;
use zsched_core::view::QueuedVertex;
use zsched_format::time::Timestamp;
use zsched_mailq_protocol::schema::QueuedMessage;

/// Maximum number of steps without a match per turn.
const MAX_EMPTY_STEPS_PER_TURN: usize = 20;

fn queued_message(queued: &QueuedVertex<'_>, now: Timestamp) -> QueuedMessage {
    QueuedMessage {
        id: queued.message.spool_id().to_string(),
        name: Some(queued.message.name.to_string()),
        channel: text(queued.thread.destination.channel()),
        host: text(queued.thread.destination.host()),
        recipients: u64::from(queued.vertex.pending),
        age: Some(ago(now, queued.message.modified)),
        attempts: u64::from(queued.vertex.attempts),
        place: Some(queued.place().to_string()),
        expires: queued.expiry().map(seconds),
        text: queued.text().map(text),
    }
}

/// Answers the request.
pub(crate) fn answer(rest: &[u8], context: &mut SessionContext<'_>) -> ReplyResult {
    let mut words = Arguments::parse(rest)?;
    let limit = super::threads::limit(&mut words)?;
    let selection = Selection::take(&mut words)?;
    words.end()?;
    selection.require(rest.len())?;
    Ok(Reply::long_text(MessagesText {
        search: Search::new(selection, context.now, false),
        left: limit.unwrap_or(usize::MAX),
        found: Vec::new().into_iter(),
        empty_steps: 0,
    }))
}

struct MessagesText {
    search: Search,
    /// How many more may be shown.
    left: usize,
    /// Entries found and not shown yet.
    found: vec::IntoIter<Selected>,
    /// Steps without a match in this turn.
    empty_steps: usize,
}

impl MessagesText {
    /// Writes found entries in their current state, except those that are gone.
    fn write_found(&mut self, context: &SessionContext<'_>, out: &mut Vec<u8>) {
        for found in self.found.by_ref().take(MAX_OBJECTS_PER_STEP.min(self.left)) {
            let queued = found.vertex.and_then(|vertex| context.scheduler.view().vertex(vertex));
            if let Some(queued) = queued.filter(|queued| {
                queued.message.spool_id() == found.id
                    && Some(&queued.thread.destination) == found.target.destination.as_ref()
            }) {
                line(out, &queued_message(&queued, context.now));
                self.left -= 1;
            }
        }
    }
}

impl Task for MessagesText {
    fn step(&mut self, context: &mut SessionContext<'_>, out: &mut Vec<u8>) -> Step {
        if self.left == 0 {
            return Step::Done;
        }
        if self.found.len() > 0 {
            self.write_found(context, out);
            return Step::More;
        }
        match self.search.next(context) {
            ControlFlow::Continue(found) => self.found = found.into_iter(),
            ControlFlow::Break(step) => return step,
        }
        self.empty_steps += usize::from(self.found.len() == 0);
        if self.empty_steps < MAX_EMPTY_STEPS_PER_TURN {
            return Step::More;
        }
        self.empty_steps = 0;
        Step::Pause
    }

    fn take_answer(&mut self, answer: Answer) {
        self.search.take_answer(answer);
    }
}
