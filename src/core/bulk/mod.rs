//! Bulk jobs: which packet is cut next.
//!
//! A job has very many recipients, in files that the shell reads and writes. The core knows only
//! those destinations of a job from which packets are cut now, and its packets in the spool. A
//! packet is a message like any other.
//!
//! | file | decides |
//! |---|---|
//! | this one | what follows from an event, and the life of a job from its begin to its result |
//! | [`job`] | nothing: the state of a job |
//! | [`ahead`] | how many packets are cut before agents need them |
//! | [`share`] | how many packets of a job agents work on |
//! | [`packets`] | what an order about a job means for the packets that are cut |
//! | [`progress`] | how fast a job is |
//! | [`view`] | nothing: what others see |
//!
//! After a start, the packets in the spool are taken up and do not count as ahead.

mod ahead;
pub mod decision;
mod job;
mod packets;
mod progress;
mod share;
#[cfg(test)]
mod tests;
pub mod view;

pub use decision::{BulkAction, BulkEvent, BulkOrder, OpenedJob};
pub(crate) use packets::cancellation;

use crate::Scheduler;
use crate::action::Action;
use crate::operator::order::{Effect, OrderRefusal, OrderTicket};
use crate::queue::Destination;
use crate::timers::Timer;
use job::{Job, LostPackets, OpenDestination, Rest};
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::time::Duration;
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::cut::BulkDestination;
use zsched_bulk::recipient::Status;
use zsched_bulk::result::{Ended, FinishedJob};
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_format::time::Timestamp;

/// Maximum number of finished jobs that are listed.
const MAX_FINISHED: usize = 1000;
/// Time after which a share is looked at again if nothing else happens.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);

/// The jobs.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct BulkJobs {
    /// Those that are not finished.
    jobs: BTreeMap<JobId, Job>,
    /// Those that are finished, for people.
    finished: BTreeMap<JobId, FinishedJob>,
    /// Jobs for which something may have to be decided.
    changed: BTreeSet<JobId>,
}

impl BulkJobs {
    /// Panics if the counts of a job contradict its packets.
    pub(crate) fn check(&self) {
        assert!(self.changed.is_empty(), "jobs that are not settled: {:?}", self.changed);
        self.jobs.values().for_each(Job::check);
    }

    /// Returns true if something is to be decided.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    fn add_finished(&mut self, job: FinishedJob) {
        self.finished.insert(job.id, job);
        if self.finished.len() > MAX_FINISHED {
            let oldest = self.finished.values().min_by_key(|job| job.finished);
            if let Some(id) = oldest.map(|job| job.id) {
                self.finished.remove(&id);
            }
        }
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
            BulkEvent::Grown { job, all, is_complete } => self.job_grown(job, all, is_complete),
            BulkEvent::Destinations { job, outcome } => self.destinations_read(job, outcome),
            BulkEvent::PacketsMade { job, destination, outcome } => {
                self.packets_made(job, destination, outcome);
            }
            BulkEvent::PacketEnded { packet, counts } => {
                let job = self.bulk.change(packet.job);
                let packet = job.and_then(|job| job.packets.get_mut(&packet.offset));
                packet.into_iter().for_each(|packet| packet.end = Some(counts));
            }
            BulkEvent::PacketGone(packet) => self.packet_gone(packet.message()),
            BulkEvent::RestDropped { job, status, outcome } => {
                self.rest_dropped(job, status, outcome);
            }
            BulkEvent::LostMarked { job, outcome } => self.lost_marked(job, outcome),
            BulkEvent::LostDecided { job, ticket, are_sent, outcome } => {
                self.lost_decided(job, ticket, are_sent, outcome);
            }
            BulkEvent::Finished { job, outcome } => self.job_finished(job, outcome),
            BulkEvent::OrdersStored { job, ticket, outcome } => {
                self.job_orders_stored(job, ticket, outcome);
            }
            BulkEvent::FinishedFound(finished) => self.bulk.add_finished(*finished),
            BulkEvent::Removed(job) => drop(self.bulk.finished.remove(&job)),
        }
    }

    fn job_opened(&mut self, opened: OpenedJob) {
        let id = opened.id;
        if self.bulk.jobs.contains_key(&id) {
            return;
        }
        let RecipientCounts { all, lost, .. } = opened.counts;
        let (ended, packets) = (opened.counts.ended(), opened.packets.len());
        self.bulk.finished.remove(&id);
        self.bulk.jobs.insert(id, Job::new(opened, self.cx.now));
        self.bulk.changed.insert(id);
        self.cx.log(
            Level::Info,
            format!(
                "bulk job {id}: {all} recipients, {ended} of them final, {packets} packets in the \
                 queue"
            ),
        );
        self.log_lost(id, lost);
    }

    fn log_lost(&mut self, id: JobId, lost: u32) {
        if lost > 0 {
            let text = format!(
                "bulk job {id}: packets with {lost} recipients have vanished; they may be \
                 delivered or not, and wait for a decision: mailq job {id} lost send|drop"
            );
            self.cx.log(Level::Warn, text);
        }
    }

    fn job_grown(&mut self, id: JobId, all: u32, is_complete: bool) {
        let Some(job) = self.bulk.change(id) else { return };
        let more = all.saturating_sub(job.counts.all);
        job.counts.all += more;
        job.counts.pending += more;
        job.is_complete |= is_complete;
        if more > 0 {
            job.has_more = true;
            if matches!(job.rest, Rest::Dropped) {
                job.rest = Rest::Wanted;
            }
        }
    }

    fn destinations_read(
        &mut self,
        id: JobId,
        outcome: Result<(Vec<BulkDestination>, bool), ErrorKind>,
    ) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(mut job) = self.bulk.jobs.remove(&id) else { return };
        job.is_reading = false;
        match outcome {
            Ok((found, is_last)) => {
                job.has_more &= !is_last;
                for destination in found.into_iter().map(OpenDestination::new) {
                    job.add_open(self.ring_of(&destination.key), destination);
                }
            }
            Err(_) => job.retry_at = Some(retry),
        }
        self.bulk.jobs.insert(id, job);
        self.bulk.changed.insert(id);
    }

    fn packets_made(
        &mut self,
        id: JobId,
        destination: u32,
        outcome: Result<Vec<(PacketNumber, u32)>, ErrorKind>,
    ) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(mut job) = self.bulk.jobs.remove(&id) else { return };
        let ring_of = |destination: &Destination| self.ring_of(destination);
        match outcome {
            Ok(made) => job.packets_made(destination, &made, ring_of),
            Err(_) => {
                job.packets_failed(destination, ring_of);
                job.retry_at = Some(retry);
            }
        }
        self.bulk.jobs.insert(id, job);
        self.bulk.changed.insert(id);
    }

    fn rest_dropped(&mut self, id: JobId, status: Status, outcome: Result<u32, ErrorKind>) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        match outcome {
            Ok(dropped) => {
                job.counts.end_pending(status, dropped);
                job.rest = Rest::Dropped;
                self.cx
                    .log(Level::Info, format!("bulk job {id}: {dropped} recipients are {status}"));
            }
            Err(_) => {
                (job.rest, job.has_more, job.retry_at) = (Rest::Wanted, true, Some(retry));
            }
        }
    }

    fn lost_marked(&mut self, id: JobId, outcome: Result<u32, ErrorKind>) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        match outcome {
            Ok(lost) => {
                // Another packet may have vanished meanwhile.
                if job.lost == LostPackets::Marking {
                    job.lost = LostPackets::None;
                }
                job.counts.end_pending(Status::Lost, lost);
                self.log_lost(id, lost);
            }
            Err(_) => (job.lost, job.retry_at) = (LostPackets::Found, Some(retry)),
        }
    }

    fn lost_decided(
        &mut self,
        id: JobId,
        ticket: Option<OrderTicket>,
        are_sent: bool,
        outcome: Result<u32, ErrorKind>,
    ) {
        if let Some(ticket) = ticket {
            self.orders.finish_order_part(&mut self.cx, ticket, outcome.err());
        }
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        job.is_deciding = false;
        let count = match outcome {
            Ok(count) => count.min(job.counts.lost),
            Err(_) => return job.retry_at = Some(retry),
        };
        job.counts.lost -= count;
        job.counts.pending += count;
        if are_sent {
            // They are found among all destinations, which are read again.
            job.forget_rest();
            job.has_more = true;
            if matches!(job.rest, Rest::Dropped) {
                job.rest = Rest::Wanted;
            }
        } else {
            job.counts.end_pending(Status::Unknown, count);
        }
    }

    fn job_finished(&mut self, id: JobId, outcome: Result<Ended, ErrorKind>) {
        let retry = self.cx.now + self.cx.settings.failed_write;
        let Some(job) = self.bulk.change(id) else { return };
        job.is_finishing = false;
        match outcome {
            Ok(Ended::Finished(finished)) => {
                self.bulk.jobs.remove(&id);
                let RecipientCounts { all, delivered, failed, .. } = finished.counts;
                self.bulk.add_finished(finished);
                let text = format!(
                    "bulk job {id}: finished ({all} recipients, {delivered} delivered, {failed} \
                     failed)"
                );
                self.cx.log(Level::Info, text);
            }
            Ok(Ended::Removed(_)) => {
                self.bulk.jobs.remove(&id);
                let text = format!("bulk job {id}: removed, since nothing of it was sent");
                self.cx.log(Level::Info, text);
            }
            Ok(Ended::NotYet(counts)) => {
                (job.counts, job.has_more) = (counts, counts.pending > 0);
                job.retry_at = Some(retry);
                let text = format!("bulk job {id}: {} recipients are in no packet", counts.pending);
                self.cx.log(Level::Warn, text);
                self.log_lost(id, counts.lost);
            }
            Err(_) => job.retry_at = Some(retry),
        }
    }

    /// Carries out an order about a job. It is answered when it is stored.
    pub(crate) fn order_about_job(&mut self, id: JobId, order: BulkOrder, by: &str) -> Effect {
        let Some(job) = self.bulk.change(id) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        let is_cancelled = job.orders.is_cancelled;
        let orders = &mut job.orders;
        match order {
            BulkOrder::Lost { are_sent } => return self.decide_lost(id, are_sent, by),
            // A cancelled job does not come back.
            _ if is_cancelled && order != BulkOrder::Cancel => {
                return Effect::refused(OrderRefusal::JobCancelled);
            }
            BulkOrder::Pause => orders.is_paused = true,
            BulkOrder::Resume => orders.is_paused = false,
            BulkOrder::Cancel => orders.is_cancelled = true,
            BulkOrder::PacketSize(size) => orders.packet_size = Some(size.max(1)),
            BulkOrder::Share(share) => orders.share = Some(share.clamp(1, MAX_SHARE)),
            BulkOrder::Priority(priority) => orders.priority = Some(priority),
        }
        self.cx.log(Level::Info, format!("bulk job {id}: {order:?}, ordered by {by}"));
        let (orders, ticket) = (job.orders, self.cx.add_order_part());
        job.sweep = Some(0);
        self.cx.act(Action::Bulk(BulkAction::StoreOrders { job: id, ticket, orders }));
        self.look_at_full_destinations(id);
        Effect { jobs: 1, ..Effect::default() }
    }

    fn decide_lost(&mut self, id: JobId, are_sent: bool, by: &str) -> Effect {
        let Some(job) = self.bulk.change(id).filter(|job| job.counts.lost > 0) else {
            return Effect::refused(OrderRefusal::NothingLost);
        };
        let recipients = job.counts.lost;
        let what = if are_sent { "sent again" } else { "given up" };
        let text = format!("bulk job {id}: {recipients} recipients are {what}, ordered by {by}");
        self.cx.log(Level::Info, text);
        job.is_deciding = true;
        let ticket = self.cx.add_order_part();
        self.cx.act(Action::Bulk(BulkAction::DecideLost { job: id, ticket, are_sent }));
        Effect { jobs: 1, recipients, ..Effect::default() }
    }

    /// Looks at the full destinations of a job again.
    fn look_at_full_destinations(&mut self, id: JobId) {
        if let Some(mut job) = self.bulk.jobs.remove(&id) {
            job.fill_again(|destination| self.ring_of(destination));
            self.bulk.jobs.insert(id, job);
        }
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
        let Some(job) = self.bulk.change(id) else { return };
        match outcome {
            Ok(()) if job.orders.is_cancelled && !job.is_cancellation_stored => {
                (job.is_cancellation_stored, job.sweep) = (true, Some(0));
            }
            Ok(()) => {}
            Err(_) => (job.are_orders_unstored, job.retry_at) = (true, Some(retry)),
        }
    }

    /// All jobs may have something to decide: a new configuration, or a step of the clock.
    pub(crate) fn reconsider_jobs(&mut self) {
        for id in self.bulk.jobs.keys().copied().collect::<Vec<JobId>>() {
            if let Some(mut job) = self.bulk.jobs.remove(&id) {
                job.change_rings(|destination| self.ring_of(destination));
                self.bulk.jobs.insert(id, job);
                self.bulk.changed.insert(id);
            }
        }
    }

    /// A time for which a job has waited is reached.
    pub(crate) fn job_timer(&mut self, id: JobId) {
        self.bulk.change(id);
    }

    /// Decides for the jobs that have changed.
    pub(crate) fn settle_jobs(&mut self) {
        while let Some(id) = self.bulk.changed.pop_first() {
            self.apply_orders_to_packets(id);
            // Its room depends on the rest of the state, so it is taken out meanwhile.
            if let Some(mut job) = self.bulk.jobs.remove(&id) {
                self.settle_job(id, &mut job);
                self.bulk.jobs.insert(id, job);
            }
        }
    }

    fn settle_job(&mut self, id: JobId, job: &mut Job) {
        let now = self.cx.now;
        job.progress.record(now, job.counts.delivered + job.counts.failed);
        if job.gates.has_waiting() && !job.is_stopped() {
            self.release_packets(id, job);
            self.cx.timers.add(now + SHARE_INTERVAL, Timer::Bulk(id));
        }
        if let Some(retry_at) = job.retry_at.filter(|time| *time > now) {
            return self.cx.timers.add(retry_at, Timer::Bulk(id));
        }
        job.retry_at = None;
        if std::mem::take(&mut job.are_orders_unstored) {
            let (ticket, orders) = (None, job.orders);
            self.cx.act(Action::Bulk(BulkAction::StoreOrders { job: id, ticket, orders }));
        }
        if job.lost == LostPackets::Found {
            job.lost = LostPackets::Marking;
            self.cx.act(Action::Bulk(BulkAction::MarkLost(id)));
        }
        if job.is_cancellation_stored && job.counts.lost > 0 && !job.is_deciding {
            job.is_deciding = true;
            let (ticket, are_sent) = (None, false);
            self.cx.act(Action::Bulk(BulkAction::DecideLost { job: id, ticket, are_sent }));
        }
        match self.end_of_job(id, job) {
            Some(status) => self.drop_rest(id, job, status),
            None if self.may_cut(id, job) => self.cut_packets(id, job),
            None => {}
        }
        if job.can_finish() && !self.cx.is_draining {
            job.is_finishing = true;
            self.cx.act(Action::Bulk(BulkAction::Finish(id)));
        }
    }

    /// Returns true if packets may be cut now.
    fn may_cut(&mut self, id: JobId, job: &Job) -> bool {
        let open = job.next_open(self.cx.now);
        if open > self.cx.now {
            self.cx.timers.add(open, Timer::Bulk(id));
            return false;
        }
        !self.cx.is_draining && !job.is_stopped() && matches!(job.rest, Rest::Wanted)
    }

    /// What becomes of recipients that are not cut, if no more are to be.
    fn end_of_job(&mut self, id: JobId, job: &Job) -> Option<Status> {
        if !matches!(job.rest, Rest::Wanted) || (job.is_cut() && !job.is_reading) {
            return None;
        }
        match job.deadline {
            _ if job.orders.is_cancelled => {
                return job.is_cancellation_stored.then_some(Status::Cancelled);
            }
            Some(deadline) if deadline <= self.cx.now => return Some(Status::TooLate),
            Some(deadline) => self.cx.timers.add(deadline, Timer::Bulk(id)),
            None => {}
        }
        None
    }

    fn drop_rest(&mut self, id: JobId, job: &mut Job, status: Status) {
        // What is being read or made belongs to the rest, or to a packet.
        if job.making() == 0 && !job.is_reading {
            job.forget_rest();
            job.rest = Rest::Dropping;
            self.cx.act(Action::Bulk(BulkAction::DropRest { job: id, status }));
        }
    }
}

/// Converts a time of a job's parameters.
fn time(seconds: Option<i64>) -> Option<Timestamp> {
    seconds.map(Timestamp::from_seconds)
}
