//! Deferral of everything that is due in a thread.
//!
//! The reason is that its destination cannot be reached, or that agents die over it. A thread may
//! have a million due vertices, and delivery must not stop while they are deferred. So some of them
//! are deferred in each turn, and meanwhile agents get none of them.

use crate::context::Context;
use crate::queue::{Diagnosis, Queue, Thread, ThreadId, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Threads with due vertices that are still to be deferred.
pub type Deferrals = BTreeMap<ThreadId, PendingDeferral>;

/// What is left to do in a thread.
#[derive(Clone, Serialize, Deserialize)]
pub struct PendingDeferral {
    /// Number of vertices to defer, from the head of the due list.
    vertices: usize,
    /// They wait until this time; `None` is until a request.
    pub until: Option<Timestamp>,
    what: DeferralNote,
}

/// What is recorded about a vertex that is deferred.
#[derive(Clone, Serialize, Deserialize)]
pub enum DeferralNote {
    /// Nothing.
    None,
    /// It counts as tried, with this diagnosis.
    Tried(Option<Rc<Diagnosis>>),
    /// The agents of its thread die.
    AgentsDie(Rc<Diagnosis>),
}

impl Queue {
    /// Makes the due vertices of a thread wait until a time.
    ///
    /// The first of them wait at once.
    ///
    /// A vertex that is past its expiry stays due, because it would otherwise expire without an
    /// attempt. If agents die it waits, too.
    pub(crate) fn defer_due_vertices(
        &mut self,
        cx: &mut Context,
        thread: ThreadId,
        until: Option<Timestamp>,
        what: DeferralNote,
    ) {
        if let Some(rest) = self.deferrals.get_mut(&thread) {
            // Another agent, or one more recipient of the same job: the work continues as planned.
            rest.until = until;
            return;
        }
        let vertices = self.threads[thread].due.len();
        self.deferrals.insert(thread, PendingDeferral { vertices, until, what });
        self.defer_some_of(cx, thread, cx.settings.step());
    }

    /// Continues in the first thread.
    pub(crate) fn deferral_step(&mut self, cx: &mut Context, budget: usize) -> usize {
        match self.deferrals.keys().next() {
            Some(thread) => self.defer_some_of(cx, *thread, budget),
            None => budget,
        }
    }

    /// Defers up to `count` vertices of a thread.
    ///
    /// Returns the unused part of `count`.
    fn defer_some_of(&mut self, cx: &mut Context, thread: ThreadId, count: usize) -> usize {
        self.apply_clock_step(cx, thread);
        let Some(rest) = self.deferrals.get_mut(&thread) else {
            return count;
        };
        let step = rest.vertices.min(count);
        rest.vertices -= step;
        let is_over = rest.vertices == 0;
        let PendingDeferral { until, what, .. } = rest.clone();
        for _ in 0..step {
            if let Some(vertex) = self.threads[thread].due.first() {
                self.defer_one(cx.now, vertex, until, &what);
            }
        }
        if is_over {
            self.deferrals.remove(&thread);
        }
        count - step
    }

    fn defer_one(
        &mut self,
        now: Timestamp,
        vertex: VertexId,
        until: Option<Timestamp>,
        what: &DeferralNote,
    ) {
        let is_late = self.expiry(vertex).is_some_and(|expiry| expiry <= now);
        match what {
            DeferralNote::None | DeferralNote::Tried(_) if is_late => {
                return self.move_vertex(vertex, VertexState::Due);
            }
            DeferralNote::None => {}
            DeferralNote::Tried(diagnosis) => {
                // It has no job in which it could be counted before.
                self.vertices[vertex].is_counted = false;
                self.count_attempt(vertex);
                if let Some(diagnosis) = diagnosis {
                    self.record(vertex, diagnosis.clone());
                }
            }
            DeferralNote::AgentsDie(diagnosis) => {
                self.vertices[vertex].diagnosis = Some(diagnosis.clone());
            }
        }
        self.wait_until(now, vertex, until, Duration::ZERO);
    }

    /// Number of due vertices of a thread that agents may be given.
    pub(crate) fn due_for_agents(&self, thread: ThreadId) -> usize {
        if self.deferrals.contains_key(&thread) { 0 } else { self.due_in_jobs(thread) }
    }

    /// Returns true if the due vertices of a thread are being deferred.
    pub(crate) fn is_being_deferred(&self, thread: &Thread) -> bool {
        let id = || self.threads.id_of(thread);
        !self.deferrals.is_empty() && id().is_some_and(|id| self.deferrals.contains_key(&id))
    }
}
