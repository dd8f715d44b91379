//! What others see of bulk jobs.

use super::job::{Job, Packet};
use super::packets::outcomes_of;
use crate::Scheduler;
use crate::query::view::View;
use crate::queue::{Destination, MessageId, VertexId, VertexState};
use std::collections::BTreeMap;
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::recipient::Status;
use zsched_bulk::result::FinishedJob;
use zsched_bulk::{JobId, PacketNumber};
use zsched_format::priority::KEPT_PRIORITY;
use zsched_format::time::Timestamp;

/// A job that is not finished.
pub struct JobView<'s> {
    /// Its name.
    pub id: JobId,
    job: &'s Job,
    core: &'s Scheduler,
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
    /// Its priority `z` keeps it.
    Kept,
    /// More recipients are still being submitted.
    Receiving,
    /// All recipients were tried. Some are deferred, and tried again.
    Retries,
    /// It waits for the decision about recipients whose packets have vanished.
    Lost,
    /// It was cancelled, and ends when agents have ended what they have of it.
    Cancelling,
    /// The disk has refused a write, which is tried again at this time.
    DiskError(Timestamp),
}

/// Numbers of a job's recipients at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTotals {
    /// By their status, those of packets included.
    pub counts: RecipientCounts,
    /// Number of packets in the spool.
    pub packets: u32,
    /// Recipients in packets that are not final.
    pub queued: u32,
    /// Those of them that were tried, and are tried again.
    pub deferred: u32,
    /// Those of them that agents have.
    pub at_work: u32,
}

/// What is left of a job for a destination.
#[derive(Clone, Copy, Debug)]
pub struct RestOfDestination<'s> {
    /// The destination.
    pub destination: &'s Destination,
    /// Recipients in packets that are not final.
    pub queued: u32,
    /// Recipients in no packet yet, as far as they are in memory.
    pub uncut: u32,
    /// The first vertex of its packets that no agent has, which shows what they wait for.
    pub waiting: Option<VertexId>,
}

impl<'s> JobView<'s> {
    /// What it is doing.
    pub fn state(&self, now: Timestamp) -> JobState {
        let job = self.job;
        let (is_cut, open) = (job.is_cut(), job.next_open(now));
        let is_tried = || job.packets.values().all(|packet| packet.ahead_of.is_none());
        match job.retry_at {
            Some(time) => JobState::DiskError(time),
            _ if job.orders.is_cancelled => JobState::Cancelling,
            _ if job.orders.is_paused => JobState::Paused,
            _ if job.priority() >= KEPT_PRIORITY => JobState::Kept,
            _ if open > now && !is_cut => JobState::Scheduled(open),
            _ if is_cut && job.packets.is_empty() && job.counts.lost > 0 => JobState::Lost,
            _ if is_cut && !job.is_complete => JobState::Receiving,
            _ if is_cut && is_tried() && self.totals().at_work == 0 => JobState::Retries,
            _ => JobState::Running,
        }
    }

    /// The name of the list.
    pub fn list(&self) -> Option<&'s str> {
        self.job.list.as_deref()
    }

    /// The envelope sender; `None` is the null sender.
    pub fn sender(&self) -> Option<&'s str> {
        self.job.sender.as_deref()
    }

    /// Priority of its packets.
    pub fn priority(&self) -> u8 {
        self.job.priority()
    }

    /// An operator has paused it.
    pub fn is_paused(&self) -> bool {
        self.job.orders.is_paused
    }

    /// All recipients are submitted.
    pub fn is_complete(&self) -> bool {
        self.job.is_complete
    }

    /// Numbers of its packets in the spool.
    pub fn packets(&self) -> impl Iterator<Item = PacketNumber> {
        self.job.packets.keys().map(|offset| PacketNumber { job: self.id, offset: *offset })
    }

    fn message_of(&self, offset: u32) -> Option<MessageId> {
        let number = PacketNumber { job: self.id, offset }.message();
        self.core.queue.messages().find(number)
    }

    /// Its recipients at present, exact to the recipient.
    pub fn totals(&self) -> JobTotals {
        let packets = self.job.packets.len() as u32;
        let mut totals = JobTotals { counts: self.job.counts, packets, ..JobTotals::default() };
        for (offset, packet) in &self.job.packets {
            let message = self.message_of(*offset);
            let outcomes = message.and_then(|message| outcomes_of(&self.core.queue, message));
            let (delivered, failed) = packet.outcomes(outcomes);
            totals.counts.end_pending(Status::Delivered, delivered);
            totals.counts.end_pending(Status::Failed, failed);
            totals.counts.end_pending(Status::Deleted, packet.removed);
            let left = packet.recipients.saturating_sub(delivered + failed + packet.removed);
            totals.queued += left;
            match message {
                Some(message) => self.add_states(message, &mut totals),
                // It is paged out, or is about to be read.
                None if packet.ahead_of.is_none() => totals.deferred += left,
                None => {}
            }
        }
        totals
    }

    fn add_states(&self, message: MessageId, totals: &mut JobTotals) {
        for vertex in self.core.queue.message(message).vertices.iter(self.core.queue.vertices()) {
            let vertex = self.core.queue.vertex(vertex);
            match vertex.state {
                VertexState::Fed => totals.at_work += vertex.pending(),
                _ if vertex.attempts > 0 => totals.deferred += vertex.pending(),
                _ => {}
            }
        }
    }

    /// Maximum number of recipients in a packet.
    pub fn packet_size(&self) -> u32 {
        self.job.packet_size()
    }

    /// Maximum part of the agents of a destination, in percent.
    pub fn share(&self) -> u8 {
        self.job.share()
    }

    /// Recipients that are delivered or fail in a second; `None` if it is too early to say.
    pub fn rate(&self, now: Timestamp) -> Option<f64> {
        let RecipientCounts { delivered, failed, .. } = self.job.counts;
        self.job.progress.rate(now, delivered + failed)
    }

    /// What is left of it, by destination, those with most recipients first.
    ///
    /// Destinations that were not read yet are not there.
    pub fn rest(&self) -> Vec<RestOfDestination<'s>> {
        let mut rest: BTreeMap<&'s Destination, RestOfDestination<'s>> = BTreeMap::new();
        fn entry<'r, 's>(
            rest: &'r mut BTreeMap<&'s Destination, RestOfDestination<'s>>,
            destination: &'s Destination,
        ) -> &'r mut RestOfDestination<'s> {
            let new = RestOfDestination { destination, queued: 0, uncut: 0, waiting: None };
            rest.entry(destination).or_insert(new)
        }
        let queue = &self.core.queue;
        for message in self.job.packets.keys().filter_map(|offset| self.message_of(*offset)) {
            for id in queue.message(message).vertices.iter(queue.vertices()) {
                let vertex = queue.vertex(id);
                let known = entry(&mut rest, &queue.thread(vertex.thread).destination);
                known.queued += vertex.pending();
                if vertex.state != VertexState::Fed {
                    known.waiting.get_or_insert(id);
                }
            }
        }
        let open = self.job.rings.values().flat_map(|ring| &ring.open);
        for destination in open.chain(self.job.full.values().flatten()) {
            entry(&mut rest, &destination.key).uncut += destination.left;
        }
        let mut rest: Vec<RestOfDestination<'s>> = rest.into_values().collect();
        rest.sort_by_key(|rest| std::cmp::Reverse(rest.queued + rest.uncut));
        rest
    }
}

impl Packet {
    /// Delivered and failed recipients, from those that are final and have failed.
    pub fn outcomes(&self, counts: Option<(u32, u32)>) -> (u32, u32) {
        match counts {
            Some((ended, failed)) => (ended.saturating_sub(failed + self.removed), failed),
            None => (self.delivered, self.failed),
        }
    }
}

impl<'s> View<'s> {
    /// The bulk jobs that are not finished, in ascending order.
    pub fn bulk_jobs(self) -> impl Iterator<Item = JobView<'s>> {
        let core = self.core;
        core.bulk.jobs.iter().map(move |(id, job)| JobView { id: *id, job, core })
    }

    /// A bulk job that is not finished.
    pub fn bulk_job(self, id: JobId) -> Option<JobView<'s>> {
        self.core.bulk.jobs.get(&id).map(|job| JobView { id, job, core: self.core })
    }

    /// Finished bulk jobs that are kept, in ascending order.
    pub fn finished_bulk_jobs(self) -> impl Iterator<Item = &'s FinishedJob> {
        self.core.bulk.finished.values()
    }

    /// A finished bulk job that is kept.
    pub fn finished_bulk_job(self, id: JobId) -> Option<&'s FinishedJob> {
        self.core.bulk.finished.get(&id)
    }

    /// Returns true if a control file may be a packet that is unknown to its job.
    ///
    /// It must not be read then.
    pub fn is_packet_in_making(self, number: u64) -> bool {
        let packet = PacketNumber::of_message(number);
        let job = packet.and_then(|packet| Some((packet, self.core.bulk.jobs.get(&packet.job)?)));
        job.is_some_and(|(packet, job)| {
            job.making() > 0 && !job.packets.contains_key(&packet.offset)
        })
    }
}
