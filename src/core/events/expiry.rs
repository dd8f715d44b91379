//! Recipients that expire, and notices to their senders that they are late.
//!
//! [`crate::queue::expiry`] has their times.

use crate::Scheduler;
use crate::action::StatusVerdict;
use crate::outcome::notes::NoteContent;
use crate::queue::attempt_records::StatusChange;
use crate::queue::expiry::ExpiryCheck;
use crate::queue::{ThreadId, VertexId, VertexState};
use zsched_format::control_file::diagnostic::{DEADLINE_PASSED, delay_notary, expiry_notary};
use zsched_format::time::{LongDuration, Timestamp};
use zsched_spool::note::OutcomeKind;

impl Scheduler {
    /// Requests a delay notice about a vertex.
    pub(crate) fn note_delay(&mut self, vertex: VertexId) {
        let noted = usize::from(self.queue.vertex(vertex).delays_noted());
        self.queue.count_delay_notices(vertex, self.cx.now);
        let has_passed = self.queue.is_deadline_due(vertex, noted);
        let (expires, vertex_ref) = (self.queue.deadline(vertex), self.queue.vertex(vertex));
        let (message, offsets) = (vertex_ref.message, vertex_ref.pending_offsets());
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

    /// Ends a vertex that no agent has if it has expired, else watches its age.
    ///
    /// A check of its whole thread would take too long if the thread is large. `count` is the
    /// number of vertices before it in this event: of very many, the rest expires in the next
    /// turns.
    pub(crate) fn expire_or_watch(&mut self, vertex: VertexId, count: usize) {
        let may_expire = self.queue.may_expire(vertex);
        if may_expire && count < self.cx.settings.step() && self.has_expired(vertex) {
            return;
        }
        if self.queue.vertex(vertex).state != VertexState::Held {
            self.queue.watch_expiry(self.cx.now, vertex);
        }
    }

    /// Does what the age of a vertex demands now. Returns true if that has ended it.
    pub(crate) fn has_expired(&mut self, vertex: VertexId) -> bool {
        let is_over = |time: Option<Timestamp>| time.is_some_and(|time| time <= self.cx.now);
        let message = self.queue.message(self.queue.vertex(vertex).message);
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
        self.queue.begin_expiry_check(thread);
        self.expire_some(thread, self.cx.settings.step());
    }

    /// Continues the check of the first thread.
    pub(crate) fn expiry_step(&mut self, budget: usize) -> usize {
        match self.queue.first_expiry_check() {
            Some(thread) => self.expire_some(thread, budget),
            None => budget,
        }
    }

    /// Checks up to `count` vertices of a thread.
    ///
    /// Returns how many of that number are left.
    pub(crate) fn expire_some(&mut self, thread: ThreadId, count: usize) -> usize {
        let Some(ExpiryCheck { mut vertices, mut next }) = self.queue.take_expiry_check(thread)
        else {
            return count;
        };
        let step = vertices.len().min(count);
        for vertex in vertices.drain(..step) {
            // The number may belong to another vertex by now.
            let is_of_thread =
                self.queue.vertices().get(vertex).is_some_and(|vertex| vertex.thread == thread);
            if !is_of_thread || !self.queue.may_expire(vertex) {
                continue;
            }
            if !self.has_expired(vertex) {
                next = next.into_iter().chain(self.queue.next_age_event(vertex)).min();
            }
        }
        self.queue.end_expiry_step(self.cx.now, thread, ExpiryCheck { vertices, next });
        count - step
    }

    /// Ends a vertex that no agent has: its recipients fail.
    ///
    /// `what` begins the text for the sender.
    pub(crate) fn expire_vertex(&mut self, vertex: VertexId, what: &str) {
        let message = self.queue.vertex(vertex).message;
        let offsets = self.queue.vertex(vertex).pending_offsets();
        let age = LongDuration(self.cx.now.seconds_since(self.queue.message(message).modified));
        let text = match &self.queue.vertex(vertex).diagnosis {
            None => format!("{what} after {age}").into_bytes(),
            Some(diagnosis) => {
                let mut text = format!("\r{what} after {age}, problem was:\r").into_bytes();
                text.extend_from_slice(&diagnosis.message);
                text
            }
        };
        // The last report was a delay, but this is the end (RFC 3463, X.4.7).
        let tried = self.queue.vertex(vertex).last_attempt();
        let diagnosis = self.queue.vertex(vertex).diagnosis.as_ref();
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
