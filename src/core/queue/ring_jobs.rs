//! The jobs of rings that choose work by message ([`crate::queue::jobs`]): vertices join and leave.

use crate::admission::Admission;
use crate::context::Context;
use crate::queue::jobs::{Entry, Jobs, NewJob};
use crate::queue::{MessageId, Queue, RingId, ThreadId, VertexId, VertexState};
use std::collections::BTreeMap;
use zsched_format::priority;
use zsched_format::time::Timestamp;

impl Queue {
    /// Takes the next entry of a ring.
    ///
    /// If `must` names a thread, the entry must be in it.
    pub(crate) fn select_next(
        &mut self,
        admission: &mut Admission,
        cx: &mut Context,
        ring: RingId,
        preferred: Option<ThreadId>,
        must: Option<ThreadId>,
    ) -> Option<Entry> {
        let jobs = self.rings[ring].jobs.as_deref_mut()?;
        let (thread, vertex) = jobs.choose(cx.now, preferred)?;
        if let Some(message) = jobs.take_preempting() {
            admission.has_preempted(self, ring, message);
        }
        if must.is_some_and(|must| must != thread) {
            return None;
        }
        let message = self.vertices[vertex].message;
        let jobs = self.rings[ring].jobs.as_deref_mut()?;
        jobs.select(message, thread, vertex);
        Some((thread, vertex))
    }

    pub(crate) fn enqueue_entries(
        &mut self,
        now: Timestamp,
        message: MessageId,
        ring: RingId,
        entries: &[Entry],
    ) {
        if self.rings[ring].jobs.is_some() {
            let new_job = self.new_job(now, message, ring, entries);
            if let Some(jobs) = &mut self.rings[ring].jobs {
                jobs.join(message, new_job, entries);
            }
        }
    }

    /// Adds the due vertices of a message that has arrived.
    ///
    /// They are one job in each ring.
    pub(crate) fn enqueue_message(&mut self, now: Timestamp, message: MessageId) {
        if !self.rings.have_jobs() {
            return;
        }
        let mut entries: BTreeMap<RingId, Vec<Entry>> = BTreeMap::new();
        for vertex in self.messages[message].vertices.iter(&self.vertices) {
            let thread = self.vertices[vertex].thread;
            let ring = self.threads[thread].ring;
            if self.vertices[vertex].state == VertexState::Due && self.rings[ring].jobs.is_some() {
                entries.entry(ring).or_default().push((thread, vertex));
            }
        }
        for (ring, entries) in entries {
            self.enqueue_entries(now, message, ring, &entries);
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
        now: Timestamp,
        message: MessageId,
        ring: RingId,
        entries: &[Entry],
    ) -> NewJob {
        let unread = self.max_unread(message);
        let message = &self.messages[message];
        let was_tried = entries.iter().all(|(_, vertex)| self.vertices[*vertex].attempts > 0);
        let came = match self.rings[ring].clause.age_order {
            true => message.modified,
            false if was_tried => now,
            false => message.created.min(now),
        };
        let step = self.rings[ring].clause.priority_step;
        let arrival = priority::sort_key_with_step(came, message.priority, step);
        NewJob { arrival, sequence: message.number(), unread }
    }

    fn jobs_of(&mut self, thread: ThreadId) -> Option<&mut Jobs> {
        let ring = self.threads[thread].ring;
        self.rings[ring].jobs.as_deref_mut()
    }

    /// Removes a vertex from its job, if it is due.
    pub(crate) fn dequeue_vertex(&mut self, vertex: VertexId) {
        let vertex_ref = &self.vertices[vertex];
        let (message, thread) = (vertex_ref.message, vertex_ref.thread);
        if vertex_ref.state == VertexState::Due
            && self.jobs_of(thread).is_some()
            && !self.leaves_before_backfill(vertex)
            && let Some(jobs) = self.jobs_of(thread)
        {
            jobs.leave(message, thread, vertex);
        }
    }

    /// Panics if a ring's jobs differ from its due lists.
    pub(crate) fn check_jobs(&self, ring: RingId) {
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
            let due = self.threads[*thread].due.iter(&self.vertices);
            let is_in_job = |vertex: &VertexId| {
                jobs.contains(self.vertices[*vertex].message, (*thread, *vertex))
            };
            let in_jobs = due.filter(is_in_job).count();
            assert_eq!(in_jobs, self.due_in_jobs(*thread), "due, but in no job");
            entries += in_jobs;
        }
        assert_eq!(jobs.len(), entries, "entries of jobs");
        let mut ready = ring.ready.to_vec(self.threads.pool());
        ready.sort();
        assert_eq!(jobs.ready(), ready, "threads with window to spare");
    }
}
