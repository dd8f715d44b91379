//! Packets of jobs in the queue: what an order about the job means for them.
//!
//! A packet has the priority of its job, waits while the job is paused, and ends when the job is
//! cancelled. A job may have very many packets that wait for a retry, so an order is applied to
//! some in each turn.

use super::BulkJobs;
use super::job::Job;
use crate::action::Action;
use crate::admission::Admission;
use crate::context::Context;
use crate::operator::overrides::Author;
use crate::queue::{MessageFlag, MessageId, Queue};
use crate::timers::Timer;
use zsched_bulk::{JobId, PacketNumber};
use zsched_format::time::Timestamp;

/// Author of the order that ends the packets of a cancelled job, for the log.
pub(crate) fn cancellation(now: Timestamp) -> Author {
    Author { name: "the cancellation of its bulk job".to_string(), since: now }
}

/// The packet that a message is, if it is one.
pub(super) fn packet_of(queue: &Queue, message: MessageId) -> Option<PacketNumber> {
    PacketNumber::of_message(queue.message(message).number())
}

/// Numbers of recipients of a message that are final, and that have failed.
///
/// `None` if some are not in memory.
pub(super) fn outcomes_of(queue: &Queue, message: MessageId) -> Option<(u32, u32)> {
    let message = queue.message(message);
    (!message.is(MessageFlag::Partial))
        .then(|| (message.recipients - message.pending, message.failed))
}

impl BulkJobs {
    fn job_of(&self, queue: &Queue, message: MessageId) -> Option<&Job> {
        packet_of(queue, message).and_then(|packet| self.jobs.get(&packet.job))
    }

    /// Gives a packet that arrives what its job has for it, before its recipients are queued.
    pub(crate) fn packet_arrives(&self, queue: &mut Queue, message: MessageId) {
        if let Some(job) = self.job_of(queue, message) {
            let message = queue.message_mut(message);
            message.priority = job.priority();
            message.set(MessageFlag::KeptByJob, job.orders.is_paused);
        }
    }

    /// Returns true for a packet of a job whose cancellation is stored.
    pub(crate) fn is_cancelled(&self, queue: &Queue, message: MessageId) -> bool {
        self.job_of(queue, message).is_some_and(|job| job.is_cancellation_stored)
    }

    /// Records that an agent has ended a job of a message: if it is a packet, it is tried.
    pub(crate) fn packet_tried(&mut self, queue: &Queue, now: Timestamp, message: MessageId) {
        let Some(packet) = packet_of(queue, message) else { return };
        let Some(job) = self.change(packet.job) else { return };
        job.pace.add(now);
        job.end_ahead(packet.offset);
        job.gates.tried(packet.offset);
        if let Some(known) = job.packets.get_mut(&packet.offset) {
            (known.delivered, known.failed) = known.outcomes(outcomes_of(queue, message));
        }
    }

    /// Records that an operator has deleted or rerouted recipients of a message.
    pub(crate) fn recipients_removed(&mut self, queue: &Queue, message: MessageId, count: u32) {
        let Some(packet) = packet_of(queue, message) else { return };
        let job = self.change(packet.job);
        let known = job.and_then(|job| job.packets.get_mut(&packet.offset));
        known.into_iter().for_each(|known| known.removed += count);
    }

    /// Records that a message has left the spool: if it is a packet, its books are closed.
    pub(crate) fn packet_gone(&mut self, number: u64) {
        if let Some(packet) = PacketNumber::of_message(number)
            && let Some(job) = self.change(packet.job)
        {
            job.packet_gone(packet.offset);
        }
    }
}

impl Job {
    /// Applies the orders about the job to some of its packets. The next turn goes on.
    pub(super) fn apply_orders_to_packets(
        &mut self,
        queue: &mut Queue,
        admission: &mut Admission,
        cx: &mut Context,
        id: JobId,
    ) {
        let Some(from) = self.sweep.take() else { return };
        let mut left = cx.settings.step() as u32;
        let mut packets = self.packets.range(from..);
        let mut offsets = Vec::new();
        self.sweep = loop {
            let Some((offset, packet)) = packets.next() else { break None };
            if left == 0 {
                break Some(*offset);
            }
            left = left.saturating_sub(packet.recipients.max(1));
            offsets.push(*offset);
        };
        if self.sweep.is_some() {
            cx.timers.add(cx.now, Timer::Bulk(id));
        }
        let mut absent = Vec::new();
        for offset in offsets {
            let number = PacketNumber { job: id, offset }.message();
            match queue.messages().find(number) {
                Some(message) if self.is_cancellation_stored => {
                    admission.read_rest_for_removal(queue, message);
                    // They end before an agent gets them.
                    queue.mark_vertices_of(message);
                }
                Some(message) => self.apply_orders_to_packet(queue, cx, offset, message),
                None => absent.push(number),
            }
        }
        if self.is_cancellation_stored && !absent.is_empty() {
            // They end when they are read.
            cx.act(Action::RequestPagedMessages(absent));
        }
    }

    fn apply_orders_to_packet(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        offset: u32,
        message: MessageId,
    ) {
        let (is_paused, priority) = (self.orders.is_paused, self.priority());
        self.return_to_gate(queue, offset, message);
        if queue.message(message).priority != priority {
            queue.change_priority(cx, message, priority);
        }
        let message_ref = queue.message_mut(message);
        let was_paused = message_ref.is(MessageFlag::KeptByJob);
        message_ref.set(MessageFlag::KeptByJob, is_paused);
        match (was_paused, is_paused) {
            (false, true) => drop(queue.keep_back(cx.now, message)),
            (true, false) => drop(queue.let_go(cx, message)),
            // What is due passes the gate again.
            (false, false) => queue.mark_vertices_of(message),
            (true, true) => {}
        }
    }
}
