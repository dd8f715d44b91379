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
use crate::operator::overrides::{Author, Hold, MAX_OVERRIDES, OverrideChange, Overrides, Scope};
use crate::queue::{MessageFlag, MessageId, Queue};
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

impl Overrides {
    /// Applies the former scheduler's overrides to a message that arrives.
    ///
    /// An override for a missing message stays until another message gets its number: the control
    /// file may be unreadable for a while.
    pub(crate) fn restore_overrides(&mut self, queue: &mut Queue, message: MessageId) {
        if self.is_empty() {
            return;
        }
        let id = queue.message(message).spool_id();
        let is_held = self.hold_of_message(id).is_some();
        queue.message_mut(message).set(MessageFlag::Held, is_held);
        let priority = self.priority_of(id);
        if let Some(priority) = priority {
            queue.message_mut(message).priority = priority;
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
        let id = queue.message(message).spool_id();
        let is_known = self.hold_of_message(id).is_some()
            || self.removal_of(id).is_some()
            || self.priority_of(id).is_some();
        if is_known {
            self.drop_message(id.number);
        }
    }
}
