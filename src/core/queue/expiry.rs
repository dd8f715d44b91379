//! Expiry of recipients that are too old: the sender is notified.
//!
//! A recipient expires when its message is `expiry` old and an attempt was made since this
//! scheduler started. Without an attempt it expires `expiry2` later (ZMailer `scheduler(8)`). It
//! has a deadline in every state but one: an attempt in progress is awaited. A message that an
//! operator holds does not expire. Once released, it is tried before it may expire.

use crate::Scheduler;
use crate::action::Verdict;
use crate::queue::{AfterJob, Queue, ThreadId, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use zsched_format::control_file::diagnostic::scheduler_notary;
use zsched_format::time::{LongDuration, Timestamp};
use zsched_spool::note::OutcomeKind;

/// `expiry2` if the configuration has none.
pub const DEFAULT_EXPIRY2: Duration = Duration::from_secs(86_400);
/// Minimum interval between two checks of a thread's vertices.
const MIN_EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Threads with vertices that are still to be checked.
pub type ExpiryChecks = BTreeMap<ThreadId, ExpiryCheck>;

/// The vertices of a thread that are still to be checked.
#[derive(Serialize, Deserialize)]
pub struct ExpiryCheck {
    vertices: VecDeque<VertexId>,
    /// Earliest deadline of the vertices that were checked.
    next: Option<Timestamp>,
}

impl Scheduler {
    /// Returns when a vertex expires once it was tried; `None` is never.
    pub(crate) fn expiry(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex = &self.queue.vertices[vertex];
        Some(self.queue.messages[vertex.message].modified + self.clause(vertex.thread).expiry?)
    }

    /// Returns when a vertex expires in its present state; `None` is never.
    pub(crate) fn deadline(&self, vertex: VertexId) -> Option<Timestamp> {
        let expiry = self.expiry(vertex)?;
        let vertex = &self.queue.vertices[vertex];
        if vertex.tried {
            return Some(expiry);
        }
        Some(expiry + self.clause(vertex.thread).expiry2.unwrap_or(DEFAULT_EXPIRY2))
    }

    /// Sets the timer of a thread no later than a vertex's deadline.
    pub(crate) fn watch_expiry(&mut self, vertex: VertexId) {
        let Some(deadline) = self.deadline(vertex) else {
            return;
        };
        let thread = self.queue.vertices[vertex].thread;
        let wanted = deadline.max(self.now);
        if self.queue.threads[thread].expiry_check.is_none_or(|check| wanted < check) {
            self.queue.threads[thread].expiry_check = Some(wanted);
        }
    }

    /// Ends a vertex if it has expired, else watches its deadline.
    ///
    /// For a vertex that an agent has just given back. A check of the whole thread for each of them
    /// would take too long in a large one.
    pub(crate) fn expire_or_watch(&mut self, vertex: VertexId) {
        let is_over = self.deadline(vertex).is_some_and(|deadline| deadline <= self.now);
        match is_over && self.queue.may_expire(vertex) {
            true => self.expire_vertex(vertex, "expired"),
            false => self.watch_expiry(vertex),
        }
    }

    /// Ends what has expired in a thread, and schedules the next check.
    ///
    /// Of very many vertices some are checked in each turn.
    pub(crate) fn expire_thread(&mut self, thread: ThreadId) {
        self.queue.threads[thread].expiry_check = None;
        let resting = self.queue.threads[thread].vertices(&self.queue.vertices);
        let vertices = resting.filter(|vertex| self.queue.may_expire(*vertex)).collect();
        self.queue.expiry_checks.insert(thread, ExpiryCheck { vertices, next: None });
        self.expire_some(thread, self.settings.step());
    }

    /// Continues the check of the first thread.
    pub(crate) fn expiry_step(&mut self, budget: usize) -> usize {
        match self.queue.expiry_checks.keys().next() {
            Some(thread) => self.expire_some(*thread, budget),
            None => budget,
        }
    }

    /// Checks up to `count` vertices of a thread.
    ///
    /// Returns how many of that number are left.
    fn expire_some(&mut self, thread: ThreadId, count: usize) -> usize {
        let Some(ExpiryCheck { mut vertices, mut next }) = self.queue.expiry_checks.remove(&thread)
        else {
            return count;
        };
        let step = vertices.len().min(count);
        for vertex in vertices.drain(..step) {
            // The number may belong to another vertex by now.
            let is_of_thread =
                self.queue.vertices.get(vertex).is_some_and(|vertex| vertex.thread == thread);
            if !is_of_thread || !self.queue.may_expire(vertex) {
                continue;
            }
            match self.deadline(vertex) {
                Some(deadline) if deadline <= self.now => self.expire_vertex(vertex, "expired"),
                Some(deadline) => next = Some(next.map_or(deadline, |next| next.min(deadline))),
                None => {}
            }
        }
        if !vertices.is_empty() {
            self.queue.expiry_checks.insert(thread, ExpiryCheck { vertices, next });
            return count - step;
        }
        let known = self.queue.threads[thread].expiry_check;
        let next = next.map(|next| next.max(self.now + MIN_EXPIRY_CHECK_INTERVAL));
        self.queue.threads[thread].expiry_check = next.into_iter().chain(known).min();
        count - step
    }

    /// Ends a vertex that no agent has: its recipients fail.
    ///
    /// `what` begins the text for the sender.
    pub(crate) fn expire_vertex(&mut self, vertex: VertexId, what: &str) {
        let message = self.queue.vertices[vertex].message;
        let offsets = self.queue.vertices[vertex].recipients.pending();
        let age = LongDuration(self.now.seconds_since(self.queue.messages[message].modified));
        let text = match &self.queue.vertices[vertex].diagnosis {
            None => format!("{what} after {age}").into_bytes(),
            Some(diagnosis) => {
                let mut text = format!("\r{what} after {age}, problem was:\r").into_bytes();
                text.extend_from_slice(&diagnosis.message);
                text
            }
        };
        // The last report was a delay, but this is the end (RFC 3463, X.4.7).
        let diagnostic = format!("smtp; 500 ({what} after {age})");
        let notary = scheduler_notary("failed", "5.4.7 (delivery time expired)", &diagnostic);
        self.status(vertex, &offsets, Verdict::Expired, None, &notary, &text);
        self.record_unloaded_finals(message, &offsets);
        let occasion = OutcomeKind::Expiry;
        self.note(message, offsets.clone(), occasion, notary.into(), text.into());
        for offset in offsets {
            self.finish_recipient(vertex, offset, "expire", true);
        }
    }
}

impl Queue {
    fn may_expire(&self, vertex: VertexId) -> bool {
        let vertex = &self.vertices[vertex];
        matches!(vertex.state, VertexState::Due | VertexState::Waiting)
            && vertex.after_job != AfterJob::OneMoreTry
    }
}
