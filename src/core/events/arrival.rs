//! The arrival of control files, whole or in chunks: their recipients join their threads.

use crate::Scheduler;
use crate::admission::paging::{RestoreAction, RestoredMessage};
use crate::queue::{MessageFlag, MessageId, ThreadId, VertexId, VertexState};
use log::Level;
use std::collections::{BTreeMap, BTreeSet};
use zsched_spool::{Arrival, Group};

impl Scheduler {
    pub(crate) fn arrive(&mut self, arrival: &Arrival) {
        let number = arrival.name.number();
        if self.queue.messages().find(number).is_some() {
            self.cx
                .log(Level::Debug, format!("{}: number {number} is loaded already", arrival.name));
            return;
        }
        let before = self.cx.counters;
        let again = self.admission.take_restored(arrival);
        let is_again = again.is_some();
        let restored = again.or_else(|| self.learned.restore_paged_out(arrival));
        let message = self.queue.add_message(arrival);
        self.cx.counters.messages_in += 1;
        if let Some(error) = &arrival.first_undeliverable {
            let id = self.queue.message(message).spool_id();
            let text = format!(
                "{id}: has a recipient line that cannot be delivered, {error}; it will be kept"
            );
            self.cx.log(Level::Warn, text);
        }
        self.bulk.packet_arrives(&mut self.queue, message);
        self.overrides.restore_overrides(&mut self.queue, message);
        self.queue.schedule_arrival(self.cx.now, message, arrival);
        let is_partial = arrival.next_offset.is_some() || arrival.is_chunk;
        if is_partial {
            self.admission.begin_partial(
                &mut self.queue,
                self.cx.now,
                message,
                arrival,
                restored.as_ref(),
            );
            self.queue_chunk(message, arrival);
        } else {
            for group in &arrival.groups {
                self.queue_group(message, group, restored.as_ref());
            }
        }
        if let Some(noted) = arrival.delay_noted {
            self.queue.skip_delay_notices(message, noted);
        }
        self.queue.enqueue_message(self.cx.now, message);
        if !is_again {
            self.cx.recent.record_arrival(arrival.created, &before, &self.cx.counters);
        }
        if is_partial {
            self.admission.register_with_rings(&mut self.queue, message);
        }
        if !arrival.etrn_hosts.is_empty() {
            self.etrn(&arrival.etrn_hosts);
        }
    }

    pub(crate) fn queue_group(
        &mut self,
        message: MessageId,
        group: &Group,
        restored: Option<&RestoredMessage>,
    ) -> VertexId {
        let thread = self.thread_for(&group.channel, &group.host);
        // A vertex is what an agent gets at once, so `packet=` splits a large group into several.
        let packet = self.queue.clause(thread).packet as usize;
        let packet_is_limited = packet > 0;
        let packet = if packet_is_limited { packet } else { group.offsets.len().max(1) };
        let mut first = None;
        for offsets in group.offsets.chunks(packet) {
            // Later chunks of a partial message may bring more of this group.
            let is_open = self.queue.message(message).is(MessageFlag::Partial) && packet_is_limited;
            let is_part = is_open || offsets.len() < group.offsets.len();
            let vertex = self.queue.add_vertex(&mut self.cx, message, thread, (offsets, is_part));
            let known = self.admission.restore_vertex(&mut self.queue, message, restored, vertex);
            let action = known.unwrap_or_else(|| match (restored, first) {
                (Some(_), _) => RestoreAction::Unknown,
                (None, None) => self.learned.restore_vertex(&mut self.queue, message, vertex),
                (None, Some(first)) => self.queue.restore_like(vertex, first),
            });
            first = first.or(Some((vertex, action)));
            self.queue.place_arrival(&mut self.cx, vertex, action);
        }
        first.expect("a group has recipients").0
    }

    pub(crate) fn initial_scan_done(&mut self) {
        self.cx.awaits_initial_scan = false;
        self.learned.schedule_drop_of_unclaimed(&mut self.cx);
        self.queue.mark_all_rings();
        self.repeat_early_etrn();
    }

    /// Processes the arrival of another chunk of a partial message.
    pub(crate) fn take_chunk(&mut self, message: MessageId, mut arrival: Arrival) {
        let message_ref = self.queue.message_mut(message);
        message_ref.set_if(MessageFlag::OwesReport, arrival.report_due);
        message_ref
            .set_if(MessageFlag::HasUndeliverableLines, arrival.first_undeliverable.is_some());
        message_ref.set(MessageFlag::HasAlternatives, arrival.has_alternatives);
        message_ref.last_recipient = message_ref.last_recipient.max(arrival.last_recipient);
        if arrival.is_chunk {
            message_ref.recipients += arrival.recipients;
            message_ref.failed += arrival.failed;
        } else {
            message_ref.recipients = arrival.recipients;
        }
        let now = self.cx.now;
        if !self.admission.chunk_arrived(&mut self.queue, now, message, &mut arrival) {
            return;
        }
        let before = self.queue.vertices_of(message);
        let before: BTreeSet<VertexId> = before.into_iter().collect();
        self.queue_chunk(message, &arrival);
        if let Some(noted) = arrival.delay_noted {
            self.queue.skip_delay_notices(message, noted);
        }
        for vertex in self.queue.vertices_of(message) {
            if !before.contains(&vertex) {
                self.queue.enqueue_vertex(self.cx.now, vertex);
            }
        }
        self.admission.register_with_rings(&mut self.queue, message);
    }

    /// Adds the recipients of a chunk to existing or new vertices.
    pub(crate) fn queue_chunk(&mut self, message: MessageId, arrival: &Arrival) {
        let mut vertices: BTreeMap<ThreadId, VertexId> = BTreeMap::new();
        for agent in self.dispatch.agents().values() {
            let of_message = |job: &VertexId| self.queue.vertex(*job).message == message;
            for job in agent.jobs().filter(of_message) {
                vertices.insert(self.queue.vertex(job).thread, job);
            }
        }
        for vertex in self.queue.message(message).vertices.iter(self.queue.vertices()) {
            vertices.insert(self.queue.vertex(vertex).thread, vertex);
        }
        for group in &arrival.groups {
            let thread = self.thread_for(&group.channel, &group.host);
            // Packets are separate vertices: an agent gets the recipients of a packet with its job.
            let has_packets = self.queue.ring(self.queue.thread(thread).ring).clause.packet > 0;
            let whole =
                vertices.get(&thread).filter(|vertex| !self.queue.vertex(**vertex).is_part());
            let whole = whole.filter(|vertex| {
                // `packet=` may be new in the configuration: a job that an agent has as a whole
                // stays whole.
                !has_packets || self.queue.vertex(**vertex).state == VertexState::Fed
            });
            match whole {
                Some(vertex) => self.queue.extend_vertex(&mut self.cx, *vertex, &group.offsets),
                None => {
                    let vertex = self.queue_group(message, group, None);
                    // Two vertices of one thread are parts, whatever the clause says now.
                    if let Some(former) = vertices.insert(thread, vertex) {
                        self.queue.set_parts([former, vertex]);
                    }
                }
            }
        }
    }
}
