//! Removals of whole messages that cannot be completed at once.
//!
//! Some recipients are with agents, or unloaded. Such an order is an override until the message has
//! left. It survives a restart, and applies to each part of the message that is loaded later.

use crate::Scheduler;
use crate::bulk::cancellation;
use crate::operator::overrides::{Author, OverrideChange, Overrides, PendingRemoval};
use crate::queue::{AfterJob, MessageId, Queue};

/// Maximum number of removals kept.
///
/// A removal is left over if its message leaves while the override cannot be stored.
const MAX_REMOVALS: usize = 50_000;

impl Scheduler {
    /// Ends what no agent has of a message that is to end.
    pub(crate) fn end_free_vertices(&mut self, message: MessageId) {
        let ordered = self.overrides.removal_of(self.queue.message(message).spool_id());
        let (after_job, author) = match ordered.cloned() {
            Some(PendingRemoval { after_job, author, .. }) => (after_job, author),
            None => (AfterJob::Delete, cancellation(self.cx.now)),
        };
        let vertices = self.queue.vertices_of(message);
        self.end_vertices(message, &vertices, (after_job, &author));
    }

    /// Returns true if all of a message is to end: its removal was ordered, or its bulk job is
    /// cancelled.
    pub(crate) fn is_to_end(&self, message: MessageId) -> bool {
        self.overrides.removal_of(self.queue.message(message).spool_id()).is_some()
            || self.bulk.is_cancelled(&self.queue, message)
    }
}

impl Overrides {
    /// Orders the removal of a message that cannot be completed yet.
    pub(crate) fn order_removal(
        &mut self,
        queue: &Queue,
        message: MessageId,
        after_job: AfterJob,
        author: &Author,
    ) {
        let id = queue.message(message).spool_id();
        if self.removals.len() >= MAX_REMOVALS {
            self.drop_oldest_removal();
        }
        let removal = PendingRemoval { message: id, after_job, author: author.clone() };
        self.change(OverrideChange::Removal(removal));
    }
}
