//! A control file has been read: its recipients join their threads.

use super::Scheduler;
use super::list::List;
use super::message::{Message, MessageId};
use super::rest::{Recall, Recalled};
use super::thread::ThreadId;
use super::vertex::{InMessage, Place, Vertex, VertexId};
use crate::spool::{Arrival, Group};
use crate::time::Timestamp;
use log::Level;

impl Scheduler {
    pub(super) fn arrive(&mut self, now: Timestamp, arrival: Arrival) {
        let number = arrival.name.number();
        if self.messages.find(number).is_some() {
            self.log(Level::Debug, format!("{}: number {number} is loaded already", arrival.name));
            return;
        }
        let recalled = self.take_recalled(&arrival).or_else(|| self.recall_rest(&arrival));
        let message = self.messages.insert(Message::new(&arrival));
        self.counters.messages_in += 1;
        if let Some(error) = &arrival.leftover {
            let id = self.messages[message].spool_id();
            let text =
                format!("{id}: has a line that nobody can deliver, {error}; it will be kept");
            self.log(Level::Warn, text);
        }
        self.recall_orders(message);
        let is_partial = arrival.unread.is_some() || arrival.is_part;
        if is_partial {
            self.begin_partial(now, message, &arrival, recalled.as_ref());
            self.queue_batch(now, message, &arrival);
        } else {
            for group in &arrival.groups {
                self.queue_group(now, message, group, recalled.as_ref());
            }
        }
        self.join_jobs(message);
        match is_partial {
            true => self.end_batch(now, message),
            false => self.carry_out_ending(now, message),
        }
        if !arrival.turns.is_empty() {
            self.turn(now, &arrival.turns);
        }
        self.remove_if_complete(message);
    }

    pub(super) fn queue_group(
        &mut self,
        now: Timestamp,
        message: MessageId,
        group: &Group,
        recalled: Option<&Recalled>,
    ) -> VertexId {
        let thread = self.thread_for(now, &group.channel, &group.host);
        // What an agent is given at once is a vertex: of many recipients there are several.
        let packet = self.rings[self.threads[thread].ring].clause.packet as usize;
        let packet_is_limited = packet > 0;
        let packet = if packet_is_limited { packet } else { group.offsets.len().max(1) };
        let mut first = None;
        for offsets in group.offsets.chunks(packet) {
            let vertex = self.queue_vertex(message, thread, offsets);
            // Of a message that is read in parts there may be more to come.
            let is_open = self.messages[message].partial && packet_is_limited;
            self.vertices[vertex].is_part = is_open || offsets.len() < group.offsets.len();
            let left = self.learned_of(message, vertex);
            let recall = match (recalled, first) {
                _ if left.is_some() => self.recall_left(left, vertex),
                (Some(recalled), _) => self.recall_rested(recalled, vertex),
                (None, None) => Recall::of(self.recall_vertex(message, vertex)),
                (None, Some(first)) => Recall::of(self.recall_like(vertex, first)),
            };
            first = first.or(Some(vertex));
            self.place_arrival(now, vertex, recall);
        }
        first.expect("a group has recipients")
    }

    /// Adds a vertex to its message and its thread. It is in none of the thread's lists yet.
    fn queue_vertex(&mut self, message: MessageId, thread: ThreadId, offsets: &[u32]) -> VertexId {
        let vertex = self.vertices.insert(Vertex::new(message, thread, offsets));
        let count = offsets.len() as u32;
        self.counters.recipients_in += u64::from(count);
        self.messages[message].pending += count;
        let mut vertices: List<InMessage> =
            std::mem::replace(&mut self.messages[message].vertices, List::new());
        vertices.push_back(&mut self.vertices, vertex);
        self.messages[message].vertices = vertices;
        self.count_recipients(thread, i64::from(count));
        vertex
    }

    /// What was tried before waits with its thread, if that is still waiting.
    fn place_arrival(&mut self, now: Timestamp, vertex: VertexId, recall: Recall) {
        let (message, thread) = (self.vertices[vertex].message, self.vertices[vertex].thread);
        let waits = match recall {
            Recall::Wanted => false,
            Recall::Left => true,
            Recall::Tried if self.threads[thread].retry.wakeup.is_some() => true,
            _ => self.arrivals_wait(thread),
        };
        let place = match waits {
            _ if self.messages[message].held => Place::Held,
            true => Place::Waiting,
            false => Place::Due,
        };
        self.threads[thread].move_vertex(&mut self.vertices, vertex, place);
        self.watch_expiry(now, vertex);
        self.ensure_wakeup(now, thread);
        self.update_readiness(thread);
    }

    /// Whether what arrives for a thread has to wait, although nobody has tried it yet. It has
    ///
    /// - if the host is tried only when somebody asks for it (`queueonly`), and nobody is at it;
    /// - if the host as a whole is not to be tried before the wake-up: after `deferall`, `retryat`, and where
    ///   agents die;
    /// - if the thread waits for a retry, and the host is hopeless: the last that was said of it is that it
    ///   cannot be reached, or ten jobs in a row were in vain;
    /// - if the thread waits for a retry, nothing of it is under way, and the host is not known to answer:
    ///   since the last wake-up nothing was delivered or refused, or three jobs in a row were in vain since.
    ///
    /// A job is in vain that ends with something left to do, unless its agent says that it was the
    /// recipient's fault. So one full mailbox does not hold up the mail of others.
    pub(super) fn arrivals_wait(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread];
        let (retry, queue_only) = (&thread.retry, self.rings[thread.ring].clause.queue_only);
        // While something of it is under way, the next report may bring good news.
        let rests = thread.agents.is_empty() && thread.due.is_empty();
        let is_bad = retry.contact.is_hopeless() || (rests && !retry.contact.is_good());
        let waits_for_retry = retry.wakeup.is_some() && is_bad;
        retry.block.is_some() || waits_for_retry || (queue_only && thread.agents.is_empty())
    }

    /// What waits must have a time at which it ends waiting, unless only a request starts it.
    pub(super) fn ensure_wakeup(&mut self, now: Timestamp, thread: ThreadId) {
        if !self.threads[thread].waiting.is_empty() {
            self.plan_retry(now, thread);
        }
    }

    pub(super) fn end_hold(&mut self, now: Timestamp) {
        self.is_holding = false;
        self.begin_to_forget(now);
        self.serve_all_rings();
    }
}
