//! What others see of bulk jobs.

use super::job::{Job, Rest};
use crate::Scheduler;
use crate::queue::Destination;
use zsched_bulk::cut::RecipientCounts;
use zsched_bulk::{JobId, PacketNumber};
use zsched_format::time::Timestamp;

/// A job that is not finished.
pub struct JobView<'s> {
    /// Its name.
    pub id: JobId,
    job: &'s Job,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Packets are cut and delivered.
    Running,
    /// No packet is cut before this time.
    Scheduled(Timestamp),
    /// An operator has paused it.
    Paused,
    /// All recipients are cut, or dropped. Its packets are delivered.
    Ending,
    /// The disk has refused a write, which is tried again at this time.
    Retrying(Timestamp),
}

impl<'s> JobView<'s> {
    /// What it is doing.
    pub fn state(&self, now: Timestamp) -> JobState {
        let Job { open, full, has_more, .. } = self.job;
        let is_cut = open.is_empty() && full.is_empty() && !has_more && self.job.making == 0;
        match (self.job.retry_at, self.job.not_before) {
            (Some(time), _) => JobState::Retrying(time),
            _ if is_cut || matches!(self.job.rest, Rest::Dropped) => JobState::Ending,
            _ if self.job.orders.is_paused => JobState::Paused,
            (None, Some(time)) if time > now => JobState::Scheduled(time),
            _ => JobState::Running,
        }
    }

    /// The name of the list.
    pub fn list(&self) -> Option<&'s str> {
        self.job.list.as_deref()
    }

    /// Its recipients; those of packets count when the packet is gone.
    pub fn counts(&self) -> RecipientCounts {
        self.job.counts
    }

    /// Number of its packets in the spool, and of their recipients.
    pub fn packets(&self) -> (usize, u32) {
        let recipients = self.job.packets.values().map(|packet| packet.recipients).sum();
        (self.job.packets.len(), recipients)
    }

    /// Offsets of its packets in the spool.
    pub fn packet_numbers(&self) -> impl Iterator<Item = PacketNumber> {
        self.job.packets.keys().map(|offset| PacketNumber { job: self.id, offset: *offset })
    }

    /// Maximum number of recipients in a packet.
    pub fn packet_size(&self) -> u32 {
        self.job.packet_size()
    }

    /// Maximum part of the agents of a destination, in percent.
    pub fn share(&self) -> u8 {
        self.job.share()
    }

    /// Since when its rate is counted, and the number of recipients that have ended since then.
    pub fn progress(&self) -> (Timestamp, u32) {
        let (since, before) = self.job.opened;
        let RecipientCounts { all, pending, .. } = self.job.counts;
        (since, (all - pending).saturating_sub(before))
    }

    /// Destinations that take no more packets now, with the number of recipients not cut.
    pub fn full(&self) -> impl Iterator<Item = (&'s Destination, u32)> {
        self.job.full.values().map(|destination| (&destination.key, destination.left))
    }
}

impl Scheduler {
    /// The bulk jobs that are not finished, in ascending order.
    pub fn bulk_jobs(&self) -> impl Iterator<Item = JobView<'_>> {
        self.bulk.jobs.iter().map(|(id, job)| JobView { id: *id, job })
    }

    /// A bulk job that is not finished.
    pub fn bulk_job(&self, id: JobId) -> Option<JobView<'_>> {
        self.bulk.jobs.get(&id).map(|job| JobView { id, job })
    }

    /// Returns true if a control file is an unfinished packet.
    ///
    /// It must not be read while it is being made.
    pub fn is_packet_in_making(&self, number: u64) -> bool {
        let packet = PacketNumber::of_message(number);
        let job = packet.and_then(|packet| Some((packet, self.bulk.jobs.get(&packet.job)?)));
        job.is_some_and(|(packet, job)| job.making > 0 && !job.packets.contains_key(&packet.offset))
    }
}
