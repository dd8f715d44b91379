//! Messages that are held back, and let go: by operators, or by their priority.

use crate::context::Context;
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::overrides::{Hold, MAX_HELD_MESSAGES, OverrideChange, Overrides, Scope};
use crate::queue::{AfterJob, MessageFlag, MessageId, Queue, ThreadId, VertexId, VertexState};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

impl Queue {
    /// Releases those of the messages that are held.
    pub(crate) fn release_messages(
        &mut self,
        overrides: &mut Overrides,
        cx: &mut Context,
        messages: &[SpoolId],
    ) -> Effect {
        let mut all = Effect::default();
        for id in messages {
            if overrides.hold_of_message(*id).is_some() {
                overrides.change(OverrideChange::Released(Scope::Message(*id)));
                let message = self.message_of(*id);
                all.add(&message.map_or(Effect::default(), |m| self.release_message(cx, m)));
            }
        }
        all
    }

    pub(crate) fn hold_message(
        &mut self,
        overrides: &mut Overrides,
        now: Timestamp,
        id: SpoolId,
        hold: Hold,
    ) -> Effect {
        let Some(message) = self.message_of(id) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        if self.messages[message].is(MessageFlag::Held) {
            return Effect::refused(OrderRefusal::Already);
        }
        if overrides.messages.len() >= MAX_HELD_MESSAGES {
            return Effect::refused(OrderRefusal::TooMany);
        }
        overrides.change(OverrideChange::Hold(hold));
        self.messages[message].set(MessageFlag::Held, true);
        self.keep_back(now, message)
    }

    /// Moves what no agent has of a message to the vertices that are held back.
    pub(crate) fn keep_back(&mut self, now: Timestamp, message: MessageId) -> Effect {
        let mut effect = Effect { messages: 1, ..Effect::default() };
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            let recipients = self.vertices[vertex].pending();
            if self.vertices[vertex].state == VertexState::Fed {
                effect.busy += recipients;
                continue;
            }
            effect.recipients += recipients;
            self.set_state(now, vertex, VertexState::Held);
        }
        effect
    }

    pub(crate) fn release_message(&mut self, cx: &mut Context, message: MessageId) -> Effect {
        self.messages[message].set(MessageFlag::Held, false);
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            if self.vertices[vertex].state == VertexState::Held {
                self.vertices[vertex].after_job = AfterJob::OneMoreTry;
            }
        }
        self.let_go(cx, message)
    }

    /// Makes what is held back of a message due, unless another reason keeps it.
    pub(crate) fn let_go(&mut self, cx: &mut Context, message: MessageId) -> Effect {
        let mut effect = Effect { messages: 1, ..Effect::default() };
        if self.messages[message].is_kept() {
            return effect;
        }
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            if self.vertices[vertex].state == VertexState::Held {
                effect.recipients += self.vertices[vertex].pending();
                self.let_vertex_go(cx, vertex);
            }
        }
        effect
    }

    fn let_vertex_go(&mut self, cx: &mut Context, vertex: VertexId) {
        let thread = self.vertices[vertex].thread;
        match self.arrivals_wait(thread) {
            true => self.wait_for_destination(cx, vertex),
            false => self.set_state(cx.now, vertex, VertexState::Due),
        }
    }

    /// Updates the hold of a thread. Returns true if it has changed.
    pub(crate) fn update_hold(&mut self, overrides: &Overrides, thread: ThreadId) -> bool {
        let thread_ref = &self.threads[thread];
        let ring = &self.rings[thread_ref.ring];
        let held = overrides.hold_of(&thread_ref.destination, ring).is_some();
        self.threads.set_held(thread, held)
    }

    pub(crate) fn message_of(&self, id: SpoolId) -> Option<MessageId> {
        let message = self.messages.find(id.number)?;
        (self.messages[message].modified == id.modified).then_some(message)
    }

    pub(crate) fn change_priority(&mut self, cx: &mut Context, message: MessageId, priority: u8) {
        let was_kept = self.messages[message].is_kept();
        if was_kept {
            self.messages[message].priority = priority;
            self.let_go(cx, message);
            return;
        }
        // Its jobs have the former place in line until all of their entries have left.
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            self.dequeue_vertex(vertex);
        }
        self.messages[message].priority = priority;
        self.enqueue_message(cx.now, message);
        if self.messages[message].is_kept() {
            self.keep_back(cx.now, message);
        }
    }
}
