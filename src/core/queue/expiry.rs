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

use crate::Scheduler;
use crate::action::StatusVerdict;
use crate::outcome::notes::NoteContent;
use crate::queue::attempt_records::StatusChange;
use crate::queue::{AfterJob, MessageId, Queue, ThreadId, VertexId, VertexState};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use zsched_format::control_file::diagnostic::{DEADLINE_PASSED, delay_notary, expiry_notary};
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
    /// Requests a delay notice about a vertex.
    fn note_delay(&mut self, vertex: VertexId) {
        let noted = usize::from(self.queue.vertices[vertex].delays_noted());
        self.queue.count_delay_notices(vertex, self.cx.now);
        let has_passed = self.queue.is_deadline_due(vertex, noted);
        let (expires, vertex_ref) = (self.queue.deadline(vertex), &self.queue.vertices[vertex]);
        let (message, offsets) = (vertex_ref.message, vertex_ref.recipients.pending());
        let (last, text) = match &vertex_ref.diagnosis {
            Some(diagnosis) => (&diagnosis.notary[..], &diagnosis.message[..]),
            None => (&b""[..], &b"delivery was not tried yet"[..]),
        };
        let expires = expires.map(|expires| expires.seconds());
        let notary = delay_notary(last, has_passed, expires, vertex_ref.last_attempt()).into();
        let occasion = if has_passed { OutcomeKind::DeadlinePassed } else { OutcomeKind::Delay };
        let text = text.into();
        self.request_note(message, NoteContent { offsets, occasion, notary, text });
    }

    /// Ends a vertex if it has expired, else watches its age.
    ///
    /// For a vertex that an agent has just given back. A check of the whole thread for each of them
    /// would take too long in a large one.
    pub(crate) fn expire_or_watch(&mut self, vertex: VertexId) {
        if !self.queue.may_expire(vertex) || !self.has_expired(vertex) {
            self.queue.watch_expiry(self.cx.now, vertex);
        }
    }

    /// Does what the age of a vertex demands now. Returns true if that has ended it.
    pub(crate) fn has_expired(&mut self, vertex: VertexId) -> bool {
        let is_over = |time: Option<Timestamp>| time.is_some_and(|time| time <= self.cx.now);
        let message = &self.queue.messages[self.queue.vertices[vertex].message];
        let what = match is_over(message.fails_at()) {
            true => DEADLINE_PASSED,
            false => "expired",
        };
        if is_over(self.queue.deadline(vertex)) {
            self.expire_vertex(vertex, what);
            return true;
        }
        if is_over(self.queue.next_delay_notice(vertex)) {
            self.note_delay(vertex);
        }
        false
    }

    /// Ends what has expired in a thread, and schedules the next check.
    ///
    /// Of very many vertices some are checked in each turn.
    pub(crate) fn expire_thread(&mut self, thread: ThreadId) {
        self.queue.threads[thread].expiry_check = None;
        let vertices = self.queue.threads[thread].vertices(&self.queue.vertices);
        let vertices = vertices.filter(|vertex| self.queue.may_expire(*vertex)).collect();
        self.queue.expiry_checks.insert(thread, ExpiryCheck { vertices, next: None });
        self.expire_some(thread, self.cx.settings.step());
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
            if !self.has_expired(vertex) {
                next = next.into_iter().chain(self.queue.next_age_event(vertex)).min();
            }
        }
        if !vertices.is_empty() {
            self.queue.expiry_checks.insert(thread, ExpiryCheck { vertices, next });
            return count - step;
        }
        let known = self.queue.threads[thread].expiry_check;
        let next = next.map(|next| next.max(self.cx.now + MIN_EXPIRY_CHECK_INTERVAL));
        self.queue.threads[thread].expiry_check = next.into_iter().chain(known).min();
        count - step
    }

    /// Ends a vertex that no agent has: its recipients fail.
    ///
    /// `what` begins the text for the sender.
    pub(crate) fn expire_vertex(&mut self, vertex: VertexId, what: &str) {
        let message = self.queue.vertices[vertex].message;
        let offsets = self.queue.vertices[vertex].recipients.pending();
        let age = LongDuration(self.cx.now.seconds_since(self.queue.messages[message].modified));
        let text = match &self.queue.vertices[vertex].diagnosis {
            None => format!("{what} after {age}").into_bytes(),
            Some(diagnosis) => {
                let mut text = format!("\r{what} after {age}, problem was:\r").into_bytes();
                text.extend_from_slice(&diagnosis.message);
                text
            }
        };
        // The last report was a delay, but this is the end (RFC 3463, X.4.7).
        let tried = self.queue.vertices[vertex].last_attempt();
        let diagnosis = self.queue.vertices[vertex].diagnosis.as_ref();
        let last = diagnosis.map_or(&b""[..], |diagnosis| &diagnosis.notary);
        let notary = expiry_notary(&format!("{what} after {age}"), last, tried);
        let verdict = StatusVerdict::Expired;
        self.queue.status(
            &mut self.cx,
            vertex,
            StatusChange {
                offsets: &offsets,
                verdict,
                attempt: None,
                notary: &notary,
                text: &text,
            },
        );
        self.admission.record_unloaded_finals(message, &offsets);
        let content = NoteContent {
            offsets: offsets.clone(),
            occasion: OutcomeKind::Expiry,
            notary: notary.into(),
            text: text.into(),
        };
        self.request_note(message, content);
        for offset in offsets {
            self.queue.finish_recipient(&mut self.cx, vertex, offset, "expire", true);
        }
    }
}

impl Queue {
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
    fn next_delay_notice(&self, vertex: VertexId) -> Option<Timestamp> {
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
    fn is_deadline_due(&self, vertex: VertexId, noted: usize) -> bool {
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

    fn may_expire(&self, vertex: VertexId) -> bool {
        let vertex = &self.vertices[vertex];
        matches!(vertex.state, VertexState::Due | VertexState::Waiting)
            && vertex.after_job != AfterJob::OneMoreTry
    }
}
