//! The oldest message of a thread.

use crate::queue::{Queue, Thread};
use zsched_format::time::Timestamp;

/// Maximum number of messages of a thread examined for the oldest.
///
/// The others have usually come later.
pub const MAX_MESSAGES_EXAMINED: usize = 10_000;

impl Queue {
    pub(crate) fn oldest_of(&self, thread: &Thread) -> Option<Timestamp> {
        let arrived = |vertex| self.messages[self.vertices[vertex].message].modified;
        let lists = [&thread.fed, &thread.due, &thread.held_back];
        let share = MAX_MESSAGES_EXAMINED / (lists.len() + 1);
        let waiting = thread.waiting.iter(&self.vertices).take(share);
        let others = lists.into_iter().flat_map(|list| list.iter(&self.vertices).take(share));
        others.chain(waiting).map(arrived).min()
    }
}
