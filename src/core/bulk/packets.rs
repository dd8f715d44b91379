//! Packets of jobs in the queue: what an order about the job means for them.
//!
//! A packet has the priority of its job, waits while the job is paused, and ends when the job is
//! cancelled. A job may have very many packets that wait for a retry, so an order is applied to
//! some in each turn.

use crate::Scheduler;
use crate::action::Action;
use crate::operator::overrides::Author;
use crate::queue::{MessageId, VertexState};
use crate::timers::Timer;
use zsched_bulk::{JobId, PacketNumber};
use zsched_format::time::Timestamp;

/// Author of the order that ends the packets of a cancelled job, for the log.
pub(crate) fn cancellation(now: Timestamp) -> Author {
    Author { name: "the cancellation of its bulk job".to_string(), since: now }
}

impl Scheduler {
    pub(super) fn packet_of(&self, message: MessageId) -> Option<PacketNumber> {
        PacketNumber::of_message(self.queue.message(message).name.number())
    }

    /// Gives a packet that arrives what its job has for it, before its recipients are queued.
    pub(crate) fn packet_arrives(&mut self, message: MessageId) {
        let job = self.packet_of(message).and_then(|packet| self.bulk.jobs.get(&packet.job));
        if let Some(job) = job {
            let message = self.queue.message_mut(message);
            message.priority = job.priority();
            message.is_kept_by_job = job.orders.is_paused;
        }
    }

    /// Returns true for a packet of a job whose cancellation is stored.
    pub(crate) fn is_of_cancelled_job(&self, message: MessageId) -> bool {
        let job = self.packet_of(message).and_then(|packet| self.bulk.jobs.get(&packet.job));
        job.is_some_and(|job| job.is_cancellation_stored)
    }

    /// Applies the orders about a job to some of its packets. The next turn goes on.
    pub(super) fn apply_orders_to_packets(&mut self, id: JobId) {
        let mut left = self.cx.settings.step() as u32;
        let Some(job) = self.bulk.jobs.get_mut(&id) else { return };
        let Some(from) = job.sweep.take() else { return };
        let mut packets = job.packets.range(from..);
        let mut offsets = Vec::new();
        job.sweep = loop {
            let Some((offset, packet)) = packets.next() else { break None };
            if left == 0 {
                break Some(*offset);
            }
            left = left.saturating_sub(packet.recipients.max(1));
            offsets.push(*offset);
        };
        if job.sweep.is_some() {
            self.cx.timers.add(self.cx.now, Timer::Bulk(id));
        }
        let mut absent = Vec::new();
        for offset in offsets {
            let number = PacketNumber { job: id, offset }.message();
            match self.queue.messages().find(number) {
                Some(message) => self.apply_orders_to_packet(id, offset, message),
                None => absent.push(number),
            }
        }
        if self.bulk.jobs.get(&id).is_some_and(|job| job.is_cancellation_stored)
            && !absent.is_empty()
        {
            // They end when they are read.
            self.cx.act(Action::RequestPagedMessages(absent));
        }
    }

    fn apply_orders_to_packet(&mut self, id: JobId, offset: u32, message: MessageId) {
        let Some(job) = self.bulk.jobs.get_mut(&id) else { return };
        let (is_paused, priority) = (job.orders.is_paused, job.priority());
        if job.is_cancellation_stored {
            self.end_free_vertices(message);
            if self.queue.message(message).is_partial {
                self.admission.read_rest_for_removal(&mut self.queue, message);
            }
            return;
        }
        // With the present share, it passes the gate again.
        job.gates.leave(offset);
        if self.queue.message(message).priority != priority {
            self.queue.change_priority(&mut self.cx, message, priority);
        }
        let was_kept =
            std::mem::replace(&mut self.queue.message_mut(message).is_kept_by_job, is_paused);
        match (was_kept, is_paused) {
            (false, true) => {
                self.queue.keep_back(self.cx.now, message);
            }
            (true, false) => {
                self.queue.let_go(&mut self.cx, message);
            }
            // What is due passes the gate again.
            (false, false) => {
                for vertex in self.queue.vertices_of(message) {
                    if self.queue.vertex(vertex).state == VertexState::Due {
                        self.queue.mark_vertex(vertex);
                    }
                }
            }
            (true, true) => {}
        }
    }

    /// Records that an agent has ended a job of a message: if it is a packet, it is tried.
    pub(crate) fn packet_tried(&mut self, message: MessageId) {
        let Some(packet) = self.packet_of(message) else { return };
        let now = self.cx.now;
        let counts = self.outcomes_of(message);
        let Some(job) = self.bulk.change(packet.job) else { return };
        job.pace.add(now);
        job.end_ahead(packet.offset);
        if let Some(known) = job.packets.get_mut(&packet.offset) {
            (known.delivered, known.failed) = known.outcomes(counts);
        }
    }

    /// Records that an operator has deleted or rerouted recipients of a message.
    pub(crate) fn packet_recipients_removed(&mut self, message: MessageId, recipients: u32) {
        let Some(packet) = self.packet_of(message) else { return };
        let job = self.bulk.change(packet.job);
        let known = job.and_then(|job| job.packets.get_mut(&packet.offset));
        known.into_iter().for_each(|known| known.removed += recipients);
    }

    /// Records that a message has left the spool: if it is a packet, its books are closed.
    pub(crate) fn packet_gone(&mut self, number: u64) {
        if let Some(packet) = PacketNumber::of_message(number)
            && let Some(job) = self.bulk.change(packet.job)
        {
            job.packet_gone(packet.offset);
        }
    }

    /// Numbers of recipients of a message that are final, and that have failed.
    ///
    /// `None` if some are not in memory.
    pub(super) fn outcomes_of(&self, message: MessageId) -> Option<(u32, u32)> {
        let message = self.queue.message(message);
        let is_known = !message.is_partial;
        is_known.then(|| (message.recipients - message.pending, message.failed))
    }
}
