//! Adds the recipients of a chunk to their threads.

use crate::Scheduler;
use crate::admission::partial::LOCKED_RETRY_INTERVAL;
use crate::queue::{MessageId, ThreadId, VertexId, VertexState};
use std::collections::{BTreeMap, BTreeSet};
use zsched_spool::Arrival;

impl Scheduler {
    pub(super) fn take_chunk(&mut self, message: MessageId, mut arrival: Arrival) {
        let message_ref = self.queue.message_mut(message);
        message_ref.owes_report |= arrival.report_due;
        message_ref.has_undeliverable_lines |= arrival.first_undeliverable.is_some();
        message_ref.has_alternatives = arrival.has_alternatives;
        message_ref.last_recipient = message_ref.last_recipient.max(arrival.last_recipient);
        if arrival.is_chunk {
            message_ref.recipients += arrival.recipients;
            message_ref.failed += arrival.failed;
        } else {
            message_ref.recipients = arrival.recipients;
        }
        let Some(partial) = self.admission.partials.partial.get_mut(&message) else {
            return;
        };
        partial.unread = arrival.next_offset;
        self.queue.set_max_unread(message, arrival.max_unread);
        if !arrival.locked.is_empty() {
            let until = self.cx.now + LOCKED_RETRY_INTERVAL;
            partial.left = Some(partial.left.map_or(until, |left| left.min(until)));
        }
        let finals = partial.finals.clone();
        if partial.restarts {
            return;
        }
        for group in &mut arrival.groups {
            group.offsets.retain(|offset| !finals.contains(offset));
        }
        arrival.groups.retain(|group| !group.offsets.is_empty());
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
        self.end_chunk(message);
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
