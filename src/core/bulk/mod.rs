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

use crate::action::Action;
use crate::admission::Admission;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::operator::order::{Effect, OrderRefusal, OrderTicket, PendingOrders};
use crate::queue::{Destination, MessageFlag, Queue};
use crate::timers::Timer;
use ahead::ring_of;
use job::{Job, LostPackets, OpenDestination, Rest};
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use zsched_bulk::counts::RecipientCounts;
use zsched_bulk::cut::BulkDestination;
use zsched_bulk::recipient::Status;
use zsched_bulk::result::{Ended, FinishedJob};
use zsched_bulk::{JobId, MAX_SHARE, PacketNumber};
use zsched_format::time::{ClockStep, Timestamp};

/// Maximum number of finished jobs that are listed.
const MAX_FINISHED: usize = 1000;

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
    /// Panics if the counts of a job contradict its packets, or nothing lets a packet go.
    pub(crate) fn check(&self, queue: &Queue) {
        assert!(self.changed.is_empty(), "jobs that are not settled: {:?}", self.changed);
        self.jobs.values().for_each(Job::check);
        for (_, message) in queue.messages().iter().filter(|(_, of)| of.is(MessageFlag::KeptByJob))
        {
            let packet = PacketNumber::of_message(message.number()).expect("others are not kept");
            let job = self.jobs.get(&packet.job).expect("a job has the packet");
            assert!(job.keeps(packet.offset), "{packet:?} is kept, and waits for nothing");
        }
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

    /// Processes what the shell has done about a job, or an order.
    pub(crate) fn event(&mut self, orders: &mut PendingOrders, cx: &mut Context, event: BulkEvent) {
        match event {
            BulkEvent::Opened(opened) => self.job_opened(cx, *opened),
            BulkEvent::Grown { job, all, is_complete } => self.job_grown(job, all, is_complete),
            BulkEvent::Destinations { job, outcome } => self.destinations_read(cx, job, outcome),
            BulkEvent::PacketsMade { job, destination, outcome } => {
                self.packets_made(cx, job, destination, outcome);
            }
            BulkEvent::PacketEnded { packet, counts } => {
                let job = self.change(packet.job);
                let packet = job.and_then(|job| job.packets.get_mut(&packet.offset));
                packet.into_iter().for_each(|packet| packet.end = Some(counts));
            }
            BulkEvent::PacketGone(packet) => self.packet_gone(packet.message()),
            BulkEvent::RestDropped { job, status, outcome } => {
                self.rest_dropped(cx, job, status, outcome);
            }
            BulkEvent::LostMarked { job, outcome } => self.lost_marked(cx, job, outcome),
            BulkEvent::LostDecided { job, ticket, are_sent, outcome } => {
                self.lost_decided(orders, cx, job, ticket, are_sent, outcome);
            }
            BulkEvent::Finished { job, outcome } => self.job_finished(cx, job, outcome),
            BulkEvent::OrdersStored { job, ticket, outcome } => {
                self.job_orders_stored(orders, cx, job, ticket, outcome);
            }
            BulkEvent::FinishedFound(finished) => self.add_finished(*finished),
            BulkEvent::Removed(job) => drop(self.finished.remove(&job)),
        }
    }

    fn job_opened(&mut self, cx: &mut Context, opened: OpenedJob) {
        let id = opened.id;
        if self.jobs.contains_key(&id) {
            return;
        }
        let RecipientCounts { all, lost, .. } = opened.counts;
        let (ended, packets) = (opened.counts.ended(), opened.packets.len());
        self.finished.remove(&id);
        self.jobs.insert(id, Job::new(opened, cx.now));
        self.changed.insert(id);
        cx.log(
            Level::Info,
            format!(
                "bulk job {id}: {all} recipients, {ended} of them final, {packets} packets in the \
                 queue"
            ),
        );
        log_lost(cx, id, lost);
    }

    fn job_grown(&mut self, id: JobId, all: u32, is_complete: bool) {
        let Some(job) = self.change(id) else { return };
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
        cx: &mut Context,
        id: JobId,
        outcome: Result<(Vec<BulkDestination>, bool), ErrorKind>,
    ) {
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        job.is_reading = false;
        match outcome {
            Ok((found, is_last)) => {
                job.has_more &= !is_last;
                for destination in found.into_iter().map(OpenDestination::new) {
                    job.add_open(ring_of(cx, &destination.key), destination);
                }
            }
            Err(_) => job.retry_at = Some(retry),
        }
    }

    fn packets_made(
        &mut self,
        cx: &mut Context,
        id: JobId,
        destination: u32,
        outcome: Result<Vec<(PacketNumber, u32)>, ErrorKind>,
    ) {
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        let ring_of = |destination: &Destination| ring_of(cx, destination);
        match outcome {
            Ok(made) => job.packets_made(destination, &made, ring_of),
            Err(_) => {
                job.packets_failed(destination, ring_of);
                job.retry_at = Some(retry);
            }
        }
    }

    fn rest_dropped(
        &mut self,
        cx: &mut Context,
        id: JobId,
        status: Status,
        outcome: Result<u32, ErrorKind>,
    ) {
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        match outcome {
            Ok(dropped) => {
                job.counts.end_pending(status, dropped);
                job.rest = Rest::Dropped;
                cx.log(Level::Info, format!("bulk job {id}: {dropped} recipients are {status}"));
            }
            Err(_) => {
                (job.rest, job.has_more, job.retry_at) = (Rest::Wanted, true, Some(retry));
            }
        }
    }

    fn lost_marked(&mut self, cx: &mut Context, id: JobId, outcome: Result<u32, ErrorKind>) {
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        match outcome {
            Ok(lost) => {
                // Another packet may have vanished meanwhile.
                if job.lost == LostPackets::Marking {
                    job.lost = LostPackets::None;
                }
                job.counts.end_pending(Status::Lost, lost);
                log_lost(cx, id, lost);
            }
            Err(_) => (job.lost, job.retry_at) = (LostPackets::Found, Some(retry)),
        }
    }

    fn lost_decided(
        &mut self,
        orders: &mut PendingOrders,
        cx: &mut Context,
        id: JobId,
        ticket: Option<OrderTicket>,
        are_sent: bool,
        outcome: Result<u32, ErrorKind>,
    ) {
        if let Some(ticket) = ticket {
            orders.finish_order_part(cx, ticket, outcome.err());
        }
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        job.is_deciding = false;
        if outcome.is_err() {
            return job.retry_at = Some(retry);
        }
        // All of them are decided. The answer has the number that this attempt has changed: one
        // that failed may have changed the others before.
        let count = std::mem::take(&mut job.counts.lost);
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

    fn job_finished(&mut self, cx: &mut Context, id: JobId, outcome: Result<Ended, ErrorKind>) {
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        job.is_finishing = false;
        match outcome {
            Ok(Ended::Finished(finished)) => {
                self.jobs.remove(&id);
                let RecipientCounts { all, delivered, failed, .. } = finished.counts;
                self.add_finished(finished);
                let text = format!(
                    "bulk job {id}: finished ({all} recipients, {delivered} delivered, {failed} \
                     failed)"
                );
                cx.log(Level::Info, text);
            }
            Ok(Ended::Removed(_)) => {
                self.jobs.remove(&id);
                let text = format!("bulk job {id}: removed, since nothing of it was sent");
                cx.log(Level::Info, text);
            }
            Ok(Ended::NotYet(counts)) => {
                (job.counts, job.has_more) = (counts, counts.pending > 0);
                job.retry_at = Some(retry);
                let text = format!("bulk job {id}: {} recipients are in no packet", counts.pending);
                cx.log(Level::Warn, text);
                log_lost(cx, id, counts.lost);
            }
            Err(_) => job.retry_at = Some(retry),
        }
    }

    /// Carries out an order about a job. It is answered when it is stored.
    pub(crate) fn order(
        &mut self,
        cx: &mut Context,
        id: JobId,
        order: BulkOrder,
        by: &str,
    ) -> Effect {
        let Some(job) = self.change(id) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        let is_cancelled = job.orders.is_cancelled;
        let orders = &mut job.orders;
        match order {
            BulkOrder::Lost { are_sent } => return self.decide_lost(cx, id, are_sent, by),
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
        cx.log(Level::Info, format!("bulk job {id}: {order:?}, ordered by {by}"));
        let (orders, ticket) = (job.orders, cx.add_order_part());
        job.sweep = Some(0);
        // A destination may have room under the new orders.
        job.fill_again(|destination| ring_of(cx, destination));
        cx.act(Action::Bulk(BulkAction::StoreOrders { job: id, ticket, orders }));
        Effect { jobs: 1, ..Effect::default() }
    }

    fn decide_lost(&mut self, cx: &mut Context, id: JobId, are_sent: bool, by: &str) -> Effect {
        let Some(job) = self.change(id).filter(|job| job.counts.lost > 0) else {
            return Effect::refused(OrderRefusal::NothingLost);
        };
        let recipients = job.counts.lost;
        let what = if are_sent { "sent again" } else { "given up" };
        let text = format!("bulk job {id}: {recipients} recipients are {what}, ordered by {by}");
        cx.log(Level::Info, text);
        job.is_deciding = true;
        let ticket = cx.add_order_part();
        cx.act(Action::Bulk(BulkAction::DecideLost { job: id, ticket, are_sent }));
        Effect { jobs: 1, recipients, ..Effect::default() }
    }

    fn job_orders_stored(
        &mut self,
        orders: &mut PendingOrders,
        cx: &mut Context,
        id: JobId,
        ticket: Option<OrderTicket>,
        outcome: Result<(), ErrorKind>,
    ) {
        if let Some(ticket) = ticket {
            orders.finish_order_part(cx, ticket, outcome.err());
        }
        let retry = cx.now + cx.settings.failed_write;
        let Some(job) = self.change(id) else { return };
        match outcome {
            Ok(()) if job.orders.is_cancelled && !job.is_cancellation_stored => {
                (job.is_cancellation_stored, job.sweep) = (true, Some(0));
            }
            Ok(()) => {}
            Err(_) => (job.are_orders_unstored, job.retry_at) = (true, Some(retry)),
        }
    }

    /// All jobs may have something to decide: a new configuration, or a step of the clock.
    pub(crate) fn reconsider(&mut self, cx: &Context) {
        for (id, job) in &mut self.jobs {
            job.change_rings(|destination| ring_of(cx, destination));
            self.changed.insert(*id);
        }
    }

    /// Moves the times for which jobs wait, because the clock was set.
    pub(crate) fn shift(&mut self, step: ClockStep) {
        for job in self.jobs.values_mut() {
            job.retry_at = job.retry_at.map(|time| time + step);
            job.gates.shift(step);
        }
    }

    /// A time for which a job has waited is reached.
    pub(crate) fn timer(&mut self, id: JobId) {
        self.change(id);
    }

    /// The next job for which something may have to be decided.
    pub(crate) fn next_changed(&mut self) -> Option<JobId> {
        self.changed.pop_first()
    }

    /// Decides for a job that has changed.
    pub(crate) fn settle(
        &mut self,
        queue: &mut Queue,
        dispatch: &Dispatch,
        admission: &mut Admission,
        cx: &mut Context,
        id: JobId,
    ) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.apply_orders_to_packets(queue, admission, cx, id);
            job.settle(queue, dispatch, cx, id);
        }
    }
}

impl Job {
    fn settle(&mut self, queue: &mut Queue, dispatch: &Dispatch, cx: &mut Context, id: JobId) {
        let now = cx.now;
        self.progress.record(now, self.counts.delivered + self.counts.failed);
        if self.gates.has_waiting() && !self.is_stopped() {
            self.release_packets(queue, dispatch, cx, id);
        }
        if let Some(retry_at) = self.retry_at.filter(|time| *time > now) {
            return cx.timers.add(retry_at, Timer::Bulk(id));
        }
        self.retry_at = None;
        if std::mem::take(&mut self.are_orders_unstored) {
            let (ticket, orders) = (None, self.orders);
            cx.act(Action::Bulk(BulkAction::StoreOrders { job: id, ticket, orders }));
        }
        if self.lost == LostPackets::Found {
            self.lost = LostPackets::Marking;
            cx.act(Action::Bulk(BulkAction::MarkLost(id)));
        }
        if self.is_cancellation_stored && self.counts.lost > 0 && !self.is_deciding {
            self.is_deciding = true;
            let (ticket, are_sent) = (None, false);
            cx.act(Action::Bulk(BulkAction::DecideLost { job: id, ticket, are_sent }));
        }
        match self.end(cx, id) {
            Some(status) => self.drop_rest(cx, id, status),
            None if self.may_cut(cx, id) => self.cut_packets(queue, dispatch, cx, id),
            None => {}
        }
        if self.can_finish() && !cx.is_draining {
            self.is_finishing = true;
            cx.act(Action::Bulk(BulkAction::Finish(id)));
        }
    }

    /// Returns true if packets may be cut now.
    fn may_cut(&self, cx: &mut Context, id: JobId) -> bool {
        let open = self.next_open(cx.now);
        if open > cx.now {
            cx.timers.add(open, Timer::Bulk(id));
            return false;
        }
        let is_stopped = self.is_stopped() || self.orders.is_cancelled;
        !cx.is_draining && !is_stopped && matches!(self.rest, Rest::Wanted)
    }

    /// What becomes of recipients that are not cut, if no more are to be.
    fn end(&self, cx: &mut Context, id: JobId) -> Option<Status> {
        if !matches!(self.rest, Rest::Wanted) || (self.is_cut() && !self.is_reading) {
            return None;
        }
        match self.deadline {
            _ if self.is_cancellation_stored => return Some(Status::Cancelled),
            Some(deadline) if deadline <= cx.now => return Some(Status::TooLate),
            Some(deadline) => cx.timers.add(deadline, Timer::Bulk(id)),
            None => {}
        }
        None
    }

    fn drop_rest(&mut self, cx: &mut Context, id: JobId, status: Status) {
        // What is being read or made belongs to the rest, or to a packet.
        if self.making() == 0 && !self.is_reading {
            self.forget_rest();
            self.rest = Rest::Dropping;
            cx.act(Action::Bulk(BulkAction::DropRest { job: id, status }));
        }
    }
}

fn log_lost(cx: &mut Context, id: JobId, lost: u32) {
    if lost > 0 {
        let text = format!(
            "bulk job {id}: packets with {lost} recipients have vanished; they may be \
             delivered or not, and wait for a decision: mailq job {id} lost send|drop"
        );
        cx.log(Level::Warn, text);
    }
}

/// Converts a time of a job's parameters.
fn time(seconds: Option<i64>) -> Option<Timestamp> {
    seconds.map(Timestamp::from_seconds)
}
