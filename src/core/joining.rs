//! Entries that have yet to join their jobs: when very many vertices of a thread become due in a ring whose
//! work goes by messages, because a new configuration moves it there, they join some with
//! each turn, as each takes about a microsecond. Until then an entry is due, but no agent gets it.

use super::Scheduler;
use super::thread::{Thread, ThreadId};
use super::timers::Timer;
use super::vertex::{Place, VertexId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use zsched_format::time::Timestamp;

/// So many vertices of a thread count as one in a step: it takes little to find that there is nothing to do.
const PASSED_OVER: usize = 8;

/// Threads of which some is due that is in no job yet.
#[derive(Default, Serialize, Deserialize)]
pub struct Joining {
    threads: BTreeMap<ThreadId, Rest>,
}

/// What is left of a thread.
#[derive(Default, Serialize, Deserialize)]
struct Rest {
    /// What became due. Some of it may have gone another way meanwhile.
    vertices: VecDeque<VertexId>,
    /// How many of the thread's due vertices are in no job.
    unjoined: usize,
}

impl Joining {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// How many of the due vertices of a thread are in no job yet.
    pub fn unjoined(&self, thread: ThreadId) -> usize {
        self.threads.get(&thread).map_or(0, |rest| rest.unjoined)
    }
}

impl Scheduler {
    /// Whether a vertex that is due in a ring with jobs is in none yet; then it is not counted any more.
    pub(super) fn goes_before_it_has_joined(&mut self, vertex: VertexId) -> bool {
        if self.joining.threads.is_empty() || self.has_joined(vertex) {
            return false;
        }
        let thread = self.vertices[vertex].thread;
        let Some(rest) = self.joining.threads.get_mut(&thread) else {
            return false;
        };
        rest.unjoined -= 1;
        true
    }

    fn has_joined(&self, vertex: VertexId) -> bool {
        let vertex_ref = &self.vertices[vertex];
        let jobs = self.rings[self.threads[vertex_ref.thread].ring].jobs.as_deref();
        jobs.is_some_and(|jobs| jobs.contains(vertex_ref.message, (vertex_ref.thread, vertex)))
    }

    /// A thread has come to its ring: so has what is due in it, at once if it is not much.
    pub(super) fn bring_entries(&mut self, now: Timestamp, thread: ThreadId) {
        if self.rings[self.threads[thread].ring].jobs.is_none() {
            return;
        }
        let due = self.threads[thread].due.to_vec(&self.vertices);
        if !due.is_empty() {
            self.begin_to_join(now, thread, due);
        }
    }

    fn begin_to_join(&mut self, now: Timestamp, thread: ThreadId, vertices: Vec<VertexId>) {
        let rest = self.joining.threads.entry(thread).or_default();
        rest.unjoined += vertices.len();
        rest.vertices.extend(vertices);
        self.join_some(thread, self.settings.step());
        if !self.joining.threads.is_empty() {
            self.timers.add(now, Timer::Sweep);
        }
    }

    /// A thread leaves its ring.
    pub(super) fn take_entries(&mut self, thread: ThreadId) {
        self.joining.threads.remove(&thread);
        // A thread that leaves one that goes on has nothing left.
        let ring = &mut self.rings[self.threads[thread].ring];
        if ring.is_retired
            && let Some(jobs) = &mut ring.jobs
        {
            jobs.forget(thread);
        }
    }

    /// Lets the next entries join.
    pub(super) fn join_on(&mut self, now: Timestamp) {
        let mut left = self.settings.step();
        while left > 0
            && let Some(thread) = self.joining.threads.keys().next().copied()
        {
            left = self.join_some(thread, left);
            if self.threads.get(thread).is_some() {
                self.update_readiness(thread);
            }
        }
        // The sweep, which has waited for this, goes on.
        if !self.joining.threads.is_empty() || self.swept.is_some() {
            self.timers.add(now, Timer::Sweep);
        }
    }

    /// Lets up to so many entries of a thread join. Tells how many are left of that number.
    fn join_some(&mut self, thread: ThreadId, most: usize) -> usize {
        let mut left = most * PASSED_OVER;
        while left > 0
            && let Some(rest) = self.joining.threads.get_mut(&thread)
        {
            let next = rest.vertices.pop_front().filter(|_| rest.unjoined > 0);
            let Some(vertex) = next else {
                self.joining.threads.remove(&thread);
                break;
            };
            // Its number may have been given to another one.
            let is_left = self.vertices.get(vertex).is_some_and(|vertex_ref| {
                vertex_ref.thread == thread && vertex_ref.place == Place::Due
            });
            if is_left && !self.has_joined(vertex) {
                self.joining.threads.get_mut(&thread).expect("it was there above").unjoined -= 1;
                self.join_job(vertex);
                left = left.saturating_sub(PASSED_OVER);
            } else {
                left -= 1;
            }
        }
        left / PASSED_OVER
    }

    /// Whether nothing of what is due in a thread may be given to an agent yet.
    pub(super) fn is_still_joining(&self, thread: &Thread) -> bool {
        let id = || self.threads.id_of(thread);
        !thread.due.is_empty()
            && !self.joining.is_empty()
            && id().is_some_and(|id| self.due_in_jobs(id) == 0)
    }

    /// How many of the due vertices of a thread are in jobs, where its ring has any.
    pub(super) fn due_in_jobs(&self, thread: ThreadId) -> usize {
        self.threads[thread].due.len() - self.joining.unjoined(thread)
    }
}
