//! Events and actions of bulk jobs.

use crate::operator::order::OrderTicket;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use zsched_bulk::cut::{BulkDestination, RecipientCounts};
use zsched_bulk::recipient::Status;
use zsched_bulk::{BulkOrders, BulkParameters, JobId, PacketNumber};

/// A fact about bulk jobs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BulkEvent {
    /// A job was found that is not finished.
    Opened(Box<OpenedJob>),
    /// Answer to [`BulkAction::ReadDestinations`]: destinations, and true after the last one.
    Destinations {
        /// The job.
        job: JobId,
        /// What was read.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<(Vec<BulkDestination>, bool), ErrorKind>,
    },
    /// Answer to [`BulkAction::MakePacket`]: the packet and the number of its recipients.
    ///
    /// It precedes the arrival of the packet. `None` if no recipients are left.
    PacketMade {
        /// The job.
        job: JobId,
        /// The destination, as in the action.
        destination: u32,
        /// What was made.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<Option<(PacketNumber, u32)>, ErrorKind>,
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
        /// Their number.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<u32, ErrorKind>,
    },
    /// Answer to [`BulkAction::Finish`]. If recipients are pending, the job goes on.
    Finished {
        /// The job.
        job: JobId,
        /// Its recipients.
        #[serde(with = "zsched_format::serde_error_kind::of_result")]
        outcome: Result<RecipientCounts, ErrorKind>,
    },
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
    /// Its recipients.
    pub counts: RecipientCounts,
    /// Its packets in the spool: offset, number of recipients.
    pub packets: Vec<(u32, u32)>,
}

/// An order about a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkOrder {
    /// Cut no packets.
    Pause,
    /// Cut packets again.
    Resume,
    /// Never send what is not cut yet.
    Cancel,
    /// Put at most this number of recipients into a packet.
    PacketSize(u32),
    /// Use at most this part of the agents of a destination, in percent.
    Share(u8),
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
    /// Makes a packet. Answered by [`BulkEvent::PacketMade`].
    MakePacket {
        /// The job.
        job: JobId,
        /// Offset of the first recipient of the destination.
        destination: u32,
        /// Maximum number of recipients.
        at_most: u32,
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
