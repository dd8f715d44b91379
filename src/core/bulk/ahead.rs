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
use crate::Scheduler;
use crate::bulk::BulkAction;
use crate::queue::{Destination, VertexState};
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

impl Scheduler {
    /// The clause of a destination, as a key.
    pub(super) fn ring_of(&self, destination: &Destination) -> u32 {
        let (channel, host) = (destination.channel(), destination.host());
        self.cx.config.select_or_default(channel, host).id.0
    }

    /// Cuts packets of all destinations with room, and reads further destinations.
    pub(super) fn cut_packets(&mut self, id: JobId, job: &mut Job) {
        let mut has_room = false;
        for ring in job.rings.keys().copied().collect::<Vec<u32>>() {
            has_room |= self.cut_packets_of_ring(id, job, ring);
        }
        job.drop_unused_rings();
        let in_memory = job.open() + job.full.len();
        if job.has_more
            && !job.is_reading
            && in_memory < MAX_DESTINATIONS
            && (has_room || job.rings.is_empty())
        {
            job.is_reading = true;
            let at_most = DESTINATIONS_PER_READ;
            self.cx.act(crate::Action::Bulk(BulkAction::ReadDestinations { job: id, at_most }));
        }
    }

    /// Returns true if there is room for packets of destinations that were not read yet.
    fn cut_packets_of_ring(&mut self, id: JobId, job: &mut Job, ring: u32) -> bool {
        loop {
            let Some(queue) = job.rings.get_mut(&ring) else { return true };
            let Some(destination) = queue.open.pop_front() else { return true };
            if job.is_making(destination.offset) {
                continue;
            }
            let room = self.room(job, &destination.key);
            let room_of_ring = self.room_of_ring(id, job, ring, room.agents);
            if room_of_ring == 0 {
                job.rings.entry(ring).or_default().open.push_front(destination);
                return false;
            }
            let room_of_destination = room.packets.saturating_sub(job.ahead(&destination.key));
            if room_of_destination == 0 {
                job.full.entry(destination.key.clone()).or_default().push(destination);
                continue;
            }
            let OpenDestination { offset, left, .. } = destination;
            let packets = room_of_destination
                .min(room_of_ring)
                .min(left.div_ceil(room.packet_size))
                .clamp(1, MAX_MADE_TOGETHER);
            job.begin_packets(ring, destination, packets);
            self.cx.act(crate::Action::Bulk(BulkAction::MakePackets {
                job: id,
                destination: offset,
                packets,
                at_most: room.packet_size.min(left),
            }));
        }
    }

    /// Number of further packets of a clause that may be ahead.
    fn room_of_ring(&mut self, id: JobId, job: &mut Job, ring: u32, agents: u32) -> u32 {
        let limit = (2 * agents).saturating_add(8 + job.pace.packets()).min(MAX_AHEAD);
        let Some(queue) = job.rings.get(&ring) else { return limit };
        let (ahead, looked_at) = (queue.ahead, queue.looked_at);
        let usable = ahead.saturating_sub(queue.blocked);
        if usable < limit {
            return (limit - usable).min(MAX_AHEAD.saturating_sub(ahead));
        }
        let now = self.cx.now;
        if looked_at.is_some_and(|at| at <= now && now.since(at) < LOOK_INTERVAL) {
            return 0;
        }
        let blocked = self.blocked_packets(id, job, ring);
        let queue = job.rings.entry(ring).or_default();
        (queue.blocked, queue.looked_at) = (blocked, Some(now));
        self.cx.timers.add(now + LOOK_AGAIN, Timer::Bulk(id));
        // The spool has a bounded number of packets in any case.
        limit.saturating_sub(ahead.saturating_sub(blocked)).min(MAX_AHEAD.saturating_sub(ahead))
    }

    /// Number of packets ahead of a clause that no agent could take now.
    fn blocked_packets(&self, id: JobId, job: &Job, ring: u32) -> u32 {
        let is_ahead = |packet: &super::job::Packet| {
            packet.ahead_of.as_ref().is_some_and(|(_, of)| *of == ring)
        };
        let ahead = job.packets.iter().filter(|(_, packet)| is_ahead(packet));
        let blocked = ahead.filter(|(offset, _)| {
            let number = PacketNumber { job: id, offset: **offset }.message();
            self.queue.messages().find(number).is_some_and(|message| {
                let vertices = self.queue.message(message).vertices.iter(self.queue.vertices());
                let mut vertices = vertices.map(|vertex| self.queue.vertex(vertex));
                vertices.all(|vertex| match vertex.state {
                    VertexState::Fed | VertexState::Finished => false,
                    VertexState::Due => !self.queue.thread(vertex.thread).is_ready,
                    VertexState::Waiting | VertexState::Held => true,
                })
            })
        });
        blocked.count() as u32
    }

    fn room(&self, job: &Job, destination: &Destination) -> Room {
        let (channel, host) = (destination.channel(), destination.host());
        let known = self.queue.threads().find(channel, host);
        let (of_destination, is_reachable, clause) = match known {
            Some(id) => {
                let thread = self.queue.thread(id);
                let clause = self.queue.ring(thread.ring).clause.clone();
                let is_reachable = thread.retry.unreachable.is_none();
                (self.dispatch.window_size(&self.queue, thread), is_reachable, clause)
            }
            None => {
                let clause = self.cx.config.select_or_default(channel, host);
                (clause.max_thread as usize, true, clause)
            }
        };
        let of_destination = u32::try_from(of_destination).unwrap_or(u32::MAX).clamp(1, MAX_AHEAD);
        let for_one_host = clause.command.as_ref().is_some_and(|command| command.serves_one_host());
        // A clause with `$host` has a ring for each host.
        let max_ring = clause.max_ring.filter(|_| !for_one_host);
        let limits = [max_ring, clause.max_channel, clause.max_agents];
        let most = u32::try_from(self.cx.settings.max_agents).unwrap_or(MAX_AHEAD).min(MAX_AHEAD);
        let agents = limits.into_iter().flatten().fold(most, u32::min).max(1);
        let of_destination = of_destination.min(agents);
        let size = job.packet_size();
        let (packets, packet_size) = match job.share() {
            // One shows when the destination can be reached again.
            _ if !is_reachable => (1, size),
            MAX_SHARE => (of_destination + of_destination / 2 + 2 + job.pace.packets(), size),
            // A job of an agent is then a packet, so that packets count agents.
            _ => {
                let size = if clause.packet > 0 { size.min(clause.packet) } else { size };
                (job.share_of(of_destination) + 1, size)
            }
        };
        Room { packets: packets.min(MAX_AHEAD), agents, packet_size: packet_size.max(1) }
    }
}

impl Job {
    /// The part of the agents of a destination that may work on the job.
    pub fn share_of(&self, agents: u32) -> u32 {
        (agents.saturating_mul(self.share().into()) / u32::from(MAX_SHARE)).max(1)
    }
}
