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
use crate::timers::Timer;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_format::time::{ClockStep, Timestamp};

/// Time after which all full gates are looked at again.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

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
    gates: BTreeMap<Group, Gate>,
    /// The gate of each packet.
    of_packet: BTreeMap<u32, Group>,
    /// Gates at which packets are kept back.
    full: BTreeSet<Group>,
    /// Full gates that may have room.
    changed: BTreeSet<Group>,
    /// When all full gates are looked at again: a window may have grown.
    next_look: Option<Timestamp>,
}

/// The gate of a group.
#[derive(Default, Serialize, Deserialize)]
struct Gate {
    /// Packets that have passed, and are due or with an agent.
    passed: BTreeSet<u32>,
    /// Packets that are kept back.
    waiting: BTreeSet<u32>,
}

impl Gates {
    /// A packet is neither kept back, nor due, nor with an agent any more.
    pub fn leave(&mut self, packet: u32) {
        let Some(group) = self.of_packet.remove(&packet) else { return };
        let Some(gate) = self.gates.get_mut(&group) else { return };
        gate.passed.remove(&packet);
        gate.waiting.remove(&packet);
        if gate.waiting.is_empty() {
            self.full.remove(&group);
        } else {
            self.changed.insert(group);
        }
        if gate.waiting.is_empty() && gate.passed.is_empty() {
            self.gates.remove(&group);
        }
    }

    fn pass(&mut self, packet: u32, group: Group) {
        self.leave(packet);
        self.of_packet.insert(packet, group);
        self.gates.entry(group).or_default().passed.insert(packet);
    }

    fn wait(&mut self, packet: u32, group: Group) {
        self.leave(packet);
        self.of_packet.insert(packet, group);
        self.gates.entry(group).or_default().waiting.insert(packet);
        self.full.insert(group);
    }

    /// An agent has ended a job of a packet: its gate may have room.
    pub fn tried(&mut self, packet: u32) {
        let full = self.of_packet.get(&packet).filter(|group| self.full.contains(group));
        self.changed.extend(full);
    }

    /// Moves the time of the next look, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        self.next_look = self.next_look.map(|time| time + step);
    }

    /// Returns true if packets are kept back.
    pub fn has_waiting(&self) -> bool {
        !self.full.is_empty()
    }

    /// Returns true if a packet is kept back.
    pub fn has_kept(&self, packet: u32) -> bool {
        let gate = self.of_packet.get(&packet).and_then(|group| self.gates.get(group));
        gate.is_some_and(|gate| gate.waiting.contains(&packet))
    }

    fn has_passed(&self, packet: u32, group: Group) -> bool {
        self.gates.get(&group).is_some_and(|gate| gate.passed.contains(&packet))
    }

    fn first_waiting(&self, group: Group) -> Option<u32> {
        self.gates.get(&group)?.waiting.first().copied()
    }

    /// Number of packets of a group that have passed.
    fn passed(&self, group: Group) -> u32 {
        self.gates.get(&group).map_or(0, |gate| gate.passed.len() as u32)
    }

    /// Forgets packets that have passed, and are neither due nor with an agent any more.
    fn forget_idle(&mut self, queue: &Queue, id: JobId, group: Group) {
        let passed = self.gates.get(&group).into_iter().flat_map(|gate| &gate.passed);
        let is_idle = |offset: &u32| {
            let number = PacketNumber { job: id, offset: *offset }.message();
            let message = queue.messages().find(number);
            message.is_none_or(|message| !is_with_agents(queue, message))
        };
        let idle: Vec<u32> = passed.copied().filter(is_idle).collect();
        idle.into_iter().for_each(|packet| self.leave(packet));
    }

    /// The full gates to look at now, no more than `most`.
    fn take_changed(&mut self, now: Timestamp, most: usize) -> Vec<Group> {
        if self.next_look.is_none_or(|time| time <= now) {
            self.changed.clone_from(&self.full);
            self.next_look = Some(now + LOOK_INTERVAL);
        }
        std::iter::from_fn(|| self.changed.pop_first()).take(most).collect()
    }

    /// When gates are to be looked at again.
    fn next_look(&self, now: Timestamp) -> Timestamp {
        self.next_look.filter(|_| self.changed.is_empty()).unwrap_or(now)
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
        if self.gates.has_passed(packet.offset, group) {
            return true;
        }
        let most = self.max_passed(queue, dispatch, thread);
        if self.gates.passed(group) >= most {
            self.gates.forget_idle(queue, packet.job, group);
        }
        let has_passed = self.gates.passed(group) < most;
        if has_passed {
            self.gates.pass(packet.offset, group);
        } else {
            self.gates.wait(packet.offset, group);
        }
        has_passed
    }

    /// Maximum number of packets past the gate of a thread.
    fn max_passed(&self, queue: &Queue, dispatch: &Dispatch, thread: ThreadId) -> u32 {
        let agents = dispatch.window_size(queue, queue.thread(thread));
        self.share_of(u32::try_from(agents).unwrap_or(u32::MAX))
    }

    /// A packet passes the gate again under other orders, unless an agent has it.
    pub(super) fn return_to_gate(&mut self, queue: &Queue, packet: u32, message: MessageId) {
        self.gates.leave(packet);
        let mut vertices = queue.message(message).vertices.iter(queue.vertices());
        if let Some(fed) = vertices.find(|id| queue.vertex(*id).state == VertexState::Fed) {
            self.gates.pass(packet, group_of(queue, queue.vertex(fed).thread));
        }
    }

    /// Lets packets go that were kept back, as far as there is room. They pass the gate then.
    ///
    /// Of very many gates some are looked at in each turn.
    pub(super) fn release_packets(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        id: JobId,
    ) {
        for group in self.gates.take_changed(cx.now, cx.settings.step()) {
            self.gates.forget_idle(queue, id, group);
            self.release_packets_of(queue, dispatch, cx, id, group);
            self.gates.changed.remove(&group);
        }
        cx.timers.add(self.gates.next_look(cx.now), Timer::Bulk(id));
    }

    fn release_packets_of(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        id: JobId,
        group: Group,
    ) {
        let mut passed = self.gates.passed(group);
        while let Some(packet) = self.gates.first_waiting(group) {
            let number = PacketNumber { job: id, offset: packet }.message();
            let Some(message) = queue.messages().find(number) else {
                self.gates.leave(packet);
                continue;
            };
            // Without one, more of the packet is read, and passes the gate.
            if let Some(first) = queue.message(message).vertices.first() {
                if passed >= self.max_passed(queue, dispatch, queue.vertex(first).thread) {
                    return;
                }
                passed += 1;
            }
            self.gates.leave(packet);
            queue.message_mut(message).set(MessageFlag::KeptByJob, false);
            queue.let_go(cx, message);
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
