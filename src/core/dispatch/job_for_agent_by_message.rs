//! Assignment of work in rings that choose by message ([`crate::dispatch::jobs`]).
//!
//! This adds the vertices of arrived messages to jobs, and feeds the agents. In such
//! a ring a hungry agent belongs to no thread: it gets the next entry of the ring, and belongs to
//! that thread until it is hungry again. It gets several entries at once only if they are the
//! ring's next anyway.

use crate::Scheduler;
use crate::dispatch::jobs::{Entry, Jobs, NewJob};
use crate::dispatch::{AgentId, Dispatch, RingId};
use crate::queue::{MessageId, Queue, ThreadId, VertexId, VertexState};
use std::collections::BTreeMap;
use zsched_format::priority;
use zsched_format::time::Timestamp;

impl Scheduler {
    /// Feeds an agent without a thread the next entry of its ring.
    ///
    /// Returns true if there was one.
    ///
    /// It gets up to `burst` entries if the following ones are in the same thread. An entry in the
    /// `former` thread is preferred if the job has one, because the agent's connection may still be
    /// open.
    pub(crate) fn feed_next(
        &mut self,
        agent: AgentId,
        former: Option<ThreadId>,
        burst: usize,
    ) -> bool {
        let ring = self.dispatch.agents[agent].ring;
        let Some((thread, first)) = self.select_next(ring, former, None) else {
            return false;
        };
        let flow = self.dispatch.flow(&self.queue, thread);
        let burst = if flow.rate.is_some() || flow.delay.is_some() { 1 } else { burst };
        let mut chosen = vec![first];
        while chosen.len() < burst
            && let Some((_, next)) = self.select_next(ring, Some(thread), Some(thread))
        {
            chosen.push(next);
        }
        self.dispatch.agents.start_burst(agent, self.cx.now, chosen.len());
        self.dispatch.attach(&mut self.queue, &mut self.cx, agent, thread);
        for vertex in chosen {
            if self.dispatch.may_start_delivery(&self.queue, &mut self.cx, agent, thread) {
                self.dispatch.feed_one(&mut self.queue, &mut self.cx, agent, vertex);
            } else {
                debug_assert!(false, "a thread is ready, but may start no delivery");
                self.dispatch.enqueue_vertex(&self.queue, self.cx.now, vertex);
            }
        }
        true
    }

    /// Takes the next entry of a ring.
    ///
    /// If `must` names a thread, the entry must be in it.
    fn select_next(
        &mut self,
        ring: RingId,
        preferred: Option<ThreadId>,
        must: Option<ThreadId>,
    ) -> Option<Entry> {
        let jobs = self.dispatch.rings[ring].jobs.as_deref_mut()?;
        let (thread, vertex) = jobs.choose(self.cx.now, preferred)?;
        if let Some(message) = jobs.take_preempting() {
            self.admission.has_preempted(
                &self.queue,
                &mut self.dispatch,
                &mut self.cx,
                ring,
                message,
            );
        }
        if must.is_some_and(|must| must != thread) {
            return None;
        }
        let message = self.queue.vertices[vertex].message;
        let jobs = self.dispatch.rings[ring].jobs.as_deref_mut()?;
        jobs.select(message, thread, vertex);
        Some((thread, vertex))
    }
}

impl Dispatch {
    pub(crate) fn enqueue_entries(
        &mut self,
        queue: &Queue,
        now: Timestamp,
        message: MessageId,
        ring: RingId,
        entries: &[Entry],
    ) {
        if self.rings[ring].jobs.is_some() {
            let new_job = self.new_job(queue, now, message, ring, entries);
            if let Some(jobs) = &mut self.rings[ring].jobs {
                jobs.join(message, new_job, entries);
            }
        }
    }

    /// Adds the due vertices of a message that has arrived.
    ///
    /// They are one job in each ring.
    pub(crate) fn enqueue_message(&mut self, queue: &Queue, now: Timestamp, message: MessageId) {
        if !self.rings.have_jobs() {
            return;
        }
        let mut entries: BTreeMap<RingId, Vec<Entry>> = BTreeMap::new();
        for vertex in queue.messages[message].vertices.iter(&queue.vertices) {
            let thread = queue.vertices[vertex].thread;
            let ring = queue.threads[thread].ring;
            if queue.vertices[vertex].state == VertexState::Due && self.rings[ring].jobs.is_some() {
                entries.entry(ring).or_default().push((thread, vertex));
            }
        }
        for (ring, entries) in entries {
            self.enqueue_entries(queue, now, message, ring, &entries);
        }
    }

    /// The sort key of a message.
    ///
    /// It is the time when its entries arrived, and its number.
    ///
    /// Vertices that were tried before count as arriving now. Otherwise old mail for hosts that do
    /// not answer would come before all new mail.
    fn new_job(
        &self,
        queue: &Queue,
        now: Timestamp,
        message: MessageId,
        ring: RingId,
        entries: &[Entry],
    ) -> NewJob {
        let unread = queue.max_unread(message);
        let message = &queue.messages[message];
        let was_tried = entries.iter().all(|(_, vertex)| queue.vertices[*vertex].attempts > 0);
        let came = match self.rings[ring].clause.age_order {
            true => message.modified,
            false if was_tried => now,
            false => message.created.min(now),
        };
        let step = self.rings[ring].clause.priority_step;
        let arrival = priority::sort_key_with_step(came, message.priority, step);
        NewJob { arrival, sequence: message.name.number(), unread }
    }

    fn jobs_of(&mut self, queue: &Queue, thread: ThreadId) -> Option<&mut Jobs> {
        let ring = queue.threads[thread].ring;
        self.rings[ring].jobs.as_deref_mut()
    }

    /// Removes a vertex from its job, if it is due.
    pub(crate) fn dequeue_vertex(&mut self, queue: &Queue, vertex: VertexId) {
        let vertex_ref = &queue.vertices[vertex];
        let (message, thread) = (vertex_ref.message, vertex_ref.thread);
        if vertex_ref.state == VertexState::Due
            && self.jobs_of(queue, thread).is_some()
            && !self.leaves_before_backfill(queue, vertex)
            && let Some(jobs) = self.jobs_of(queue, thread)
        {
            jobs.leave(message, thread, vertex);
        }
    }

    /// Panics if a ring's jobs differ from its due lists.
    pub(crate) fn check_jobs(&self, queue: &Queue, ring: RingId) {
        let ring = &self.rings[ring];
        let Some(jobs) = &ring.jobs else {
            return;
        };
        // Threads that left a retired ring did not remove their entries.
        if ring.is_retired {
            return;
        }
        jobs.check();
        let mut entries = 0;
        for thread in &ring.threads {
            let due = queue.threads[*thread].due.iter(&queue.vertices);
            let is_in_job = |vertex: &VertexId| {
                jobs.contains(queue.vertices[*vertex].message, (*thread, *vertex))
            };
            let in_jobs = due.filter(is_in_job).count();
            assert_eq!(in_jobs, self.due_in_jobs(queue, *thread), "due, but in no job");
            entries += in_jobs;
        }
        assert_eq!(jobs.len(), entries, "entries of jobs");
        let mut ready = ring.ready.to_vec(queue.threads.pool());
        ready.sort();
        assert_eq!(jobs.ready(), ready, "threads with window to spare");
    }
}
