//! The removal of messages from the spool.
//!
//! A message leaves the spool when it is complete (`Message::is_complete`): each recipient is
//! finished, each note is on disk, no agent has a job of it, it is neither partial nor being read
//! again, no alternative is left to be tried, and its sender has got the reports about it. If a
//! note, a report or the removal fails (a full disk), it is tried again until it succeeds. The
//! message stays known meanwhile.

use crate::action::Action;
use crate::context::Context;
use crate::outcome::sender_reports::SenderReportState;
use crate::queue::{MessageFlag, MessageId, Queue};
use log::Level;

impl Queue {
    /// Drops the unfinished recipients of a message.
    pub(crate) fn drop_recipients(&mut self, cx: &mut Context, message: MessageId) {
        for vertex in self.vertices_of(message) {
            for offset in self.vertices[vertex].pending_offsets() {
                self.drop_recipient(cx, vertex, offset);
            }
        }
    }

    /// Records that a message is no longer in the spool.
    ///
    /// Only its jobs keep it in memory. Its number may come again.
    pub(crate) fn forget_message(&mut self, id: MessageId) {
        let message = &mut self.messages[id];
        message.report = SenderReportState::None;
        message.notes = 0;
        message.set(MessageFlag::Rereading, false);
        message.set(MessageFlag::WantsAlternative, false);
        message.set(MessageFlag::Forgotten, true);
        self.messages.release_number(id);
    }

    pub(crate) fn remove_from_spool(&mut self, cx: &mut Context, message: MessageId) {
        let message_ref = &mut self.messages[message];
        message_ref.set(MessageFlag::Removing, true);
        if cx.settings.log_finished_messages {
            let id = message_ref.spool_id();
            let (total, failed) = (message_ref.recipients, message_ref.failed);
            cx.log(Level::Debug, format!("{id}: complete ({total} recipients, {failed} failed)"));
        }
        self.remove_again(cx, message);
    }

    pub(crate) fn remove_again(&self, cx: &mut Context, message: MessageId) {
        let message = &self.messages[message];
        let aside = message.is(MessageFlag::HasUndeliverableLines);
        cx.act(Action::Remove { name: message.name(), modified: message.modified, aside });
    }
}
