//! Read-only view of one message, for `schedsim explain`.

use crate::Scheduler;
use crate::dispatch::agent::AgentId;
use crate::dispatch::ring::Refusal;
use crate::queue::destination::Destination;
use crate::queue::vertex::VertexState;
use std::rc::Rc;
use zsched_config::Clause;
use zsched_format::time::Timestamp;
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
    /// Its state, and why.
    pub rest: VertexStatus,
}

/// State of a vertex, and what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VertexStatus {
    /// It is with an agent.
    Fed,
    /// It waits for its next try, or for a request.
    Waiting {
        /// When it becomes due; `None` means on a request for the host.
        until: Option<Timestamp>,
        /// Its destination is known to be unreachable until then.
        blocked: bool,
    },
    /// It is due, and agents are at work on its thread.
    InLine {
        /// Process of the agent that was attached last.
        pid: u32,
    },
    /// It is due, but its ring may not start an agent.
    Refused(&'static str),
    /// An operator holds it, or its thread.
    Held,
    /// It is due, and nothing delays it.
    Due,
}

impl Scheduler {
    /// The vertices of the message of a number, if there is one.
    pub fn inspect(&self, number: u64) -> Option<Vec<VertexInspection>> {
        let message = &self.messages[self.messages.find(number)?];
        let vertices = message.vertices.iter(&self.vertices).map(|id| {
            let vertex = &self.vertices[id];
            let thread = &self.threads[vertex.thread];
            VertexInspection {
                channel: thread.destination.channel().into(),
                host: thread.destination.host().into(),
                offsets: vertex.recipients.pending(),
                clause: self.rings[thread.ring].clause.clone(),
                attempts: vertex.attempts,
                rest: self.rest(vertex),
            }
        });
        Some(vertices.collect())
    }

    /// The spool id of the message of a number, if there is one.
    pub fn spool_id(&self, number: u64) -> Option<SpoolId> {
        Some(self.messages[self.messages.find(number)?].spool_id())
    }

    /// The process of an agent, once it has one.
    pub fn process_of(&self, agent: AgentId) -> Option<u32> {
        self.agents.get(&agent)?.pid
    }

    /// Destination of a job of an agent.
    ///
    /// `host` is the host in the job line. If there is none, the agent was started for the host.
    pub fn destination_of_job(&self, agent: AgentId, host: Option<&[u8]>) -> Option<Destination> {
        let ring = &self.rings[self.agents.get(&agent)?.ring];
        Some(Destination::new(&ring.channel, host.or(ring.host.as_deref())?))
    }

    fn rest(&self, vertex: &crate::queue::vertex::Vertex) -> VertexStatus {
        let thread = &self.threads[vertex.thread];
        match vertex.place {
            VertexState::Fed | VertexState::Finished => VertexStatus::Fed,
            VertexState::Held => VertexStatus::Held,
            VertexState::Due | VertexState::Waiting if thread.held => VertexStatus::Held,
            VertexState::Waiting => {
                let until = thread.waiting.wakeup(vertex.wave);
                let known = thread.retry.unreachable.as_ref();
                let blocked = known.is_some_and(|known| Some(known.until) == until);
                let until = until.map(|until| self.to_present_clock(thread, until));
                VertexStatus::Waiting { until, blocked }
            }
            VertexState::Due => {
                let (channel, host) = (thread.destination.channel(), thread.destination.host());
                let refusal = self.rings[thread.ring].refusal.filter(|_| thread.is_ready);
                match (thread.agents.last(), refusal) {
                    (Some(agent), _) => {
                        VertexStatus::InLine { pid: self.agents[agent].pid.unwrap_or_default() }
                    }
                    _ if !self.is_selected(channel, host) => {
                        VertexStatus::Refused(Refusal::NotSelected.reason())
                    }
                    (None, Some(refusal)) => VertexStatus::Refused(refusal.reason()),
                    (None, None) => VertexStatus::Due,
                }
            }
        }
    }

    /// All messages with their unfinished recipients, as new arrivals.
    pub fn arrivals(&self) -> impl Iterator<Item = Arrival> + '_ {
        let queued = self.messages.iter().filter(|(_, message)| !message.is_forgotten);
        queued.map(|(_, message)| {
            let groups = message.vertices.iter(&self.vertices).map(|id| {
                let vertex = &self.vertices[id];
                let destination = &self.threads[vertex.thread].destination;
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

impl Refusal {
    /// The reason in the words of configuration and command line.
    fn reason(self) -> &'static str {
        match self {
            Refusal::Kept => "mail-priority=z: it is kept back",
            Refusal::MaxAgents => "maxta: as many agents as may run at all",
            Refusal::MaxChannel => "maxchannel: as many agents as the channel may have",
            Refusal::MaxRing => "maxring: as many agents as the ring may have",
            Refusal::Claimed => "another ring has no agent, and waits until fewer of them run",
            Refusal::ForkRate => "fork rate (-R): enough agents were started in this second",
            Refusal::Frozen => "no agents are started (-F)",
            Refusal::Loading => "what was there at the start is still being loaded (-S)",
            Refusal::Ending => "the scheduler is about to end",
            Refusal::NotSelected => "-p selects another destination",
            Refusal::Suspended => "the ring's agents cannot be started",
            Refusal::Unproven => "no agent of the ring has asked for work yet",
            Refusal::NoCommand => "the clause has no command",
            Refusal::Reloading => "a new configuration is still being applied",
        }
    }
}
