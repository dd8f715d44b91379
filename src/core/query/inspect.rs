//! Read-only view of one message, for `schedsim explain`.

use crate::Scheduler;
use crate::dispatch::agent::AgentId;
use crate::query::why::Reason;
use crate::queue::destination::Destination;
use crate::queue::vertex::VertexId;
use std::rc::Rc;
use zsched_config::Clause;
use zsched_spool::{Arrival, Group, SpoolId};

/// A vertex of a message, and its state.
#[derive(Clone, Debug)]
pub struct VertexInspection {
    /// Its channel.
    pub channel: Rc<[u8]>,
    /// Its host.
    pub host: Rc<[u8]>,
    /// Offsets of the unfinished recipients.
    pub offsets: Vec<u32>,
    /// The effective clause.
    pub clause: Rc<Clause>,
    /// Reports on it so far, plus agents that died over it.
    pub attempts: u32,
    /// Its id, for [`Scheduler::why_in_message`].
    pub vertex: VertexId,
    /// What it waits for.
    pub reason: Reason,
}

impl Scheduler {
    /// The vertices of the message of a number, if there is one.
    pub fn inspect(&self, number: u64) -> Option<Vec<VertexInspection>> {
        let message = &self.queue.messages[self.queue.messages.find(number)?];
        let vertices = message.vertices.iter(&self.queue.vertices).map(|id| {
            let vertex = &self.queue.vertices[id];
            let thread = &self.queue.threads[vertex.thread];
            VertexInspection {
                channel: thread.destination.channel().into(),
                host: thread.destination.host().into(),
                offsets: vertex.recipients.pending(),
                clause: self.dispatch.rings[thread.ring].clause.clone(),
                attempts: vertex.attempts,
                vertex: id,
                reason: self.reason_of(id),
            }
        });
        Some(vertices.collect())
    }

    /// The spool id of the message of a number, if there is one.
    pub fn spool_id(&self, number: u64) -> Option<SpoolId> {
        Some(self.queue.messages[self.queue.messages.find(number)?].spool_id())
    }

    /// The process of an agent, once it has one.
    pub fn process_of(&self, agent: AgentId) -> Option<u32> {
        self.dispatch.agents.get(agent)?.pid
    }

    /// Destination of a job of an agent.
    ///
    /// `host` is the host in the job line. If there is none, the agent was started for the host.
    pub fn destination_of_job(&self, agent: AgentId, host: Option<&[u8]>) -> Option<Destination> {
        let ring = &self.dispatch.rings[self.dispatch.agents.get(agent)?.ring];
        Some(Destination::new(&ring.channel, host.or(ring.host.as_deref())?))
    }

    /// All messages with their unfinished recipients, as new arrivals.
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival> + '_ {
        let queued = self.queue.messages.iter().filter(|(_, message)| !message.is_forgotten);
        queued.map(|(_, message)| {
            let groups = message.vertices.iter(&self.queue.vertices).map(|id| {
                let vertex = &self.queue.vertices[id];
                let destination = &self.queue.threads[vertex.thread].destination;
                Group {
                    channel: destination.channel().into(),
                    host: destination.host().into(),
                    offsets: vertex.recipients.pending(),
                }
            });
            Arrival {
                next_offset: None,
                max_unread: 0,
                is_chunk: false,
                name: message.name.clone(),
                modified: message.modified,
                created: message.created,
                priority: message.priority,
                report_due: message.owes_report,
                first_undeliverable: None,
                etrn_hosts: Vec::new(),
                recipients: message.recipients,
                failed: message.failed,
                groups: groups.collect(),
                locked: Vec::new(),
            }
        })
    }
}
