//! What replays of recordings read besides the views.

use crate::dispatch::AgentId;
use crate::query::view::View;
use crate::queue::{Destination, MessageFlag};
use zsched_spool::{Arrival, Group};

impl<'s> View<'s> {
    /// Destination of a job of an agent.
    ///
    /// `host` is the host in the job line. If there is none, the agent was started for the host.
    pub fn destination_of_job(self, agent: AgentId, host: Option<&[u8]>) -> Option<Destination> {
        let ring = self.core.queue.ring(self.core.dispatch.agents().get(agent)?.ring);
        Some(Destination::new(&ring.channel, host.or(ring.host.as_deref())?))
    }

    /// All messages with their unfinished recipients, as new arrivals.
    pub fn arrivals(self) -> impl Iterator<Item = Arrival> + 's {
        let queued = self
            .core
            .queue
            .messages()
            .iter()
            .filter(|(_, message)| !message.is(MessageFlag::Forgotten));
        queued.map(move |(id, message)| {
            let groups = self.vertices_of(message).map(|queued| {
                let to = &queued.thread.destination;
                Group::new(to.channel(), to.host(), &queued.vertex.pending_offsets())
            });
            Arrival {
                next_offset: None,
                max_unread: 0,
                is_chunk: false,
                name: message.name(),
                modified: message.modified,
                created: message.created,
                priority: message.priority,
                report_due: message.is(MessageFlag::OwesReport),
                delay_noted: None,
                deliver_by: message.deliver_by(),
                schedule: self.core.queue.messages().schedules.arrival_schedule(id),
                first_undeliverable: None,
                has_alternatives: message.is(MessageFlag::HasAlternatives),
                last_recipient: message.last_recipient,
                etrn_hosts: Vec::new(),
                recipients: message.recipients,
                failed: message.failed,
                groups: groups.collect(),
                locked: Vec::new(),
            }
        })
    }
}
