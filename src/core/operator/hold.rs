//! Holds: mail that waits until an operator releases it.
//!
//! A thread that is held gets no agent, and agents at work on it get no more of its jobs. Otherwise
//! it goes on as usual: what waits becomes due, and what is too old expires. The vertices of a
//! message that is held are in the `held_back` lists of their threads. They do not expire, since
//! the message is kept for inspection. Jobs that agents have when the order comes may be finished.
//!
//! A message that is released is tried at least once, whatever its age.

use crate::Scheduler;
use crate::operator::order::{Effect, OrderRefusal};
use crate::operator::overrides::{
    Author, Hold, MAX_HELD_MESSAGES, MAX_OVERRIDES, OverrideChange, Scope,
};
use crate::queue::{AfterJob, MessageId, Queue, ThreadId, VertexId, VertexState};
use zsched_spool::SpoolId;

impl Scheduler {
    pub(crate) fn hold(&mut self, scope: Scope, author: Author, reason: String) -> Effect {
        if let Scope::Message(id) = scope {
            return self.hold_message(id, Hold { scope, author, reason });
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
            match self.hold_message(*id, hold) {
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
            self.store_overrides();
        }
        all
    }

    /// Releases those of the messages that are held.
    pub(crate) fn release_messages(&mut self, messages: &[SpoolId]) -> Effect {
        let mut all = Effect::default();
        for id in messages {
            if self.overrides.hold_of_message(*id).is_some() {
                self.overrides.change(OverrideChange::Released(Scope::Message(*id)));
                let message = self.queue.message_of(*id);
                all.add(&message.map_or(Effect::default(), |m| self.release_message(m)));
            }
        }
        all
    }

    fn hold_message(&mut self, id: SpoolId, hold: Hold) -> Effect {
        let Some(message) = self.queue.message_of(id) else {
            return Effect::refused(OrderRefusal::NotFound);
        };
        if self.queue.messages[message].held {
            return Effect::refused(OrderRefusal::Already);
        }
        if self.overrides.messages.len() >= MAX_HELD_MESSAGES {
            return Effect::refused(OrderRefusal::TooMany);
        }
        self.overrides.change(OverrideChange::Hold(hold));
        self.queue.messages[message].held = true;
        let mut effect = Effect { messages: 1, ..Effect::default() };
        for vertex in self.queue.messages[message].vertices.to_vec(&self.queue.vertices) {
            let recipients = self.queue.vertices[vertex].pending;
            if self.queue.vertices[vertex].state == VertexState::Fed {
                effect.busy += recipients;
                continue;
            }
            effect.recipients += recipients;
            self.set_state(vertex, VertexState::Held);
        }
        effect
    }

    pub(crate) fn release(&mut self, scope: &Scope) -> Effect {
        if !self.overrides.is_held(scope) {
            return Effect::refused(OrderRefusal::NotFound);
        }
        if let Scope::Message(id) = scope {
            return self.release_messages(&[*id]);
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
                effect.add(&self.release_message(message));
            }
        }
        effect
    }

    fn release_message(&mut self, message: MessageId) -> Effect {
        self.queue.messages[message].held = false;
        let mut effect = Effect { messages: 1, ..Effect::default() };
        for vertex in self.queue.messages[message].vertices.to_vec(&self.queue.vertices) {
            if self.queue.vertices[vertex].state == VertexState::Held {
                effect.recipients += self.queue.vertices[vertex].pending;
                self.release_vertex(vertex);
            }
        }
        effect
    }

    fn release_vertex(&mut self, vertex: VertexId) {
        let thread = self.queue.vertices[vertex].thread;
        self.queue.vertices[vertex].after_job = AfterJob::OneMoreTry;
        match self.dispatch.arrivals_wait(&self.queue, thread) {
            true => self.wait_for_destination(vertex),
            false => self.set_state(vertex, VertexState::Due),
        }
    }

    /// Updates the hold of a thread. Returns true if it has changed.
    pub(crate) fn update_hold(&mut self, thread: ThreadId) -> bool {
        let thread_ref = &self.queue.threads[thread];
        let ring = &self.dispatch.rings[thread_ref.ring];
        let held = self.overrides.hold_of(&thread_ref.destination, ring).is_some();
        self.queue.threads.set_held(thread, held)
    }

    /// Applies the former scheduler's overrides to a message that arrives.
    ///
    /// An override for a missing message stays until another message gets its number: the control
    /// file may be unreadable for a while.
    pub(crate) fn restore_overrides(&mut self, message: MessageId) {
        let id = self.queue.messages[message].spool_id();
        let is_held = self.overrides.hold_of_message(id).is_some();
        self.queue.messages[message].held = is_held;
        let is_known = is_held || self.overrides.removal_of(id).is_some();
        if !is_known {
            self.overrides.drop_message(id.number);
        }
    }

    /// Drops the overrides of a message that leaves.
    pub(crate) fn drop_overrides(&mut self, message: MessageId) {
        let id = self.queue.messages[message].spool_id();
        let is_known =
            self.overrides.hold_of_message(id).is_some() || self.overrides.removal_of(id).is_some();
        if is_known {
            self.overrides.drop_message(id.number);
        }
    }
}

impl Queue {
    pub(crate) fn message_of(&self, id: SpoolId) -> Option<MessageId> {
        let message = self.messages.find(id.number)?;
        (self.messages[message].modified == id.modified).then_some(message)
    }
}
