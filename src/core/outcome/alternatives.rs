//! Alternatives: recipients that are tried when others have failed for good.
//!
//! The reader of a control file finds which alternative is next, and makes it a recipient. So the
//! core only has the file read again after a failure, when the failure is on disk and no agent
//! works on the message. A message does not leave the spool before.

use crate::Scheduler;
use crate::admission::Admission;
use crate::context::Context;
use crate::outcome::notes::{NoteContent, Notes};
use crate::queue::{MessageFlag, MessageId, Queue, VertexId};
use log::Level;
use smallvec::smallvec;
use std::collections::BTreeSet;
use zsched_spool::Arrival;
use zsched_spool::note::OutcomeKind;

impl Scheduler {
    /// Queues the recipients that were added to a message.
    ///
    /// An agent may have taken one since it was added: one of an earlier scheduler, or one with
    /// another job for that host. Its outcome is read when that agent is done.
    pub(crate) fn queue_alternatives(&mut self, message: MessageId, mut arrival: Arrival) {
        let message_ref = self.queue.message_mut(message);
        let (known, last) = (message_ref.last_recipient, arrival.last_recipient);
        if arrival.locked.iter().any(|offset| *offset > known) {
            return self.queue.retry_alternatives(&mut self.cx, message);
        }
        message_ref.last_recipient = known.max(last);
        message_ref.set(MessageFlag::HasAlternatives, arrival.has_alternatives);
        message_ref.recipients = arrival.recipients;
        for group in &mut arrival.groups {
            group.offsets.retain(|offset| (known + 1..=last).contains(offset));
        }
        arrival.groups.retain(|group| !group.offsets.is_empty());
        if arrival.groups.is_empty() {
            return;
        }
        let added: usize = arrival.groups.iter().map(|group| group.offsets.len()).sum();
        let id = self.queue.message(message).spool_id();
        self.cx
            .log(Level::Info, format!("{id}: {added} alternatives of failed recipients are tried"));
        let before: BTreeSet<VertexId> = self.queue.vertex_ids_of(message).into_iter().collect();
        self.queue_chunk(message, &arrival);
        for vertex in self.queue.vertex_ids_of(message) {
            if !before.contains(&vertex) {
                self.queue.count_delay_notices(vertex, self.cx.now);
                self.queue.enqueue_vertex(self.cx.now, vertex);
            }
        }
    }
}

impl Notes {
    /// Marks a recipient that an agent has reported as failed, if the agent has not.
    pub(crate) fn mark_failed_alternative(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        message: MessageId,
        offset: u32,
    ) {
        if queue.message(message).is(MessageFlag::HasAlternatives) {
            let content =
                NoteContent::without_text(smallvec![offset], OutcomeKind::FailedAlternative);
            self.note(queue, cx, message, content);
        }
    }
}

impl Admission {
    /// Has the control file read again if a recipient with alternatives has failed.
    pub(crate) fn settle_alternatives(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        message: MessageId,
    ) {
        let message_ref = queue.message(message);
        let is_at_work =
            message_ref.notes > 0 || message_ref.jobs > 0 || message_ref.is(MessageFlag::Rereading);
        if message_ref.is(MessageFlag::WantsAlternative)
            && !is_at_work
            && !message_ref.is(MessageFlag::Removing)
        {
            queue.message_mut(message).set(MessageFlag::WantsAlternative, false);
            self.request_reread(queue, cx, message);
        }
    }
}
