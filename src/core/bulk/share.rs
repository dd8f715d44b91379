//! The share of a job: at most a part of the agents of a destination work on it.
//!
//! A packet of a job with a share that becomes due passes a *gate*, of which each window of the job
//! has one: that of a destination, or one that destinations share (`window-key`). Where as many
//! packets are with agents, or due, as the share allows, further ones are kept back, whether they
//! are new, retried by themselves, or by an operator.

use super::BulkJobs;
use super::job::Job;
use super::packets::packet_of;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::dispatch::window::WindowId;
use crate::queue::{MessageFlag, MessageId, Queue, ThreadId, Vertex, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_format::time::Timestamp;

/// Destinations whose agents are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Group {
    /// Those of a window.
    Window(WindowId),
    /// One without a window of its own.
    Thread(ThreadId),
}

/// The gates of a job.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Gates {
    /// Packets that have passed, and are due or with an agent.
    passed: BTreeMap<u32, Group>,
    /// Packets that are kept back, by their group.
    waiting: BTreeSet<(Group, u32)>,
    groups: BTreeMap<u32, Group>,
}

impl Gates {
    /// A packet is neither due nor with an agent any more.
    pub fn leave(&mut self, packet: u32) {
        self.passed.remove(&packet);
        self.stop_waiting(packet);
    }

    fn stop_waiting(&mut self, packet: u32) {
        if let Some(group) = self.groups.remove(&packet) {
            self.waiting.remove(&(group, packet));
        }
    }

    fn wait(&mut self, packet: u32, group: Group) {
        self.leave(packet);
        self.waiting.insert((group, packet));
        self.groups.insert(packet, group);
    }

    /// Returns true if packets are kept back.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if a packet is kept back.
    pub fn has_kept(&self, packet: u32) -> bool {
        self.groups.contains_key(&packet)
    }

    fn first_waiting(&self, group: Group) -> Option<u32> {
        let of_group = (group, 0)..=(group, u32::MAX);
        self.waiting.range(of_group).next().map(|(_, packet)| *packet)
    }

    fn passed(&self, group: Group) -> u32 {
        self.passed.values().filter(|of| **of == group).count() as u32
    }
}

impl BulkJobs {
    /// Lets a packet that is due pass, or keeps it back.
    ///
    /// This comes before agents get anything.
    pub(crate) fn apply_share(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        now: Timestamp,
        vertex: VertexId,
    ) {
        let is_due = |vertex: &&Vertex| vertex.state == VertexState::Due;
        let Some(message) = queue.vertices().get(vertex).filter(is_due).map(|it| it.message) else {
            return;
        };
        if let Some(packet) = packet_of(queue, message)
            && let Some(job) = self.jobs.get_mut(&packet.job)
            && job.share() < MAX_SHARE
            && !job.passes(queue, dispatch, packet, vertex)
        {
            queue.message_mut(message).set(MessageFlag::KeptByJob, true);
            queue.keep_back(now, message);
        }
    }
}

impl Job {
    fn passes(
        &mut self,
        queue: &Queue,
        dispatch: &Dispatch,
        packet: PacketNumber,
        vertex: VertexId,
    ) -> bool {
        let thread = queue.vertex(vertex).thread;
        let group = group_of(queue, thread);
        // Its destination has another thread if all of its mail has left memory meanwhile.
        if self.gates.passed.get(&packet.offset) == Some(&group) {
            return true;
        }
        let agents = dispatch.window_size(queue, queue.thread(thread));
        let most = self.share_of(u32::try_from(agents).unwrap_or(u32::MAX));
        if self.gates.passed(group) >= most {
            self.forget_idle(queue, packet.job);
        }
        let has_passed = self.gates.passed(group) < most;
        if has_passed {
            self.gates.passed.insert(packet.offset, group);
        } else {
            self.gates.wait(packet.offset, group);
        }
        has_passed
    }

    /// A packet passes the gate again under other orders, unless an agent has it.
    pub(super) fn return_to_gate(&mut self, queue: &Queue, packet: u32, message: MessageId) {
        self.gates.leave(packet);
        let mut vertices = queue.message(message).vertices.iter(queue.vertices());
        if let Some(fed) = vertices.find(|id| queue.vertex(*id).state == VertexState::Fed) {
            self.gates.passed.insert(packet, group_of(queue, queue.vertex(fed).thread));
        }
    }

    /// Forgets packets that have passed, and are neither due nor with an agent any more.
    fn forget_idle(&mut self, queue: &Queue, id: JobId) {
        self.gates.passed.retain(|offset, _| {
            let number = PacketNumber { job: id, offset: *offset }.message();
            let message = queue.messages().find(number);
            message.is_some_and(|message| is_with_agents(queue, message))
        });
    }

    /// Lets packets go that were kept back, as far as there is room. They pass the gate then.
    pub(super) fn release_packets(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        id: JobId,
    ) {
        self.forget_idle(queue, id);
        let groups: BTreeSet<Group> = self.gates.groups.values().copied().collect();
        for group in groups {
            let mut passed = self.gates.passed(group);
            while let Some(packet) = self.gates.first_waiting(group) {
                let number = PacketNumber { job: id, offset: packet }.message();
                let Some(message) = queue.messages().find(number) else {
                    self.gates.stop_waiting(packet);
                    continue;
                };
                // Without one, more of the packet is read, and passes the gate.
                if let Some(first) = queue.message(message).vertices.first() {
                    let thread = queue.thread(queue.vertex(first).thread);
                    let agents = dispatch.window_size(queue, thread);
                    if passed >= self.share_of(u32::try_from(agents).unwrap_or(u32::MAX)) {
                        break;
                    }
                    passed += 1;
                }
                self.gates.stop_waiting(packet);
                queue.message_mut(message).set(MessageFlag::KeptByJob, false);
                queue.let_go(cx, message);
            }
        }
    }
}

fn group_of(queue: &Queue, thread: ThreadId) -> Group {
    let window = queue.thread(thread).window;
    window.map_or(Group::Thread(thread), Group::Window)
}

/// Returns true if a part of a message is due or with an agent.
fn is_with_agents(queue: &Queue, message: MessageId) -> bool {
    let mut vertices = queue.message(message).vertices.iter(queue.vertices());
    vertices.any(|vertex| matches!(queue.vertex(vertex).state, VertexState::Due | VertexState::Fed))
}
