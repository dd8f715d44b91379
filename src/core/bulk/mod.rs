//! Bulk jobs: which packet is cut next.
//!
//! A job has very many recipients, in files that the shell reads and writes. The core knows only
//! those destinations of a job from which packets are cut now, and its packets in the spool. A
//! packet is a message like any other. It is *ahead* until an agent has tried it once.
//!
//! | limit | why |
//! |---|---|
//! | packets ahead of a destination: what its agents need, or the share of the job | few files, and a job that can be stopped, split and resized at any time |
//! | packets ahead of a job | the same |
//! | destinations of a job in memory | a job of any size takes the same memory |
//!
//! A destination whose packets ahead are as many as are allowed is *full*, until an agent has tried
//! one of them, or one is gone. So a destination that takes nothing holds up no other one, and a
//! recipient that is deferred holds up nothing.
//!
//! After a start, the packets in the spool are taken up and do not count as ahead.

pub mod decision;
mod job;
#[cfg(test)]
mod tests;
pub mod view;

pub use decision::{BulkAction, BulkEvent, BulkOrder, OpenedJob};

use crate::Scheduler;
use crate::action::Action;
use crate::operator::order::{Effect, OrderRefusal, OrderTicket};
use crate::queue::{Destination, MessageId};
use crate::timers::Timer;
use job::{Job, OpenDestination, Rest};
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use zsched_bulk::cut::{BulkDestination, RecipientCounts};
use zsched_bulk::recipient::Status;
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_format::time::Timestamp;

/// Maximum number of packets ahead of a job.
const MAX_AHEAD: u32 = 400;
/// Number of destinations that are read at a time.
const DESTINATIONS_PER_READ: usize = 500;
/// Maximum number of full destinations of a job in memory.
const MAX_FULL_DESTINATIONS: usize = 10_000;

/// The jobs that are not finished.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct BulkJobs {
    jobs: BTreeMap<JobId, Job>,
    /// Jobs for which something may have to be decided.
    changed: BTreeSet<JobId>,
}

impl BulkJobs {
    /// Panics if the counts of a job contradict its packets.
    pub(crate) fn check(&self) {
        assert!(self.changed.is_empty(), "jobs that are not settled: {:?}", self.changed);
        self.jobs.values().for_each(Job::check);
    }

    fn change(&mut self, id: JobId) -> Option<&mut Job> {
        let job = self.jobs.get_mut(&id)?;
        self.changed.insert(id);
        Some(job)
    }
}

impl Scheduler {
    /// Processes what the shell has done about a job, or an order.
    pub(crate) fn bulk_event(&mut self, event: BulkEvent) {
        match event {
            BulkEvent::Opened(opened) => self.job_opened(*opened),
            BulkEvent::Destinations { job, outcome } => self.destinations_read(job, outcome),
            BulkEvent::PacketMade { job, destination, outcome } => {
                self.packet_made(job, destination, outcome);
            }
            BulkEvent::PacketEnded { packet, counts } => {
                let job = self.bulk.change(packet.job);
                let packet = job.and_then(|job| job.packets.get_mut(&packet.offset));
                packet.into_iter().for_each(|packet| packet.end = Some(counts));
            }
            BulkEvent::PacketGone(packet) => self.packet_gone(packet.message()),
            BulkEvent::RestDropped { job, outcome } => self.rest_dropped(job, outcome),
            BulkEvent::Finished { job, outcome } => self.job_finished(job, outcome),
            BulkEvent::OrdersStored { job, ticket, outcome } => {
                self.job_orders_stored(job, ticket, outcome);
            }
        }
    }

    fn job_opened(&mut self, opened: OpenedJob) {
        let id = opened.id;
        if self.bulk.jobs.contains_key(&id) {
            return;
        }
        let counts = opened.counts;
        let packets = opened.packets.len();
        self.bulk.jobs.insert(id, Job::new(opened, self.cx.now));
        self.bulk.changed.insert(id);
        let final_count = counts.all - counts.pending;
        self.cx.log(
            Level::Info,
            format!(
                "bulk job {id}: {} recipients, {final_count} of them final, {packets} packets in \
                 the queue",
                counts.all
            ),
        );
    }

    fn destinations_read(
        &mut self,
        id: JobId,
        outcome: Result<(Vec<BulkDestination>, bool), ErrorKind>,
    ) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        job.is_reading = false;
        match outcome {
            Ok((found, is_last)) => {
                job.has_more &= !is_last;
                job.open.extend(found.into_iter().map(OpenDestination::new));
            }
            Err(_) => job.retry_at = Some(retry),
        }
    }

    fn packet_made(
        &mut self,
        id: JobId,
        destination: u32,
        outcome: Result<Option<(PacketNumber, u32)>, ErrorKind>,
    ) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        match outcome {
            Ok(made) => job.packet_made(destination, made),
            Err(_) => {
                job.packet_failed(destination);
                job.retry_at = Some(retry);
            }
        }
    }

    fn rest_dropped(&mut self, id: JobId, outcome: Result<u32, ErrorKind>) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        match outcome {
            Ok(dropped) => {
                job.counts.pending = job.counts.pending.saturating_sub(dropped);
                job.counts.dropped += dropped;
                job.rest = Rest::Dropped;
                self.cx
                    .log(Level::Info, format!("bulk job {id}: {dropped} recipients are dropped"));
            }
            Err(_) => (job.rest, job.retry_at) = (Rest::Wanted, Some(retry)),
        }
    }

    fn job_finished(&mut self, id: JobId, outcome: Result<RecipientCounts, ErrorKind>) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        job.is_finishing = false;
        match outcome {
            Ok(counts) if counts.pending == 0 => {
                self.bulk.jobs.remove(&id);
                let RecipientCounts { all, delivered, failed, .. } = counts;
                let text = format!(
                    "bulk job {id}: finished ({all} recipients, {delivered} delivered, {failed} \
                     failed)"
                );
                self.cx.log(Level::Info, text);
            }
            // Some were in a packet that is gone without an outcome: they are cut again.
            Ok(counts) => {
                (job.counts, job.has_more) = (counts, true);
                let text = format!("bulk job {id}: {} recipients are in no packet", counts.pending);
                self.cx.log(Level::Warn, text);
            }
            Err(_) => job.retry_at = Some(retry),
        }
    }

    /// Carries out an order about a job. It is answered when it is stored.
    pub(crate) fn order_about_job(&mut self, id: JobId, order: BulkOrder, by: &str) -> Effect {
        let Some(job) = self.bulk.change(id) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        self.cx.log(Level::Info, format!("bulk job {id}: {order:?}, ordered by {by}"));
        match order {
            BulkOrder::Pause => job.orders.is_paused = true,
            BulkOrder::Resume => job.orders.is_paused = false,
            BulkOrder::Cancel => job.orders.is_cancelled = true,
            BulkOrder::PacketSize(size) => job.orders.packet_size = Some(size.max(1)),
            BulkOrder::Share(share) => job.orders.share = Some(share.clamp(1, MAX_SHARE)),
        }
        let (orders, ticket) = (job.orders, self.cx.add_order_part());
        job.fill_again();
        self.cx.act(Action::Bulk(BulkAction::StoreOrders { job: id, ticket, orders }));
        Effect::default()
    }

    fn job_orders_stored(
        &mut self,
        id: JobId,
        ticket: Option<OrderTicket>,
        outcome: Result<(), ErrorKind>,
    ) {
        if let Some(ticket) = ticket {
            self.orders.finish_order_part(&mut self.cx, ticket, outcome.err());
        }
        let retry = self.cx.now + self.cx.settings.failed_write;
        if let (Some(job), Err(_)) = (self.bulk.change(id), outcome) {
            (job.are_orders_unstored, job.retry_at) = (true, Some(retry));
        }
    }

    /// Records that an agent has ended a job of a message: if it is a packet, it is tried.
    pub(crate) fn packet_tried(&mut self, message: MessageId) {
        let number = self.queue.message(message).name.number();
        if let Some(packet) = PacketNumber::of_message(number)
            && let Some(job) = self.bulk.change(packet.job)
        {
            job.packet_tried(packet.offset);
        }
    }

    /// Records that a message has left the spool: if it is a packet, its books are closed.
    pub(crate) fn packet_gone(&mut self, number: u64) {
        if let Some(packet) = PacketNumber::of_message(number)
            && let Some(job) = self.bulk.change(packet.job)
        {
            job.packet_gone(packet.offset);
        }
    }

    /// All jobs may have something to decide: a new configuration, or a step of the clock.
    pub(crate) fn reconsider_jobs(&mut self) {
        self.bulk.changed = self.bulk.jobs.keys().copied().collect();
        self.bulk.jobs.values_mut().for_each(Job::fill_again);
    }

    /// A time for which a job has waited is reached.
    pub(crate) fn job_timer(&mut self, id: JobId) {
        self.bulk.change(id);
    }

    /// Decides for the jobs that have changed.
    pub(crate) fn settle_jobs(&mut self) {
        while let Some(id) = self.bulk.changed.pop_first() {
            // Its room depends on the rest of the state, so it is taken out meanwhile.
            if let Some(mut job) = self.bulk.jobs.remove(&id) {
                self.settle_job(id, &mut job);
                self.bulk.jobs.insert(id, job);
            }
        }
    }

    fn settle_job(&mut self, id: JobId, job: &mut Job) {
        if let Some(retry_at) = job.retry_at.filter(|time| *time > self.cx.now) {
            return self.cx.timers.add(retry_at, Timer::Bulk(id));
        }
        job.retry_at = None;
        if std::mem::take(&mut job.are_orders_unstored) {
            let (ticket, orders) = (None, job.orders);
            self.cx.act(Action::Bulk(BulkAction::StoreOrders { job: id, ticket, orders }));
        }
        if let Some(status) = self.end_of_job(id, job) {
            return self.drop_rest(id, job, status);
        }
        if let Some(not_before) = job.not_before.filter(|time| *time > self.cx.now) {
            return self.cx.timers.add(not_before, Timer::Bulk(id));
        }
        if self.cx.is_draining {
            return;
        }
        if !job.orders.is_paused {
            self.cut_packets(id, job);
        }
        if job.is_complete() {
            job.is_finishing = true;
            self.cx.act(Action::Bulk(BulkAction::Finish(id)));
        }
    }

    /// What becomes of recipients that are not cut, if no more are to be.
    fn end_of_job(&mut self, id: JobId, job: &Job) -> Option<Status> {
        if matches!(job.rest, Rest::Dropped) {
            return None;
        }
        match job.deadline {
            _ if job.orders.is_cancelled => return Some(Status::Cancelled),
            Some(deadline) if deadline <= self.cx.now => return Some(Status::TooLate),
            Some(deadline) => self.cx.timers.add(deadline, Timer::Bulk(id)),
            None => {}
        }
        None
    }

    fn drop_rest(&mut self, id: JobId, job: &mut Job, status: Status) {
        job.forget_rest();
        // What is being read or made belongs to the rest, or to a packet.
        if job.making == 0 && !job.is_reading && !matches!(job.rest, Rest::Dropping) {
            job.rest = Rest::Dropping;
            self.cx.act(Action::Bulk(BulkAction::DropRest { job: id, status }));
        }
    }

    fn cut_packets(&mut self, id: JobId, job: &mut Job) {
        while job.ahead_total < MAX_AHEAD
            && let Some(destination) = job.open.pop_front()
        {
            let (room, at_most) = self.room_for_packets(job, &destination.key);
            if job.ahead(&destination.key) >= room {
                job.full.insert(destination.key.clone(), destination);
                continue;
            }
            let offset = destination.offset;
            let recipients = at_most.min(destination.left);
            job.begin_packet(destination);
            self.cx.act(Action::Bulk(BulkAction::MakePacket {
                job: id,
                destination: offset,
                at_most: recipients,
            }));
        }
        if job.has_more
            && !job.is_reading
            && job.open.len() < DESTINATIONS_PER_READ / 2
            && job.full.len() < MAX_FULL_DESTINATIONS
            && job.ahead_total < MAX_AHEAD
        {
            job.is_reading = true;
            let at_most = DESTINATIONS_PER_READ;
            self.cx.act(Action::Bulk(BulkAction::ReadDestinations { job: id, at_most }));
        }
    }

    /// Maximum number of packets ahead of a destination, and of recipients in a packet.
    fn room_for_packets(&self, job: &Job, destination: &Destination) -> (u32, u32) {
        let (channel, host) = (destination.channel(), destination.host());
        let known = self.queue.threads().find(channel, host);
        let (agents, is_reachable, packet) = match known {
            Some(id) => {
                let thread = self.queue.thread(id);
                let agents = self.dispatch.window_size(&self.queue, thread);
                (agents, thread.retry.unreachable.is_none(), self.queue.clause(id).packet)
            }
            None => {
                let clause = self.cx.config.select_or_default(channel, host);
                (clause.max_thread as usize, true, clause.packet)
            }
        };
        let agents = u32::try_from(agents).unwrap_or(u32::MAX).clamp(1, MAX_AHEAD);
        let (size, share) = (job.packet_size(), job.share());
        match share {
            // One shows when the destination can be reached again.
            _ if !is_reachable => (1, size),
            MAX_SHARE => (2 * agents + 2, size),
            // A job of an agent is then a packet, so that packets count agents.
            _ => {
                let size = if packet > 0 { size.min(packet) } else { size };
                ((agents * u32::from(share) / u32::from(MAX_SHARE)).max(1), size)
            }
        }
    }
}

/// Converts a time of a job's parameters.
fn time(seconds: Option<i64>) -> Option<Timestamp> {
    seconds.map(Timestamp::from_seconds)
}
