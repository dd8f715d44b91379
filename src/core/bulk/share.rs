//! The share of a job: at most a part of the agents of a destination work on it.
//!
//! A packet of a job with a share that becomes due passes a *gate*, of which each window of the job
//! has one: that of a destination, or one that destinations share (`window-key`). Where as many
//! packets are with agents, or due, as the share allows, further ones are kept back, whether they
//! are new, retried by themselves, or by an operator.

use super::job::Job;
use crate::Scheduler;
use crate::dispatch::window::WindowId;
use crate::queue::{MessageId, ThreadId, Vertex, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};

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
        self.stop_waiting(packet);
        self.waiting.insert((group, packet));
        self.groups.insert(packet, group);
    }

    /// Returns true if packets are kept back.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn first_waiting(&self, group: Group) -> Option<u32> {
        let of_group = (group, 0)..=(group, u32::MAX);
        self.waiting.range(of_group).next().map(|(_, packet)| *packet)
    }

    fn passed(&self, group: Group) -> u32 {
        self.passed.values().filter(|of| **of == group).count() as u32
    }
}

impl Scheduler {
    /// Lets a packet that is due pass, or keeps it back.
    ///
    /// This comes before agents get anything.
    pub(crate) fn apply_share(&mut self, vertex: VertexId) {
        let is_due = |vertex: &Vertex| vertex.state == VertexState::Due;
        let Some(vertex_ref) = self.queue.vertices().get(vertex).filter(|it| is_due(it)) else {
            return;
        };
        let message = vertex_ref.message;
        if let Some(packet) = self.packet_of(message)
            && let Some(mut job) = self.bulk.jobs.remove(&packet.job)
        {
            if job.share() < MAX_SHARE && !self.passes(&mut job, packet, vertex) {
                self.queue.message_mut(message).is_kept_by_job = true;
                self.queue.keep_back(self.cx.now, message);
            }
            self.bulk.jobs.insert(packet.job, job);
        }
    }

    fn passes(&self, job: &mut Job, packet: PacketNumber, vertex: VertexId) -> bool {
        if job.gates.passed.contains_key(&packet.offset) {
            return true;
        }
        let thread = self.queue.vertex(vertex).thread;
        let group = self.group_of(thread);
        let agents = self.dispatch.window_size(&self.queue, self.queue.thread(thread));
        let most = job.share_of(u32::try_from(agents).unwrap_or(u32::MAX));
        if job.gates.passed(group) >= most {
            self.forget_idle(packet.job, job);
        }
        let has_passed = job.gates.passed(group) < most;
        if has_passed {
            job.gates.passed.insert(packet.offset, group);
        } else {
            job.gates.wait(packet.offset, group);
        }
        has_passed
    }

    fn group_of(&self, thread: ThreadId) -> Group {
        let window = self.queue.thread(thread).window;
        window.map_or(Group::Thread(thread), Group::Window)
    }

    /// Forgets packets that have passed, and are neither due nor with an agent any more.
    fn forget_idle(&self, id: JobId, job: &mut Job) {
        job.gates.passed.retain(|offset, _| {
            let number = PacketNumber { job: id, offset: *offset }.message();
            let message = self.queue.messages().find(number);
            message.is_some_and(|message| self.is_with_agents(message))
        });
    }

    /// Returns true if a part of a message is due or with an agent.
    fn is_with_agents(&self, message: MessageId) -> bool {
        let mut vertices = self.queue.message(message).vertices.iter(self.queue.vertices());
        vertices.any(|vertex| {
            matches!(self.queue.vertex(vertex).state, VertexState::Due | VertexState::Fed)
        })
    }

    /// Lets packets go that were kept back, as far as there is room. They pass the gate then.
    pub(super) fn release_packets(&mut self, id: JobId, job: &mut Job) {
        self.forget_idle(id, job);
        let groups: BTreeSet<Group> = job.gates.groups.values().copied().collect();
        for group in groups {
            let mut passed = job.gates.passed(group);
            while let Some(packet) = job.gates.first_waiting(group) {
                let number = PacketNumber { job: id, offset: packet }.message();
                let found = self.queue.messages().find(number).and_then(|message| {
                    let first = self.queue.message(message).vertices.first()?;
                    Some((message, self.queue.vertex(first).thread))
                });
                let Some((message, thread)) = found else {
                    job.gates.stop_waiting(packet);
                    continue;
                };
                let agents = self.dispatch.window_size(&self.queue, self.queue.thread(thread));
                if passed >= job.share_of(u32::try_from(agents).unwrap_or(u32::MAX)) {
                    break;
                }
                passed += 1;
                job.gates.stop_waiting(packet);
                self.queue.message_mut(message).is_kept_by_job = false;
                self.queue.let_go(&mut self.cx, message);
            }
        }
    }
}
