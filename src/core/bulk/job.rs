//! A bulk job: its destinations in memory, and its packets.

use super::{OpenedJob, time};
use crate::queue::Destination;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use zsched_bulk::cut::{BulkDestination, RecipientCounts};
use zsched_bulk::{BulkOrders, MAX_SHARE, PacketNumber};
use zsched_format::time::Timestamp;

/// A job that is not finished.
#[derive(Serialize, Deserialize)]
pub(super) struct Job {
    pub list: Option<String>,
    packet_size: u32,
    share: u8,
    pub not_before: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub orders: BulkOrders,
    /// The last write of them has failed.
    pub are_orders_unstored: bool,
    /// Recipients by their status; those of packets count when the packet is gone.
    pub counts: RecipientCounts,
    /// When it was found, and the number of its final recipients then: for the rate.
    pub opened: (Timestamp, u32),
    /// Destinations from which the next packets are cut, in turn.
    pub open: VecDeque<OpenDestination>,
    /// Destinations with as many packets ahead as are allowed.
    pub full: BTreeMap<Destination, OpenDestination>,
    /// Destinations of which a packet is being made.
    in_making: BTreeMap<u32, OpenDestination>,
    /// There are destinations that were not read yet.
    pub has_more: bool,
    /// Destinations are being read.
    pub is_reading: bool,
    /// Number of packets that are being made.
    pub making: u32,
    /// Packets in the spool, by offset.
    pub packets: BTreeMap<u32, Packet>,
    /// Number of packets ahead of each destination, those being made included.
    ahead: BTreeMap<Destination, u32>,
    /// The sum of these.
    pub ahead_total: u32,
    pub rest: Rest,
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
#[derive(Serialize, Deserialize)]
pub(super) struct Packet {
    /// Its destination, while it is ahead.
    pub ahead_of: Option<Destination>,
    pub recipients: u32,
    /// Its outcomes, once they are on disk.
    pub end: Option<RecipientCounts>,
}

impl Job {
    pub fn new(opened: OpenedJob, now: Timestamp) -> Job {
        let OpenedJob { parameters, orders, counts, packets, .. } = opened;
        let packet =
            |(offset, recipients)| (offset, Packet { ahead_of: None, recipients, end: None });
        Job {
            list: parameters.list,
            packet_size: parameters.packet_size,
            share: parameters.share,
            not_before: time(parameters.not_before),
            deadline: time(parameters.deadline),
            orders,
            are_orders_unstored: false,
            counts,
            opened: (now, counts.all - counts.pending),
            open: VecDeque::new(),
            full: BTreeMap::new(),
            in_making: BTreeMap::new(),
            has_more: true,
            is_reading: false,
            making: 0,
            packets: packets.into_iter().map(packet).collect(),
            ahead: BTreeMap::new(),
            ahead_total: 0,
            rest: Rest::Wanted,
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

    /// Number of packets ahead of a destination.
    pub fn ahead(&self, destination: &Destination) -> u32 {
        self.ahead.get(destination).copied().unwrap_or_default()
    }

    fn add_ahead(&mut self, destination: &Destination) {
        *self.ahead.entry(destination.clone()).or_default() += 1;
        self.ahead_total += 1;
    }

    /// A packet is no longer ahead, so its destination may have room again.
    fn end_ahead(&mut self, destination: &Destination) {
        self.ahead_total -= 1;
        if let Some(count) = self.ahead.get_mut(destination) {
            *count -= 1;
            if *count == 0 {
                self.ahead.remove(destination);
            }
        }
        self.open.extend(self.full.remove(destination));
    }

    /// Looks at full destinations again.
    pub fn fill_again(&mut self) {
        let full = std::mem::take(&mut self.full);
        self.open.extend(full.into_values());
    }

    /// Begins a packet. Its destination takes its turn again when the packet is made.
    pub fn begin_packet(&mut self, destination: OpenDestination) {
        self.add_ahead(&destination.key);
        self.making += 1;
        self.in_making.insert(destination.offset, destination);
    }

    /// A packet was made, or no recipients were left for it.
    pub fn packet_made(&mut self, offset: u32, made: Option<(PacketNumber, u32)>) {
        self.making = self.making.saturating_sub(1);
        let Some(mut destination) = self.in_making.remove(&offset) else { return };
        let Some((number, recipients)) = made else {
            return self.end_ahead(&destination.key.clone());
        };
        let ahead_of = Some(destination.key.clone());
        self.packets.insert(number.offset, Packet { ahead_of, recipients, end: None });
        destination.left = destination.left.saturating_sub(recipients);
        if destination.left > 0 && !matches!(self.rest, Rest::Dropped) {
            self.open.push_back(destination);
        }
    }

    /// A packet could not be made.
    pub fn packet_failed(&mut self, offset: u32) {
        self.making = self.making.saturating_sub(1);
        if let Some(destination) = self.in_making.remove(&offset) {
            self.end_ahead(&destination.key);
            self.open.push_back(destination);
        }
    }

    /// An agent has tried a packet.
    pub fn packet_tried(&mut self, offset: u32) {
        let packet = self.packets.get_mut(&offset);
        if let Some(destination) = packet.and_then(|packet| packet.ahead_of.take()) {
            self.end_ahead(&destination);
        }
    }

    /// A packet has left the spool.
    pub fn packet_gone(&mut self, offset: u32) {
        self.packet_tried(offset);
        let Some(packet) = self.packets.remove(&offset) else { return };
        let Some(end) = packet.end else { return };
        let counts = &mut self.counts;
        counts.pending = counts.pending.saturating_sub(end.all - end.pending);
        counts.delivered += end.delivered;
        counts.failed += end.failed;
        counts.aside += end.aside;
        counts.dropped += end.dropped;
    }

    /// Forgets the destinations that are not cut.
    pub fn forget_rest(&mut self) {
        self.open.clear();
        self.full.clear();
        self.has_more = false;
    }

    /// Returns true if nothing is left but to write the result.
    pub fn is_complete(&self) -> bool {
        let is_cut = self.open.is_empty() && self.full.is_empty() && !self.has_more;
        let is_idle = self.making == 0 && !self.is_reading && !self.is_finishing;
        is_cut && is_idle && self.packets.is_empty() && !matches!(self.rest, Rest::Dropping)
    }

    /// Panics if its counts contradict its packets.
    pub fn check(&self) {
        let ahead = self.packets.values().filter(|packet| packet.ahead_of.is_some()).count();
        assert_eq!(ahead as u32 + self.making, self.ahead_total, "packets ahead");
        assert_eq!(self.ahead.values().sum::<u32>(), self.ahead_total, "packets ahead");
        assert_eq!(self.in_making.len() as u32, self.making, "packets being made");
    }
}
