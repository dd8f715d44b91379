//! Ends that operators have ordered for whole messages, where it takes a while: recipients are with agents,
//! or not in memory. Such an order is one in force until the message has left: it outlives the scheduler, and
//! is carried out on whatever comes of the message.

use super::Scheduler;
use super::change::Change;
use super::message::MessageId;
use super::standing::{Author, Ending};
use super::vertex::Fate;
use zsched_format::time::Timestamp;

/// So many ends are kept. One stays if its message leaves when nobody can store that any more.
const MOST_ENDINGS: usize = 50_000;

impl Scheduler {
    /// An operator wants a whole message to end, of which some cannot be ended yet.
    pub(super) fn order_ending(&mut self, message: MessageId, fate: Fate, author: &Author) {
        let id = self.messages[message].spool_id();
        if self.standing.endings.len() >= MOST_ENDINGS {
            self.standing.forget_oldest_ending();
        }
        let ending = Ending { message: id, fate, author: author.clone() };
        self.standing.change(Change::Ending(ending));
        self.keep_standing_orders();
    }

    /// Whether somebody has ordered the end of a whole message.
    pub(super) fn is_to_end(&self, message: MessageId) -> bool {
        self.standing.ending_of(self.messages[message].spool_id()).is_some()
    }

    /// Something of a message has come into memory: if its end was ordered before, it ends.
    pub(super) fn carry_out_ending(&mut self, now: Timestamp, message: MessageId) {
        let id = self.messages[message].spool_id();
        let Some(Ending { fate, author, .. }) = self.standing.ending_of(id).cloned() else {
            return;
        };
        let vertices = self.messages[message].vertices.to_vec(&self.vertices);
        self.end_vertices(now, message, &vertices, (fate, &author));
    }
}
