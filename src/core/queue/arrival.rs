//! Arrival of a control file: its recipients join their threads.

use crate::Scheduler;
use crate::admission::paging::{RestoreAction, RestoredMessage};
use crate::context::Context;
use crate::queue::{Message, MessageId, Queue, ThreadId, Vertex, VertexId, VertexState};
use log::Level;
use zsched_spool::{Arrival, Group};

impl Scheduler {
    pub(crate) fn arrive(&mut self, arrival: Arrival) {
        let number = arrival.name.number();
        if self.queue.messages.find(number).is_some() {
            self.cx
                .log(Level::Debug, format!("{}: number {number} is loaded already", arrival.name));
            return;
        }
        let before = self.cx.counters;
        let again = self.admission.take_restored(&arrival);
        let is_again = again.is_some();
        let restored = again.or_else(|| self.learned.restore_paged_out(&arrival));
        let message = self.queue.messages.insert(Message::new(&arrival));
        self.cx.counters.messages_in += 1;
        if let Some(error) = &arrival.first_undeliverable {
            let id = self.queue.messages[message].spool_id();
            let text = format!(
                "{id}: has a recipient line that cannot be delivered, {error}; it will be kept"
            );
            self.cx.log(Level::Warn, text);
        }
        self.overrides.restore_overrides(&mut self.queue, message);
        self.queue.schedule_arrival(self.cx.now, message, &arrival);
        let is_partial = arrival.next_offset.is_some() || arrival.is_chunk;
        if is_partial {
            self.admission.begin_partial(
                &mut self.queue,
                self.cx.now,
                message,
                &arrival,
                restored.as_ref(),
            );
            self.queue_chunk(message, &arrival);
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
        match is_partial {
            true => self.end_chunk(message),
            false => self.apply_removal_order(message),
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
            let vertex = self.queue.queue_vertex(&mut self.cx, message, thread, offsets);
            // Later chunks of a partial message may bring more of this group.
            let is_open = self.queue.messages[message].is_partial && packet_is_limited;
            let is_part = is_open || offsets.len() < group.offsets.len();
            self.queue.vertices[vertex].set_part(is_part);
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
        self.queue.rings.mark_all();
    }
}

impl Queue {
    /// Adds a vertex to its message and thread, but to no list.
    fn queue_vertex(
        &mut self,
        cx: &mut Context,
        message: MessageId,
        thread: ThreadId,
        offsets: &[u32],
    ) -> VertexId {
        let vertex = self.vertices.insert(Vertex::new(message, thread, offsets));
        let count = offsets.len() as u32;
        cx.counters.recipients_in += u64::from(count);
        let message_ref = &mut self.messages[message];
        message_ref.pending += count;
        message_ref.vertices.push_back(&mut self.vertices, vertex);
        self.adjust_recipients(thread, i64::from(count));
        vertex
    }

    /// Puts a new vertex where its restored state requires it.
    fn place_arrival(&mut self, cx: &mut Context, vertex: VertexId, action: RestoreAction) {
        let Vertex { message, thread, .. } = self.vertices[vertex];
        match action {
            _ if self.messages[message].is_kept() => self.put_arrival(vertex, VertexState::Held),
            RestoreAction::Requested => self.put_arrival(vertex, VertexState::Due),
            RestoreAction::Unloaded { due: None } if self.vertices[vertex].attempts > 0 => {
                self.wait_after_try(cx, vertex);
            }
            RestoreAction::Waiting { due: Some(due) }
            | RestoreAction::Unloaded { due: Some(due) }
                if due > cx.now =>
            {
                self.resume_wait(cx, vertex, due);
            }
            // Its time has come: it is due even if its clause is `queueonly`.
            RestoreAction::Waiting { due: Some(_) }
                if self.threads[thread].retry.unreachable.is_none() =>
            {
                self.put_arrival(vertex, VertexState::Due);
            }
            _ if self.arrivals_wait(thread) => self.wait_for_destination(cx, vertex),
            _ => self.put_arrival(vertex, VertexState::Due),
        }
        self.watch_expiry(cx.now, vertex);
    }

    /// Returns true if untried arrivals for a thread must wait.
    ///
    /// They must if the destination is known to be unreachable. They also must if it is tried only
    /// on request (`queueonly`) and no agent works on it.
    pub(crate) fn arrivals_wait(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread];
        let queue_only = self.rings[thread.ring].clause.queue_only;
        thread.retry.unreachable.is_some() || (queue_only && thread.agents.is_empty())
    }

    /// Puts a vertex that has no job yet into a list.
    fn put_arrival(&mut self, vertex: VertexId, place: VertexState) {
        let thread = self.vertices[vertex].thread;
        self.threads[thread].move_vertex(&mut self.vertices, vertex, place);
    }
}
