//! Orders about queued mail: retry, expire, delete, reroute.
//!
//! An agent keeps the job that it has. The order is carried out when that job is over.

use crate::Scheduler;
use crate::action::StatusVerdict;
use crate::operator::order::{Effect, Target};
use crate::operator::overrides::Author;
use crate::outcome::notes::NoteContent;
use crate::queue::attempt_records::StatusChange;
use crate::queue::{AfterJob, MessageFlag, MessageId, ThreadId, VertexId, VertexState};
use std::collections::BTreeSet;
use zsched_spool::Offsets;
use zsched_spool::note::OutcomeKind;

impl Scheduler {
    pub(crate) fn retry_threads(&mut self, threads: &[ThreadId]) -> Effect {
        let mut effect = Effect { threads: threads.len() as u32, ..Effect::default() };
        for thread in threads {
            effect.recipients += self.queue.thread(*thread).recipients;
            effect.held += u32::from(self.queue.thread(*thread).held);
            self.wake_on_request(*thread);
        }
        effect
    }

    /// Makes waiting vertices due, and adds their threads to `woken`.
    pub(crate) fn retry(&mut self, targets: &[Target], woken: &mut Vec<ThreadId>) -> Effect {
        let mut effect = Effect::default();
        for (_, vertices) in self.queue.resolve_targets(targets, &mut effect) {
            for vertex in vertices {
                let thread = self.queue.vertex(vertex).thread;
                let recipients = self.queue.vertex(vertex).pending();
                let ring = self.queue.thread(thread).ring;
                self.dispatch.retry_start_now(&mut self.queue, &mut self.cx, ring);
                if self.queue.vertex(vertex).state == VertexState::Held
                    || self.queue.thread(thread).held
                {
                    effect.held += recipients;
                    continue;
                }
                if self.queue.vertex(vertex).state == VertexState::Waiting {
                    self.queue.set_state(self.cx.now, vertex, VertexState::Due);
                    effect.recipients += recipients;
                    woken.push(thread);
                    if self.queue.thread(thread).waiting.is_empty() {
                        // No vertex is left waiting: the host is tried as if its time had come.
                        self.wake_thread(thread);
                    }
                    self.queue.set_woken(thread);
                }
            }
        }
        effect
    }

    /// Ends the targeted recipients, now or when their jobs are over.
    pub(crate) fn end_targets(
        &mut self,
        targets: &[Target],
        (after_job, by): (AfterJob, &Author),
    ) -> Effect {
        let mut effect = Effect::default();
        let whole: BTreeSet<u64> =
            targets.iter().filter(|target| target.is_whole).map(|target| target.number).collect();
        for (message, vertices) in self.queue.resolve_targets(targets, &mut effect) {
            let is_partial = self.queue.message(message).is(MessageFlag::Partial);
            let is_whole = whole.contains(&self.queue.message(message).number());
            let (recipients, busy) = self.end_vertices(message, &vertices, (after_job, by));
            effect.recipients += recipients;
            effect.busy += busy;
            // Asked after the recipients have ended: one that expires now has failed.
            let gets_alternative = self.queue.message(message).may_get_alternative();
            if is_whole && (is_partial || busy > 0 || gets_alternative) {
                self.overrides.order_removal(&self.queue, message, after_job, by);
            }
            if is_whole && is_partial {
                self.admission.read_rest_for_removal(&mut self.queue, message);
            }
        }
        effect
    }

    /// Ends recipients of a message, now or when their jobs are over.
    ///
    /// Returns how many recipients end now, and how many later.
    pub(crate) fn end_vertices(
        &mut self,
        message: MessageId,
        vertices: &[VertexId],
        (after_job, by): (AfterJob, &Author),
    ) -> (u32, u32) {
        let is_fed = |vertex: &VertexId| self.queue.vertex(*vertex).state == VertexState::Fed;
        let (fed, not_fed): (Vec<VertexId>, Vec<VertexId>) =
            vertices.iter().copied().partition(is_fed);
        let count =
            |all: &[VertexId]| all.iter().map(|v| self.queue.vertex(*v).pending()).sum::<u32>();
        let counts = (count(&not_fed), count(&fed));
        for vertex in fed {
            self.queue.set_after_job(vertex, after_job);
        }
        if !not_fed.is_empty() {
            self.end_now(message, &not_fed, (after_job, &by.name));
        }
        counts
    }

    /// Ends recipients of a message that no agent has.
    fn end_now(
        &mut self,
        message: MessageId,
        vertices: &[VertexId],
        (after_job, by): (AfterJob, &str),
    ) {
        let kind = match after_job {
            AfterJob::Usual | AfterJob::OneMoreTry => return,
            AfterJob::Expire => {
                let why = format!("was given up by {by}");
                return vertices.iter().for_each(|vertex| self.expire_vertex(*vertex, &why));
            }
            AfterJob::Delete => OutcomeKind::Deletion,
            AfterJob::Reroute => OutcomeKind::Reroute,
        };
        self.end_without_report(message, vertices, (kind, by));
    }

    /// Ends recipients of a message without a delivery or a failure.
    fn end_without_report(
        &mut self,
        message: MessageId,
        vertices: &[VertexId],
        (occasion, by): (OutcomeKind, &str),
    ) {
        let pending = |vertex: &VertexId| self.queue.vertex(*vertex).pending_offsets();
        let offsets: Offsets = vertices.iter().flat_map(pending).collect();
        self.admission.record_unloaded_finals(message, &offsets);
        self.bulk.recipients_removed(&self.queue, message, offsets.len() as u32);
        self.request_note(message, NoteContent::without_text(offsets, occasion));
        let (state, verdict, text) = match occasion {
            OutcomeKind::Reroute => {
                ("reroute", StatusVerdict::Rerouted, "given back to the router")
            }
            _ => ("delete", StatusVerdict::Deleted, "deleted"),
        };
        for vertex in vertices {
            let offsets = self.queue.vertex(*vertex).pending_offsets();
            let text = format!("{text} by {by}");
            self.queue.status(
                &mut self.cx,
                *vertex,
                StatusChange::without_attempt(&offsets, verdict, text.as_bytes()),
            );
            for offset in self.queue.vertex(*vertex).pending_offsets() {
                self.queue.finish_recipient(&mut self.cx, *vertex, offset, state, false);
            }
        }
    }

    /// Carries out an order that came while an agent had the vertex.
    ///
    /// The vertex must have recipients left, and no agent may have it.
    pub(crate) fn apply_after_job(&mut self, vertex: VertexId) {
        let message = self.queue.vertex(vertex).message;
        let after_job = self.queue.set_after_job(vertex, AfterJob::Usual);
        // The order is an override if it was about the whole message.
        let id = self.queue.message(message).spool_id();
        let by = self.overrides.removal_of(id).map(|removal| removal.author.name.clone());
        self.end_now(message, &[vertex], (after_job, by.as_deref().unwrap_or("an operator")));
    }
}
