//! Control files that are read again.

use crate::action::Action;
use crate::context::Context;
use crate::queue::{MessageFlag, MessageId, Queue, VertexId};
use crate::timers::Timer;

impl Queue {
    /// The control file could not be read again: that is repeated if there are alternatives.
    pub(crate) fn retry_alternatives(&mut self, cx: &mut Context, message: MessageId) {
        if self.messages[message].is(MessageFlag::HasAlternatives) {
            self.messages[message].set(MessageFlag::Rereading, true);
            let again = cx.now + cx.settings.failed_write;
            cx.timers.add(again, Timer::ReadAgain(message));
        }
    }

    /// Reads a control file again after a failed attempt.
    pub(crate) fn read_again_timer(&self, cx: &mut Context, message: MessageId) {
        // The message may be gone, and its number that of another one, which is read twice then.
        let message_ref = self.messages.get(message);
        if let Some(message) = message_ref.filter(|message| message.is(MessageFlag::Rereading)) {
            cx.act(Action::ReadAgain(message.name()));
        }
    }

    pub(crate) fn vertex_ids_of(&self, message: MessageId) -> Vec<VertexId> {
        self.messages[message].vertices.to_vec(&self.vertices)
    }
}
