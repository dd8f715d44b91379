//! A bulk job: its destinations in memory, and its packets.

use super::ahead::{Pace, RingQueue};
use super::progress::Progress;
use super::share::Gates;
use super::{OpenedJob, time};
use crate::queue::Destination;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::cut::BulkDestination;
use zsched_bulk::packet::OpenedPacket;
use zsched_bulk::{BulkOrders, MAX_SHARE, PacketNumber};
use zsched_format::priority::{DEFAULT_PRIORITY, KEPT_PRIORITY};
use zsched_format::schedule::DayWindow;
use zsched_format::time::Timestamp;

/// A job that is not finished.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub list: Option<String>,
    pub sender: Option<String>,
    packet_size: u32,
    share: u8,
    priority: Option<u8>,
    not_before: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    /// The window of the day in which packets are cut.
    window: Option<DayWindow>,
    pub orders: BulkOrders,
    /// The last write of them has failed.
    pub are_orders_unstored: bool,
    /// The cancellation is on disk, so that outcomes are written as those of a cancelled job.
    pub is_cancellation_stored: bool,
    /// Recipients by their status; those of packets count when the packet is gone.
    pub counts: RecipientCounts,
    /// All recipients are submitted.
    pub is_complete: bool,
    pub progress: Progress,
    pub pace: Pace,
    /// Destinations from which the next packets are cut, and packets ahead, by clause.
    pub rings: BTreeMap<u32, RingQueue>,
    /// Destinations with as many packets ahead as are allowed.
    pub full: BTreeMap<Destination, Vec<OpenDestination>>,
    /// Destinations of which packets are being made, with the number of these.
    in_making: BTreeMap<u32, (OpenDestination, u32)>,
    /// There are destinations that were not read yet.
    pub has_more: bool,
    /// Destinations are being read.
    pub is_reading: bool,
    /// Packets in the spool, by offset.
    pub packets: BTreeMap<u32, Packet>,
    /// Number of packets ahead of each destination, those being made included.
    ahead: BTreeMap<Destination, u32>,
    /// Its share of the agents of each destination.
    pub gates: Gates,
    /// The next packet to which the present orders are applied.
    pub sweep: Option<u32>,
    pub rest: Rest,
    /// A packet has vanished: its recipients are to be marked, or are being marked.
    pub lost: LostPackets,
    /// The decision about lost recipients is being carried out.
    pub is_deciding: bool,
    pub is_finishing: bool,
    /// A write has failed: nothing is decided before this time.
    pub retry_at: Option<Timestamp>,
}

/// What happens to the recipients that are not cut.
#[derive(Serialize, Deserialize)]
pub(super) enum Rest {
    /// They are cut, until the job is cancelled or its deadline has passed.
    Wanted,
    /// They are being dropped.
    Dropping,
    /// None are left.
    Dropped,
}

/// What is done about packets that have vanished.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LostPackets {
    /// Nothing.
    None,
    /// Their recipients are to be marked.
    Found,
    /// They are being marked.
    Marking,
}

/// A destination with recipients that are not cut.
#[derive(Serialize, Deserialize)]
pub(super) struct OpenDestination {
    pub offset: u32,
    pub key: Destination,
    pub left: u32,
}

impl OpenDestination {
    pub fn new(found: BulkDestination) -> OpenDestination {
        let BulkDestination { offset, channel, host, left } = found;
        let channel = channel.to_ascii_lowercase();
        let key = Destination::new(channel.as_bytes(), host.to_ascii_lowercase().as_bytes());
        OpenDestination { offset, key, left }
    }
}

/// A packet in the spool.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Packet {
    /// Its destination and clause, while it is ahead: no agent has tried it.
    pub ahead_of: Option<(Destination, u32)>,
    pub recipients: u32,
    /// Numbers of its recipients by their outcome, when they were last known.
    pub delivered: u32,
    pub failed: u32,
    /// Recipients that an operator has deleted or rerouted.
    pub removed: u32,
    /// Its outcomes, once they are on disk.
    pub end: Option<RecipientCounts>,
}

impl Job {
    pub fn new(opened: OpenedJob, now: Timestamp) -> Job {
        let OpenedJob { parameters, orders, counts, packets, is_complete, .. } = opened;
        let window = parameters.window.as_deref();
        let packets = packets.into_iter().map(|packet| {
            let OpenedPacket { offset, recipients, delivered, failed, removed } = packet;
            (offset, Packet { recipients, delivered, failed, removed, ..Packet::default() })
        });
        Job {
            list: parameters.list,
            sender: parameters.sender,
            packet_size: parameters.packet_size,
            share: parameters.share,
            priority: parameters.priority,
            not_before: time(parameters.not_before),
            deadline: time(parameters.deadline),
            // The shell has parsed it before.
            window: window.and_then(|window| DayWindow::parse(window, now).ok()),
            orders,
            are_orders_unstored: false,
            is_cancellation_stored: orders.is_cancelled,
            counts,
            is_complete,
            progress: Progress::default(),
            pace: Pace::default(),
            rings: BTreeMap::new(),
            full: BTreeMap::new(),
            in_making: BTreeMap::new(),
            has_more: true,
            is_reading: false,
            packets: packets.collect(),
            ahead: BTreeMap::new(),
            gates: Gates::default(),
            sweep: None,
            rest: Rest::Wanted,
            lost: LostPackets::None,
            is_deciding: false,
            is_finishing: false,
            retry_at: None,
        }
    }

    /// Maximum number of recipients in a packet.
    pub fn packet_size(&self) -> u32 {
        self.orders.packet_size.unwrap_or(self.packet_size).max(1)
    }

    /// Maximum part of the agents of a destination, in percent.
    pub fn share(&self) -> u8 {
        self.orders.share.unwrap_or(self.share).clamp(1, MAX_SHARE)
    }

    /// Priority of its packets.
    pub fn priority(&self) -> u8 {
        self.orders.priority.or(self.priority).unwrap_or(DEFAULT_PRIORITY)
    }

    /// Returns true if an operator lets no packet go to an agent.
    ///
    /// He has paused it, or its priority is `z`.
    pub fn is_stopped(&self) -> bool {
        self.orders.is_paused || self.priority() >= KEPT_PRIORITY
    }

    /// The first time from now on at which packets may be cut.
    pub fn next_open(&self, now: Timestamp) -> Timestamp {
        let at = self.not_before.map_or(now, |not_before| not_before.max(now));
        self.window.as_ref().map_or(at, |window| window.next_open(at))
    }

    /// Number of packets ahead of a destination.
    pub fn ahead(&self, destination: &Destination) -> u32 {
        self.ahead.get(destination).copied().unwrap_or_default()
    }

    /// Number of packets that are being made.
    pub fn making(&self) -> u32 {
        self.in_making.values().map(|(_, packets)| packets).sum()
    }

    /// Number of destinations in memory.
    pub fn open(&self) -> usize {
        self.rings.values().map(|ring| ring.open.len()).sum()
    }

    /// Adds a destination, from which packets are cut when its turn comes.
    pub fn add_open(&mut self, ring: u32, destination: OpenDestination) {
        self.rings.entry(ring).or_default().open.push_back(destination);
    }

    fn change_ahead(&mut self, destination: &Destination, ring: u32, change: i64) {
        let add = |count: &mut u32| {
            let changed = u32::try_from(i64::from(*count) + change);
            *count = changed.expect("no more packets end than were ahead");
            *count
        };
        add(&mut self.rings.entry(ring).or_default().ahead);
        if add(self.ahead.entry(destination.clone()).or_default()) == 0 {
            self.ahead.remove(destination);
        }
        if change < 0 {
            // Its destination may have room again.
            let full = self.full.remove(destination).into_iter().flatten();
            self.rings.entry(ring).or_default().open.extend(full);
        }
    }

    /// Looks at full destinations again.
    pub fn fill_again(&mut self, ring_of: impl Fn(&Destination) -> u32) {
        for (key, full) in std::mem::take(&mut self.full) {
            let ring = ring_of(&key);
            full.into_iter().for_each(|destination| self.add_open(ring, destination));
        }
    }

    /// Sorts destinations and packets ahead by the clauses of another configuration.
    pub fn change_rings(&mut self, ring_of: impl Fn(&Destination) -> u32) {
        for ring in std::mem::take(&mut self.rings).into_values() {
            for destination in ring.open {
                self.add_open(ring_of(&destination.key), destination);
            }
        }
        for packet in self.packets.values_mut() {
            if let Some((destination, ring)) = &mut packet.ahead_of {
                *ring = ring_of(destination);
                self.rings.entry(*ring).or_default().ahead += 1;
            }
        }
        for (destination, packets) in self.in_making.values() {
            self.rings.entry(ring_of(&destination.key)).or_default().ahead += packets;
        }
        self.fill_again(ring_of);
    }

    /// Returns true if packets of a destination are being made.
    pub fn is_making(&self, offset: u32) -> bool {
        self.in_making.contains_key(&offset)
    }

    /// Begins packets. Their destination takes its turn again when they are made.
    pub fn begin_packets(&mut self, ring: u32, destination: OpenDestination, packets: u32) {
        self.change_ahead(&destination.key, ring, packets.into());
        self.in_making.insert(destination.offset, (destination, packets));
    }

    /// Packets were made: none if no recipients were left.
    pub fn packets_made(
        &mut self,
        offset: u32,
        made: &[(PacketNumber, u32)],
        ring_of: impl Fn(&Destination) -> u32,
    ) {
        let Some((mut destination, wanted)) = self.in_making.remove(&offset) else { return };
        let ring = ring_of(&destination.key);
        self.change_ahead(&destination.key, ring, made.len() as i64 - i64::from(wanted));
        for (number, recipients) in made {
            let ahead_of = Some((destination.key.clone(), ring));
            let packet = Packet { ahead_of, recipients: *recipients, ..Packet::default() };
            self.packets.insert(number.offset, packet);
            destination.left = destination.left.saturating_sub(*recipients);
        }
        // Where some could not be made, recipients are left.
        let is_over = made.is_empty() || destination.left == 0;
        if !is_over && matches!(self.rest, Rest::Wanted) {
            self.add_open(ring, destination);
        }
    }

    /// Packets could not be made.
    pub fn packets_failed(&mut self, offset: u32, ring_of: impl Fn(&Destination) -> u32) {
        if let Some((destination, wanted)) = self.in_making.remove(&offset) {
            let ring = ring_of(&destination.key);
            self.change_ahead(&destination.key, ring, -i64::from(wanted));
            self.add_open(ring, destination);
        }
    }

    /// A packet is no longer ahead: an agent has tried it, or it is gone.
    pub fn end_ahead(&mut self, offset: u32) {
        let packet = self.packets.get_mut(&offset);
        if let Some((destination, ring)) = packet.and_then(|packet| packet.ahead_of.take()) {
            self.change_ahead(&destination, ring, -1);
        }
    }

    /// A packet has left the spool. Returns the number of recipients that have ended in it.
    pub fn packet_gone(&mut self, offset: u32) {
        self.end_ahead(offset);
        self.gates.leave(offset);
        let Some(packet) = self.packets.remove(&offset) else { return };
        match packet.end {
            Some(end) => {
                self.counts.end_packet(&end);
                if end.pending > 0 {
                    self.lost = LostPackets::Found;
                }
            }
            None => self.lost = LostPackets::Found,
        }
    }

    /// Forgets the destinations that are not cut.
    pub fn forget_rest(&mut self) {
        self.rings.values_mut().for_each(|ring| ring.open.clear());
        self.full.clear();
        self.has_more = false;
    }

    /// Returns true if all recipients are cut, or dropped.
    pub fn is_cut(&self) -> bool {
        let has_open = self.rings.values().any(|ring| !ring.open.is_empty());
        !has_open && self.full.is_empty() && !self.has_more && self.in_making.is_empty()
    }

    /// Returns true if nothing is left but to write the result.
    pub fn can_finish(&self) -> bool {
        let is_idle = !self.is_reading && !self.is_finishing && self.lost == LostPackets::None;
        let is_submitted = self.is_complete || self.is_cancellation_stored;
        is_submitted
            && self.is_cut()
            && is_idle
            && self.counts.lost == 0
            && self.packets.is_empty()
            && !matches!(self.rest, Rest::Dropping)
    }

    /// Removes rings of which nothing is left.
    pub fn drop_unused_rings(&mut self) {
        self.rings.retain(|_, ring| ring.ahead > 0 || !ring.open.is_empty());
    }

    /// Returns true if something will let go a packet that is kept.
    pub fn keeps(&self, packet: u32) -> bool {
        let is_ordered = self.orders.is_paused || self.orders.is_cancelled || self.sweep.is_some();
        is_ordered || self.gates.has_kept(packet)
    }

    /// Panics if its counts contradict its packets.
    pub fn check(&self) {
        let ahead = self.packets.values().filter(|packet| packet.ahead_of.is_some()).count() as u32;
        let of_rings: u32 = self.rings.values().map(|ring| ring.ahead).sum();
        assert_eq!(ahead + self.making(), of_rings, "packets ahead of rings");
        assert_eq!(self.ahead.values().sum::<u32>(), of_rings, "packets ahead of destinations");
        let sum = |counts: &RecipientCounts| counts.ended() + counts.pending + counts.lost;
        assert_eq!(sum(&self.counts), self.counts.all, "recipients by status");
    }
}

/// Destinations from which packets are cut, in turn.
pub(super) type OpenDestinations = VecDeque<OpenDestination>;
