//! Priorities of queued messages, changed by an operator.
//!
//! A message with another priority takes its new place at once: what agents have is left to them,
//! and the rest of the message is chosen by the new priority. With the priority `z` it is kept.

use crate::Scheduler;
use crate::bulk::BulkOrder;
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::overrides::{Author, MAX_HELD_MESSAGES, OverrideChange, PriorityOverride};
use crate::query::view::View;
use crate::queue::VertexState;
use zsched_bulk::PacketNumber;
use zsched_spool::SpoolId;

impl Scheduler {
    /// Sets the priority of messages, as many as the limit allows.
    ///
    /// Messages that have it already do not change.
    pub(crate) fn set_priority(
        &mut self,
        messages: &[SpoolId],
        priority: u8,
        author: &Author,
    ) -> Effect {
        let mut all = Effect::default();
        for id in messages {
            // All packets of a bulk job have one priority, also those that are not cut yet.
            let packet = PacketNumber::of_message(id.number);
            if let Some(job) = packet.and_then(|packet| self.view().bulk_job(packet.job)) {
                if job.priority() != priority {
                    let (id, order) = (job.id, BulkOrder::Priority(priority));
                    all.add(&self.bulk.order(&mut self.cx, id, order, &author.name));
                }
                continue;
            }
            let Some(message) = self.queue.message_of(*id) else { continue };
            if self.queue.message(message).priority == priority {
                continue;
            }
            let is_new = !self.overrides.priorities.contains_key(&id.number);
            if is_new && self.overrides.priorities.len() >= MAX_HELD_MESSAGES {
                all.refusal = Some(OrderRefusal::TooMany);
                break;
            }
            let set = PriorityOverride { message: *id, priority, author: author.clone() };
            self.overrides.change(OverrideChange::Priority(set));
            all.add(&self.view().dry_run_priority(*id, priority));
            self.queue.change_priority(&mut self.cx, message, priority);
        }
        all
    }
}

impl View<'_> {
    /// Returns what another priority of a message would change.
    pub fn dry_run_priority(self, id: SpoolId, priority: u8) -> Effect {
        let message =
            self.core.queue.message_of(id).map(|message| self.core.queue.message(message));
        let Some(message) = message.filter(|message| message.priority != priority) else {
            return Effect::default();
        };
        let mut effect = Effect { messages: 1, ..Effect::default() };
        for vertex in message.vertices.iter(self.core.queue.vertices()) {
            let vertex = self.core.queue.vertex(vertex);
            match vertex.state {
                VertexState::Fed => effect.busy += vertex.pending(),
                _ => effect.recipients += vertex.pending(),
            }
        }
        effect
    }
}
