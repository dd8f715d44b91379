//! Removals of whole messages that cannot be completed at once.
//!
//! Some recipients are with agents, or unloaded. Such an order is an override until the message has
//! left. It survives a restart, and applies to each part of the message that is loaded later.

use super::Scheduler;
use super::change::Change;
use super::message::MessageId;
use super::standing::{Author, Ending};
use super::vertex::Fate;
use zsched_format::time::Timestamp;

/// Maximum number of removals kept.
///
/// A removal is left over if its message leaves while the override cannot be stored.
const MOST_ENDINGS: usize = 50_000;

impl Scheduler {
    /// Orders the removal of a message that cannot be completed yet.
    pub(super) fn order_ending(&mut self, message: MessageId, fate: Fate, author: &Author) {
        let id = self.messages[message].spool_id();
        if self.standing.endings.len() >= MOST_ENDINGS {
            self.standing.forget_oldest_ending();
        }
        let ending = Ending { message: id, fate, author: author.clone() };
        self.standing.change(Change::Ending(ending));
        self.keep_standing_orders();
    }

    /// Returns true if the removal of a whole message was ordered.
    pub(super) fn is_to_end(&self, message: MessageId) -> bool {
        self.standing.ending_of(self.messages[message].spool_id()).is_some()
    }

    /// Carries out an ordered removal on what has just been loaded.
    pub(super) fn carry_out_ending(&mut self, now: Timestamp, message: MessageId) {
        let id = self.messages[message].spool_id();
        let Some(Ending { fate, author, .. }) = self.standing.ending_of(id).cloned() else {
            return;
        };
        let vertices = self.messages[message].vertices.to_vec(&self.vertices);
        self.end_vertices(now, message, &vertices, (fate, &author));
    }
}
