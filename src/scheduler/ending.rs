//! Ends that operators have ordered for whole messages, where it takes a while: recipients are with agents,
//! or not in memory. Such an order is one in force until the message has left: it outlives the scheduler, and
//! is carried out on whatever comes of the message.

use super::Scheduler;
use super::message::MessageId;
use super::standing::{Author, Ending};
use super::vertex::{Fate, Place};
use crate::time::Timestamp;

impl Scheduler {
    /// An operator wants a whole message to end, of which some cannot be ended yet.
    pub(super) fn order_ending(&mut self, message: MessageId, fate: Fate, author: &Author) {
        let id = self.messages[message].spool_id();
        let ending = Ending { message: id, fate, author: author.clone() };
        self.standing.endings.insert(id.number, ending);
        self.keep_standing_orders();
    }

    /// Something of a message has come into memory: if its end was ordered before, it ends.
    pub(super) fn carry_out_ending(&mut self, now: Timestamp, message: MessageId) {
        let id = self.messages[message].spool_id();
        let Some(fate) = self.standing.ending_of(id).map(|ending| ending.fate) else {
            return;
        };
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            self.vertices[vertex].fate = fate;
            if self.vertices[vertex].place != Place::Fed {
                self.meet_fate(now, vertex);
            }
        }
    }
}
