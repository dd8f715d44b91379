//! Numbers of recipients by their status.

use super::recipient::Status;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Numbers of recipients of a job, or of a packet, by their status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct RecipientCounts {
    /// All recipients.
    pub all: u32,
    /// Recipients that are not final: in a packet, or in none yet.
    pub pending: u32,
    /// Recipients whose packet has vanished, and that wait for the decision of an operator.
    pub lost: u32,
    /// Delivered recipients.
    pub delivered: u32,
    /// Recipients that have failed or expired.
    pub failed: u32,
    /// Recipients of packets in `postman/`.
    pub aside: u32,
    /// Recipients that an operator has deleted.
    pub deleted: u32,
    /// Recipients that an operator has given back to the router.
    pub rerouted: u32,
    /// Recipients that were not delivered because the job was cancelled.
    pub cancelled: u32,
    /// Recipients that were never tried because the deadline had passed.
    pub too_late: u32,
    /// Recipients that were handed to another scheduler.
    pub exported: u32,
    /// Recipients whose packet has vanished, and that an operator has given up.
    pub unknown: u32,
}

impl RecipientCounts {
    /// Counts a recipient.
    pub fn add(&mut self, status: Status) {
        self.add_many(status, 1);
    }

    /// Counts recipients of the same status.
    pub fn add_many(&mut self, status: Status, count: u32) {
        self.all += count;
        *self.of_mut(status) += count;
    }

    /// Changes the status of pending recipients.
    pub fn end_pending(&mut self, status: Status, count: u32) {
        let count = count.min(self.pending);
        self.pending -= count;
        *self.of_mut(status) += count;
    }

    /// Makes a recipient pending again.
    pub(super) fn reopen(&mut self, status: Status) {
        *self.of_mut(status) -= 1;
        self.pending += 1;
    }

    /// Adds the outcomes of a packet whose recipients were pending.
    pub fn end_packet(&mut self, end: &RecipientCounts) {
        for status in Status::all().filter(|status| status.is_final()) {
            self.end_pending(status, end.of(status));
        }
    }

    /// Number of recipients with a status; pending ones are one status here.
    pub fn of(&self, status: Status) -> u32 {
        *self.clone().of_mut(status)
    }

    /// Number of recipients that are final.
    pub fn ended(&self) -> u32 {
        self.all - self.pending - self.lost
    }

    fn of_mut(&mut self, status: Status) -> &mut u32 {
        match status {
            Status::Pending | Status::Cut => &mut self.pending,
            Status::Lost => &mut self.lost,
            Status::Delivered => &mut self.delivered,
            Status::Failed => &mut self.failed,
            Status::Unknown => &mut self.unknown,
            Status::Aside => &mut self.aside,
            Status::Deleted => &mut self.deleted,
            Status::Rerouted => &mut self.rerouted,
            Status::Cancelled => &mut self.cancelled,
            Status::TooLate => &mut self.too_late,
            Status::Exported => &mut self.exported,
        }
    }
}
