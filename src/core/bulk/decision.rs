//! Events and actions of bulk jobs.

use crate::operator::order::OrderTicket;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::cut::BulkDestination;
use zsched_bulk::packet::OpenedPacket;
use zsched_bulk::recipient::Status;
use zsched_bulk::result::{Ended, FinishedJob};
use zsched_bulk::{BulkOrders, BulkParameters, JobId, PacketNumber};

/// A fact about bulk jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BulkEvent {
    /// A job was found that is not finished.
    Opened(Box<OpenedJob>),
    /// More of a job is submitted ([`zsched_bulk::stream`]).
    Grown {
        /// The job.
        job: JobId,
        /// Number of its recipients.
        all: u32,
        /// No more come.
        is_complete: bool,
    },
    /// Answer to [`BulkAction::ReadDestinations`]: destinations, and true after the last one.
    Destinations {
        /// The job.
        job: JobId,
        /// What was read.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(Vec<BulkDestination>, bool), ErrorKind>,
    },
    /// Answer to [`BulkAction::MakePackets`]: the packets and the numbers of their recipients.
    ///
    /// It precedes their arrival. There are none if no recipients are left.
    PacketsMade {
        /// The job.
        job: JobId,
        /// The destination, as in the action.
        destination: u32,
        /// What was made.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<Vec<(PacketNumber, u32)>, ErrorKind>,
    },
    /// The outcomes of a packet's recipients are on disk. Its removal follows.
    PacketEnded {
        /// The packet.
        packet: PacketNumber,
        /// Its recipients.
        counts: RecipientCounts,
    },
    /// A packet has left the spool in another way than by [`crate::Action::Remove`].
    PacketGone(PacketNumber),
    /// Answer to [`BulkAction::DropRest`]: the number of recipients that were dropped.
    RestDropped {
        /// The job.
        job: JobId,
        /// What they have ended with.
        status: Status,
        /// Their number.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<u32, ErrorKind>,
    },
    /// Answer to [`BulkAction::MarkLost`]: the number of recipients that were found to be lost.
    LostMarked {
        /// The job.
        job: JobId,
        /// Their number.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<u32, ErrorKind>,
    },
    /// Answer to [`BulkAction::DecideLost`]: the number of recipients.
    LostDecided {
        /// The job.
        job: JobId,
        /// The order that waits for this, if any.
        ticket: Option<OrderTicket>,
        /// They are cut again, or given up.
        are_sent: bool,
        /// Their number.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<u32, ErrorKind>,
    },
    /// Answer to [`BulkAction::Finish`]. If recipients are not final, the job goes on.
    Finished {
        /// The job.
        job: JobId,
        /// What was written.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<Ended, ErrorKind>,
    },
    /// A finished job was found, which is listed for people.
    FinishedFound(Box<FinishedJob>),
    /// A finished job was removed.
    Removed(JobId),
    /// Answer to [`BulkAction::StoreOrders`].
    OrdersStored {
        /// The job.
        job: JobId,
        /// The order that waits for this, if any.
        ticket: Option<OrderTicket>,
        /// Success if the orders are on disk.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(), ErrorKind>,
    },
}

/// A job that was found in the spool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenedJob {
    /// Its name.
    pub id: JobId,
    /// Its parameters.
    pub parameters: BulkParameters,
    /// What operators have changed.
    pub orders: BulkOrders,
    /// Its recipients. Those of its packets are pending.
    pub counts: RecipientCounts,
    /// All recipients are submitted.
    pub is_complete: bool,
    /// Its packets in the spool.
    pub packets: Vec<OpenedPacket>,
}

/// An order about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkOrder {
    /// Cut no packets, and give agents none.
    Pause,
    /// Go on.
    Resume,
    /// Never send what is not delivered yet.
    Cancel,
    /// Put at most this number of recipients into a packet.
    PacketSize(u32),
    /// Use at most this part of the agents of a destination, in percent.
    Share(u8),
    /// Set the priority: 0 to 9, or [`zsched_format::priority::KEPT_PRIORITY`].
    Priority(u8),
    /// Decide about recipients whose packets have vanished.
    Lost {
        /// Send them again. Otherwise give them up.
        are_sent: bool,
    },
}

/// A decision about a bulk job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkAction {
    /// Reads the next destinations. Answered by [`BulkEvent::Destinations`].
    ReadDestinations {
        /// The job.
        job: JobId,
        /// Maximum number of destinations.
        at_most: usize,
    },
    /// Makes packets of a destination. Answered by [`BulkEvent::PacketsMade`].
    MakePackets {
        /// The job.
        job: JobId,
        /// Offset of the first recipient of the destination.
        destination: u32,
        /// Maximum number of packets.
        packets: u32,
        /// Maximum number of recipients in each.
        at_most: u32,
    },
    /// Marks recipients whose packets have vanished. Answered by [`BulkEvent::LostMarked`].
    MarkLost(JobId),
    /// Decides about recipients whose packets have vanished. Answered by
    /// [`BulkEvent::LostDecided`].
    DecideLost {
        /// The job.
        job: JobId,
        /// The order that waits for this, if any.
        ticket: Option<OrderTicket>,
        /// They are cut again. Otherwise they are given up.
        are_sent: bool,
    },
    /// Ends all recipients that are not cut. Answered by [`BulkEvent::RestDropped`].
    DropRest {
        /// The job.
        job: JobId,
        /// What they end with.
        status: Status,
    },
    /// Writes the result of a job. Answered by [`BulkEvent::Finished`].
    Finish(JobId),
    /// Stores the orders about a job. Answered by [`BulkEvent::OrdersStored`].
    StoreOrders {
        /// The job.
        job: JobId,
        /// The order that waits for this, if any.
        ticket: Option<OrderTicket>,
        /// The orders in force.
        orders: BulkOrders,
    },
}
