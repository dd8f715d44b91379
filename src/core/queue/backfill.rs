//! Backfill of the jobs of a ring.
//!
//! A new configuration may move a thread with very many due vertices to a ring that chooses work
//! by message. Adding a vertex to its job takes about a microsecond, so each turn adds some. Until
//! then the vertex is due, but no agent gets it.

use crate::context::Context;
use crate::queue::{Queue, Thread, ThreadId, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use zsched_format::time::Timestamp;

/// Number of skipped vertices that cost as much as one added.
///
/// A vertex is skipped if it is no longer due, or has a job already.
const SKIPPED_PER_ADDED: usize = 8;

/// Threads with due vertices that are in no job yet.
#[derive(Default, Serialize, Deserialize)]
pub struct Backfill {
    threads: BTreeMap<ThreadId, Remaining>,
}

/// The vertices of a thread that are still to be added.
#[derive(Default, Serialize, Deserialize)]
struct Remaining {
    /// Vertices that became due. Some may have changed their state since.
    vertices: VecDeque<VertexId>,
    /// Number of due vertices of the thread that are in no job.
    unqueued: usize,
}

impl Backfill {
    /// Drops what is left, because the rings are retired.
    pub fn clear(&mut self) {
        self.threads.clear();
    }

    /// Returns true if no thread is left.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Number of due vertices of a thread that are in no job.
    pub fn unqueued(&self, thread: ThreadId) -> usize {
        self.threads.get(&thread).map_or(0, |rest| rest.unqueued)
    }
}

impl Queue {
    /// Adds the due vertices of a thread that joins its ring.
    ///
    /// If there are few, all are added at once.
    pub(crate) fn enqueue_due(&mut self, cx: &Context, thread: ThreadId) {
        if self.rings[self.threads[thread].ring].jobs.is_none() {
            return;
        }
        let due = self.threads[thread].due.to_vec(&self.vertices);
        if !due.is_empty() {
            self.begin_backfill(cx, thread, due);
        }
    }

    fn begin_backfill(&mut self, cx: &Context, thread: ThreadId, vertices: Vec<VertexId>) {
        let rest = self.backfill.threads.entry(thread).or_default();
        rest.unqueued += vertices.len();
        rest.vertices.extend(vertices);
        self.backfill_some(cx.now, thread, cx.settings.step());
    }

    /// Adds the next entries of the first thread.
    pub(crate) fn backfill_step(&mut self, now: Timestamp, budget: usize) -> usize {
        let Some(thread) = self.backfill.threads.keys().next().copied() else {
            return budget;
        };
        // The number of vertices that agents may be given changes.
        self.threads.mark(thread);
        self.backfill_some(now, thread, budget)
    }

    /// Adds up to `most` entries of a thread.
    ///
    /// Returns the unused part of `most`.
    fn backfill_some(&mut self, now: Timestamp, thread: ThreadId, most: usize) -> usize {
        let mut left = most * SKIPPED_PER_ADDED;
        while left > 0
            && let Some(rest) = self.backfill.threads.get_mut(&thread)
        {
            let next = rest.vertices.pop_front().filter(|_| rest.unqueued > 0);
            let Some(vertex) = next else {
                self.backfill.threads.remove(&thread);
                break;
            };
            // The number may belong to another vertex by now.
            let is_left = self.vertices.get(vertex).is_some_and(|vertex_ref| {
                vertex_ref.thread == thread && vertex_ref.state == VertexState::Due
            });
            if is_left && !self.has_joined(vertex) {
                self.backfill.threads.get_mut(&thread).expect("it was there above").unqueued -= 1;
                self.enqueue_vertex(now, vertex);
                left = left.saturating_sub(SKIPPED_PER_ADDED);
            } else {
                left -= 1;
            }
        }
        left / SKIPPED_PER_ADDED
    }

    /// Returns true if a due vertex leaves before it has a job.
    ///
    /// It is then no longer counted as one without a job.
    pub(crate) fn leaves_before_backfill(&mut self, vertex: VertexId) -> bool {
        if self.backfill.threads.is_empty() || self.has_joined(vertex) {
            return false;
        }
        let thread = self.vertices[vertex].thread;
        let Some(rest) = self.backfill.threads.get_mut(&thread) else {
            return false;
        };
        rest.unqueued -= 1;
        true
    }

    fn has_joined(&self, vertex: VertexId) -> bool {
        let vertex_ref = &self.vertices[vertex];
        let jobs = self.rings[self.threads[vertex_ref.thread].ring].jobs.as_deref();
        jobs.is_some_and(|jobs| jobs.contains(vertex_ref.message, (vertex_ref.thread, vertex)))
    }

    /// Drops the entries of a thread that leaves its ring.
    pub(crate) fn drop_entries(&mut self, thread: ThreadId) {
        self.backfill.threads.remove(&thread);
        // If the ring is not retired, the thread has no entries left.
        let ring = &mut self.rings[self.threads[thread].ring];
        if ring.is_retired
            && let Some(jobs) = &mut ring.jobs
        {
            jobs.forget(thread);
        }
    }

    /// Returns true if a thread's due vertices are all without jobs.
    ///
    /// No agent can get any of them yet.
    pub(crate) fn is_backfilling(&self, thread: &Thread) -> bool {
        let id = || self.threads.id_of(thread);
        !thread.due.is_empty()
            && !self.backfill.is_empty()
            && id().is_some_and(|id| self.due_in_jobs(id) == 0)
    }

    /// Number of due vertices of a thread that are in jobs.
    pub(crate) fn due_in_jobs(&self, thread: ThreadId) -> usize {
        self.threads[thread].due.len() - self.backfill.unqueued(thread)
    }
}
