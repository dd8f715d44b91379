//! What the age of recipients decides: expiry, and notices to the sender that they are late.
//!
//! A recipient expires when its message is `expiry` old and an attempt was made since this
//! scheduler started. Without an attempt it expires `expiry2` later (ZMailer `scheduler(8)`). It
//! has a deadline in every state but one: an attempt in progress is awaited. A message that an
//! operator holds does not expire. Once released, it is tried before it may expire. A sender may
//! set a deadline of its own (DELIVERBY, RFC 2852), which needs no attempt; and a first time of
//! delivery, from which the age counts ([`crate::queue::schedule`]).
//!
//! At the ages in `reporttimes`, and at a deadline after which the message need not fail, a delay
//! notice is due: the sender gets a report about the recipients that are late.

use crate::queue::{AfterJob, MessageId, Queue, ThreadId, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use zsched_format::time::Timestamp;

/// `expiry2` if the configuration has none.
pub const DEFAULT_EXPIRY2: Duration = Duration::from_secs(86_400);
/// Minimum interval between two checks of a thread's vertices.
const MIN_EXPIRY_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Threads with vertices that are still to be checked.
pub type ExpiryChecks = BTreeMap<ThreadId, ExpiryCheck>;

/// The vertices of a thread that are still to be checked.
#[derive(Serialize, Deserialize)]
pub struct ExpiryCheck {
    pub vertices: VecDeque<VertexId>,
    /// Earliest deadline of the vertices that were checked.
    pub next: Option<Timestamp>,
}

impl Queue {
    /// Begins to check all vertices of a thread for expiry.
    pub(crate) fn begin_expiry_check(&mut self, thread: ThreadId) {
        self.threads[thread].expiry_check = None;
        let vertices = self.threads[thread].vertices(&self.vertices);
        let vertices = vertices.filter(|vertex| self.may_expire(*vertex)).collect();
        self.expiry_checks.insert(thread, ExpiryCheck { vertices, next: None });
    }

    /// The first thread with vertices that are still to be checked.
    pub(crate) fn first_expiry_check(&self) -> Option<ThreadId> {
        self.expiry_checks.keys().next().copied()
    }

    /// Takes the vertices of a thread that are still to be checked.
    pub(crate) fn take_expiry_check(&mut self, thread: ThreadId) -> Option<ExpiryCheck> {
        self.expiry_checks.remove(&thread)
    }

    /// Keeps what is left of a check, or plans the next check of the thread.
    pub(crate) fn end_expiry_step(&mut self, now: Timestamp, thread: ThreadId, check: ExpiryCheck) {
        if !check.vertices.is_empty() {
            self.expiry_checks.insert(thread, check);
            return;
        }
        let thread = &mut self.threads[thread];
        let next = check.next.map(|next| next.max(now + MIN_EXPIRY_CHECK_INTERVAL));
        thread.expiry_check = next.into_iter().chain(thread.expiry_check).min();
    }

    /// Returns when a vertex expires once it was tried; `None` is never.
    pub(crate) fn expiry(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex = &self.vertices[vertex];
        Some(self.messages.aged_from(vertex.message) + self.clause(vertex.thread).expiry?)
    }

    /// Returns when a vertex expires in its present state; `None` is never.
    pub(crate) fn deadline(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex_ref = &self.vertices[vertex];
        let extra = match vertex_ref.tried {
            true => Duration::ZERO,
            false => self.clause(vertex_ref.thread).expiry2.unwrap_or(DEFAULT_EXPIRY2),
        };
        let expiry = self.expiry(vertex).map(|expiry| expiry + extra);
        let of_sender = self.messages[vertex_ref.message].fails_at();
        expiry.into_iter().chain(of_sender).min()
    }

    /// Returns when the age of a vertex next matters: it expires, or a delay notice is due.
    pub(crate) fn next_age_event(&self, vertex: VertexId) -> Option<Timestamp> {
        self.deadline(vertex).into_iter().chain(self.next_delay_notice(vertex)).min()
    }

    /// Returns when the next delay notice of a vertex is due.
    pub(crate) fn next_delay_notice(&self, vertex: VertexId) -> Option<Timestamp> {
        let vertex_ref = &self.vertices[vertex];
        let noted = usize::from(vertex_ref.delays_noted());
        if noted > 0 {
            return self.delay_notices(vertex).get(noted).copied();
        }
        let message = &self.messages[vertex_ref.message];
        let first = self.clause(vertex_ref.thread).report_times.iter().min();
        let from = self.messages.aged_from(vertex_ref.message);
        first.map(|age| from + *age).into_iter().chain(message.notice_at()).min()
    }

    /// The times at which delay notices of a vertex are due, in ascending order.
    fn delay_notices(&self, vertex: VertexId) -> SmallVec<[Timestamp; 5]> {
        let vertex = &self.vertices[vertex];
        let message = &self.messages[vertex.message];
        let from = self.messages.aged_from(vertex.message);
        let ages = self.clause(vertex.thread).report_times.iter();
        let mut times: SmallVec<[Timestamp; 5]> =
            ages.map(|age| from + *age).chain(message.notice_at()).collect();
        times.sort_unstable();
        times
    }

    /// Skips the notices about a new message that a former scheduler has given.
    ///
    /// `noted` is the time of the last one, in seconds. The fraction of its second is not known.
    pub(crate) fn skip_delay_notices(&mut self, message: MessageId, noted: u32) {
        const MAX_FRACTION: Duration = Duration::from_nanos(999_999_999);
        let until = Timestamp::from_seconds(noted.into()) + MAX_FRACTION;
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            let noted = self.vertices[vertex].delays_noted();
            self.count_delay_notices(vertex, until);
            let counted = self.vertices[vertex].delays_noted();
            self.vertices[vertex].set_delays_noted(counted.max(noted));
        }
    }

    /// Counts the notices about a vertex up to a time.
    pub(crate) fn count_delay_notices(&mut self, vertex: VertexId, until: Timestamp) {
        let over = self.delay_notices(vertex).iter().filter(|time| **time <= until).count();
        self.vertices[vertex].set_delays_noted(over as u8);
    }

    /// Returns true if the sender's deadline is among the notices that became due now.
    ///
    /// `noted` is the number of notices before. Only the notice of the deadline is owed whatever
    /// NOTIFY says (RFC 2852, section 4.1.4.2), and it is owed once.
    pub(crate) fn is_deadline_due(&self, vertex: VertexId, noted: usize) -> bool {
        let vertex_ref = &self.vertices[vertex];
        let deadline = self.messages[vertex_ref.message].notice_at();
        let due = noted..usize::from(vertex_ref.delays_noted());
        let notices = self.delay_notices(vertex);
        let due = notices.get(due).unwrap_or_default();
        deadline.is_some_and(|deadline| due.contains(&deadline))
    }

    /// Sets the timer of a thread for the age of a vertex.
    ///
    /// It is no later than the time when that age next matters.
    pub(crate) fn watch_expiry(&mut self, now: Timestamp, vertex: VertexId) {
        let Some(deadline) = self.next_age_event(vertex) else {
            return;
        };
        let thread = self.vertices[vertex].thread;
        let wanted = deadline.max(now);
        if self.threads[thread].expiry_check.is_none_or(|check| wanted < check) {
            self.threads[thread].expiry_check = Some(wanted);
        }
    }

    /// Panics if the age of a thread's vertices is not watched.
    pub(crate) fn check_age(&self, now: Timestamp, id: ThreadId) {
        let thread = &self.threads[id];
        let is_changing = self.rings[thread.ring].is_retired || !self.is_shifted(id);
        if is_changing || self.expiry_checks.contains_key(&id) {
            return;
        }
        let vertices = thread.vertices(&self.vertices).filter(|vertex| self.may_expire(*vertex));
        if let Some(next) = vertices.filter_map(|vertex| self.next_age_event(vertex)).min() {
            let latest = next.max(now + MIN_EXPIRY_CHECK_INTERVAL);
            let is_watched = thread.expiry_check.is_some_and(|check| check <= latest);
            assert!(is_watched, "{}: the age of a vertex is not watched", thread.destination);
        }
    }

    pub(crate) fn may_expire(&self, vertex: VertexId) -> bool {
        let vertex = &self.vertices[vertex];
        matches!(vertex.state, VertexState::Due | VertexState::Waiting)
            && vertex.after_job != AfterJob::OneMoreTry
    }
}
