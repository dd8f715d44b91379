//! Holds: mail that waits until an operator releases it.
//!
//! A thread that is held gets no agent, and agents at work on it get no more of its jobs. Otherwise
//! it goes on as usual: what waits becomes due, and what is too old expires. The vertices of a
//! message that is held are in the `held_back` lists of their threads. They do not expire, since
//! the message is kept for inspection. Jobs that agents have when the order comes may be finished.
//!
//! A message that is released is tried at least once, whatever its age.

use crate::Scheduler;
use crate::context::Context;
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::overrides::{
    Author, Hold, MAX_HELD_MESSAGES, MAX_OVERRIDES, OverrideChange, Overrides, Scope,
};
use crate::queue::{AfterJob, MessageId, Queue, ThreadId, VertexId, VertexState};
use zsched_format::time::Timestamp;
use zsched_spool::SpoolId;

impl Scheduler {
    pub(crate) fn hold(&mut self, scope: Scope, author: Author, reason: String) -> Effect {
        if let Scope::Message(id) = scope {
            return self.queue.hold_message(
                &mut self.overrides,
                self.cx.now,
                id,
                Hold { scope, author, reason },
            );
        }
        if self.overrides.is_held(&scope) {
            return Effect::refused(OrderRefusal::Already);
        }
        if self.overrides.holds.len() >= MAX_OVERRIDES {
            return Effect::refused(OrderRefusal::TooMany);
        }
        self.overrides.change(OverrideChange::Hold(Hold { scope, author, reason }));
        self.sweep_overrides();
        Effect::default()
    }

    /// Holds messages, as many as the limit of holds allows.
    ///
    /// Messages that are held already do not change. They may not be on disk yet, but this order is
    /// answered as stored, so they are stored with it.
    pub(crate) fn hold_messages(
        &mut self,
        messages: &[SpoolId],
        author: &Author,
        reason: &str,
    ) -> Effect {
        let mut all = Effect::default();
        let mut are_some_held = false;
        for id in messages {
            let scope = Scope::Message(*id);
            let hold = Hold { scope, author: author.clone(), reason: reason.to_string() };
            match self.queue.hold_message(&mut self.overrides, self.cx.now, *id, hold) {
                Effect { refusal: Some(OrderRefusal::TooMany), .. } => {
                    all.refusal = Some(OrderRefusal::TooMany);
                    break;
                }
                Effect { refusal: Some(OrderRefusal::Already), .. } => are_some_held = true,
                Effect { refusal: Some(_), .. } => {}
                effect => all.add(&effect),
            }
        }
        if are_some_held {
            self.orders.store_overrides(&mut self.overrides, &mut self.cx);
        }
        all
    }

    pub(crate) fn release(&mut self, scope: &Scope) -> Effect {
        if !self.overrides.is_held(scope) {
            return Effect::refused(OrderRefusal::NotFound);
        }
        if let Scope::Message(id) = scope {
            return self.queue.release_messages(&mut self.overrides, &mut self.cx, &[*id]);
        }
        self.overrides.change(OverrideChange::Released(scope.clone()));
        self.sweep_overrides();
        Effect::default()
    }

    pub(crate) fn release_all(&mut self) -> Effect {
        if self.overrides.holds.is_empty() && self.overrides.messages.is_empty() {
            return Effect::refused(OrderRefusal::NotFound);
        }
        let messages = std::mem::take(&mut self.overrides.messages);
        self.overrides.change(OverrideChange::Cleared {});
        self.sweep_overrides();
        let mut effect = Effect::default();
        for hold in messages.into_values() {
            if let Scope::Message(id) = hold.scope
                && let Some(message) = self.queue.message_of(id)
            {
                effect.add(&self.queue.release_message(&mut self.cx, message));
            }
        }
        effect
    }
}

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

    fn hold_message(
        &mut self,
        overrides: &mut Overrides,
        now: Timestamp,
        id: SpoolId,
        hold: Hold,
    ) -> Effect {
        let Some(message) = self.message_of(id) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        if self.messages[message].held {
            return Effect::refused(OrderRefusal::Already);
        }
        if overrides.messages.len() >= MAX_HELD_MESSAGES {
            return Effect::refused(OrderRefusal::TooMany);
        }
        overrides.change(OverrideChange::Hold(hold));
        self.messages[message].held = true;
        self.keep_back(now, message)
    }

    /// Moves what no agent has of a message to the vertices that are held back.
    pub(crate) fn keep_back(&mut self, now: Timestamp, message: MessageId) -> Effect {
        let mut effect = Effect { messages: 1, ..Effect::default() };
        for vertex in self.messages[message].vertices.to_vec(&self.vertices) {
            let recipients = self.vertices[vertex].pending;
            if self.vertices[vertex].state == VertexState::Fed {
                effect.busy += recipients;
                continue;
            }
            effect.recipients += recipients;
            self.set_state(now, vertex, VertexState::Held);
        }
        effect
    }

    fn release_message(&mut self, cx: &mut Context, message: MessageId) -> Effect {
        self.messages[message].held = false;
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
                effect.recipients += self.vertices[vertex].pending;
                self.let_vertex_go(cx, vertex);
                self.watch_expiry(cx.now, vertex);
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
}

impl Overrides {
    /// Applies the former scheduler's overrides to a message that arrives.
    ///
    /// An override for a missing message stays until another message gets its number: the control
    /// file may be unreadable for a while.
    pub(crate) fn restore_overrides(&mut self, queue: &mut Queue, message: MessageId) {
        if self.is_empty() {
            return;
        }
        let id = queue.messages[message].spool_id();
        let is_held = self.hold_of_message(id).is_some();
        queue.messages[message].held = is_held;
        let priority = self.priority_of(id);
        if let Some(priority) = priority {
            queue.messages[message].priority = priority;
        }
        let is_known = is_held || priority.is_some() || self.removal_of(id).is_some();
        if !is_known {
            self.drop_message(id.number);
        }
    }

    /// Drops the overrides of a message that leaves.
    pub(crate) fn drop_overrides(&mut self, queue: &Queue, message: MessageId) {
        if self.is_empty() {
            return;
        }
        let id = queue.messages[message].spool_id();
        let is_known = self.hold_of_message(id).is_some()
            || self.removal_of(id).is_some()
            || self.priority_of(id).is_some();
        if is_known {
            self.drop_message(id.number);
        }
    }
}
