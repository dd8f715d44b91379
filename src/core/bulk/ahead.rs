//! How many packets of a job are ahead of the agents.
//!
//! A packet is *ahead* until an agent has tried it once. Enough are ahead that no agent waits
//! for a packet, and not more: the rest of a job can be stopped, resized and overtaken at any time.
//!
//! | limit | why |
//! |---|---|
//! | packets ahead of a destination: half as many again as agents may work on it, and two | each agent has a next packet; a destination that takes nothing fills nothing else |
//! | packets ahead of a clause: twice as many as agents may work there, and eight | the same, for very many small destinations |
//! | both: what agents can try in a quarter of a second besides | packets of few recipients end faster than they are made |
//!
//! A packet that no agent could take now, because its destination is held, unreachable or has no
//! window to spare, does not count for the clause: a slow destination holds up no other one.

use super::job::{Job, OpenDestination, OpenDestinations};
use crate::bulk::BulkAction;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::queue::{Destination, Queue, VertexState};
use crate::timers::Timer;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_format::time::Timestamp;

/// Maximum number of packets ahead of a clause.
const MAX_AHEAD: u32 = 2000;
/// Maximum number of packets of one destination that are made at a time.
const MAX_MADE_TOGETHER: u32 = 64;
/// Number of destinations that are read at a time.
pub(super) const DESTINATIONS_PER_READ: usize = 500;
/// Maximum number of destinations of a job in memory.
const MAX_DESTINATIONS: usize = 10_000;
/// The time for which packets are ahead beyond one for each agent.
const PACE_TIME: Duration = Duration::from_millis(250);
/// Minimum time between two counts of the packets that no agent can take.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time after which they are counted again if nothing else happens.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a job has for the destinations of one clause.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct RingQueue {
    /// Destinations from which the next packets are cut, in turn.
    pub open: OpenDestinations,
    /// Number of packets ahead, those being made included.
    pub ahead: u32,
    /// Number of those that no agent could take when they were last looked at.
    blocked: u32,
    looked_at: Option<Timestamp>,
}

/// How fast packets are tried.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Pace {
    since: Option<Timestamp>,
    count: u32,
    last: u32,
}

impl Pace {
    /// Counts a packet that was tried.
    pub fn add(&mut self, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        let passed = now.since(since);
        if passed >= PACE_TIME {
            let count = u128::from(self.count) * PACE_TIME.as_millis() / passed.as_millis().max(1);
            (self.last, self.count, self.since) = (count as u32, 0, Some(now));
        }
        self.count += 1;
    }

    /// Number of packets in [`PACE_TIME`], at the present pace.
    fn packets(&self) -> u32 {
        self.last.max(self.count)
    }
}

/// What may be cut of a destination.
struct Room {
    /// Maximum number of packets ahead of it.
    packets: u32,
    /// Maximum number of agents that its clause may have.
    agents: u32,
    /// Maximum number of recipients in a packet.
    packet_size: u32,
}

/// The clause of a destination, as a key.
pub(super) fn ring_of(cx: &Context, destination: &Destination) -> u32 {
    let (channel, host) = (destination.channel(), destination.host());
    cx.config.select_or_default(channel, host).id.0
}

impl Job {
    /// Cuts packets of all destinations with room, and reads further destinations.
    pub(super) fn cut_packets(
        &mut self,
        queue: &Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        id: JobId,
    ) {
        let mut has_room = false;
        for ring in self.rings.keys().copied().collect::<Vec<u32>>() {
            has_room |= self.cut_packets_of_ring(queue, dispatch, cx, id, ring);
        }
        self.drop_unused_rings();
        let in_memory = self.open() + self.full.len();
        if self.has_more
            && !self.is_reading
            && in_memory < MAX_DESTINATIONS
            && (has_room || self.rings.is_empty())
        {
            self.is_reading = true;
            let at_most = DESTINATIONS_PER_READ;
            cx.act(crate::Action::Bulk(BulkAction::ReadDestinations { job: id, at_most }));
        }
    }

    /// Returns true if there is room for packets of destinations that were not read yet.
    fn cut_packets_of_ring(
        &mut self,
        queue: &Queue,
        dispatch: &Dispatch,
        cx: &mut Context,
        id: JobId,
        ring: u32,
    ) -> bool {
        loop {
            let Some(of_ring) = self.rings.get_mut(&ring) else { return true };
            let Some(destination) = of_ring.open.pop_front() else { return true };
            if self.is_making(destination.offset) {
                continue;
            }
            let room = self.room(queue, dispatch, cx, &destination.key);
            let room_of_ring = self.room_of_ring(queue, cx, id, ring, room.agents);
            if room_of_ring == 0 {
                self.rings.entry(ring).or_default().open.push_front(destination);
                return false;
            }
            let room_of_destination = room.packets.saturating_sub(self.ahead(&destination.key));
            if room_of_destination == 0 {
                self.full.entry(destination.key.clone()).or_default().push(destination);
                continue;
            }
            let OpenDestination { offset, left, .. } = destination;
            let packets = room_of_destination
                .min(room_of_ring)
                .min(left.div_ceil(room.packet_size))
                .clamp(1, MAX_MADE_TOGETHER);
            self.begin_packets(ring, destination, packets);
            cx.act(crate::Action::Bulk(BulkAction::MakePackets {
                job: id,
                destination: offset,
                packets,
                at_most: room.packet_size.min(left),
            }));
        }
    }

    /// Number of further packets of a clause that may be ahead.
    fn room_of_ring(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        id: JobId,
        ring: u32,
        agents: u32,
    ) -> u32 {
        let limit = (2 * agents).saturating_add(8 + self.pace.packets()).min(MAX_AHEAD);
        let Some(of_ring) = self.rings.get(&ring) else { return limit };
        let (ahead, looked_at) = (of_ring.ahead, of_ring.looked_at);
        let usable = ahead.saturating_sub(of_ring.blocked);
        if usable < limit {
            return (limit - usable).min(MAX_AHEAD.saturating_sub(ahead));
        }
        let now = cx.now;
        if looked_at.is_some_and(|at| at <= now && now.since(at) < LOOK_INTERVAL) {
            return 0;
        }
        let blocked = self.blocked_packets(queue, id, ring);
        let of_ring = self.rings.entry(ring).or_default();
        (of_ring.blocked, of_ring.looked_at) = (blocked, Some(now));
        cx.timers.add(now + LOOK_AGAIN, Timer::Bulk(id));
        // The spool has a bounded number of packets in any case.
        limit.saturating_sub(ahead.saturating_sub(blocked)).min(MAX_AHEAD.saturating_sub(ahead))
    }

    /// Number of packets ahead of a clause that no agent could take now.
    fn blocked_packets(&self, queue: &Queue, id: JobId, ring: u32) -> u32 {
        let is_ahead = |packet: &super::job::Packet| {
            packet.ahead_of.as_ref().is_some_and(|(_, of)| *of == ring)
        };
        let ahead = self.packets.iter().filter(|(_, packet)| is_ahead(packet));
        let blocked = ahead.filter(|(offset, _)| {
            let number = PacketNumber { job: id, offset: **offset }.message();
            queue.messages().find(number).is_some_and(|message| {
                let vertices = queue.message(message).vertices.iter(queue.vertices());
                let mut vertices = vertices.map(|vertex| queue.vertex(vertex));
                vertices.all(|vertex| match vertex.state {
                    VertexState::Fed | VertexState::Finished => false,
                    VertexState::Due => !queue.thread(vertex.thread).is_ready,
                    VertexState::Waiting | VertexState::Held => true,
                })
            })
        });
        blocked.count() as u32
    }

    fn room(
        &self,
        queue: &Queue,
        dispatch: &Dispatch,
        cx: &Context,
        destination: &Destination,
    ) -> Room {
        let (channel, host) = (destination.channel(), destination.host());
        let known = queue.threads().find(channel, host);
        let (of_destination, is_reachable, clause) = match known {
            Some(id) => {
                let thread = queue.thread(id);
                let clause = queue.ring(thread.ring).clause.clone();
                let is_reachable = thread.retry.unreachable.is_none();
                (dispatch.window_size(queue, thread), is_reachable, clause)
            }
            None => {
                let clause = cx.config.select_or_default(channel, host);
                (clause.max_thread as usize, true, clause)
            }
        };
        let of_destination = u32::try_from(of_destination).unwrap_or(u32::MAX).clamp(1, MAX_AHEAD);
        let for_one_host = clause.command.as_ref().is_some_and(|command| command.serves_one_host());
        // A clause with `$host` has a ring for each host.
        let max_ring = clause.max_ring.filter(|_| !for_one_host);
        let limits = [max_ring, clause.max_channel, clause.max_agents];
        let most = u32::try_from(cx.settings.max_agents).unwrap_or(MAX_AHEAD).min(MAX_AHEAD);
        let agents = limits.into_iter().flatten().fold(most, u32::min).max(1);
        let of_destination = of_destination.min(agents);
        let size = self.packet_size();
        let (packets, packet_size) = match self.share() {
            // One shows when the destination can be reached again.
            _ if !is_reachable => (1, size),
            MAX_SHARE => (of_destination + of_destination / 2 + 2 + self.pace.packets(), size),
            // A job of an agent is then a packet, so that packets count agents.
            _ => {
                let size = if clause.packet > 0 { size.min(clause.packet) } else { size };
                (self.share_of(of_destination) + 1, size)
            }
        };
        Room { packets: packets.min(MAX_AHEAD), agents, packet_size: packet_size.max(1) }
    }

    /// The part of the agents of a destination that may work on the job.
    pub fn share_of(&self, agents: u32) -> u32 {
        (agents.saturating_mul(self.share().into()) / u32::from(MAX_SHARE)).max(1)
    }
}
