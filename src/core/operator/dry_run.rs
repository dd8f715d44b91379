//! Dry run: what an order would change.

use crate::operator::order::Effect;
use crate::operator::overrides::Scope;
use crate::query::view::View;
use crate::queue::{MessageFlag, VertexState};
use zsched_spool::SpoolId;

/// A change of holds that is to be tried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// A hold.
    Hold(Scope),
    /// The release of a hold.
    Release(Scope),
    /// The release of all holds of destinations and rings.
    ReleaseAll,
}

impl<'s> View<'s> {
    /// Returns what a hold of a message would change.
    pub fn dry_run_hold(self, id: SpoolId) -> Effect {
        let Some(message) =
            self.core.queue.message_of(id).map(|message| self.core.queue.message(message))
        else {
            return Effect::default();
        };
        let mut effect = Effect::default();
        if message.is(MessageFlag::Held) {
            return effect;
        }
        effect.messages = 1;
        for vertex in message.vertices.iter(self.core.queue.vertices()) {
            let vertex = self.core.queue.vertex(vertex);
            let sum = match vertex.state {
                VertexState::Fed => &mut effect.busy,
                _ => &mut effect.recipients,
            };
            *sum += vertex.pending();
        }
        effect
    }

    /// Returns what a release of a message would change.
    pub fn dry_run_release(self, id: SpoolId) -> Effect {
        let message =
            self.core.queue.message_of(id).map(|message| self.core.queue.message(message));
        let Some(message) = message.filter(|message| message.is(MessageFlag::Held)) else {
            return Effect::default();
        };
        let vertices = message
            .vertices
            .iter(self.core.queue.vertices())
            .map(|vertex| self.core.queue.vertex(vertex));
        let held = vertices.filter(|vertex| vertex.state == VertexState::Held);
        let recipients = held.map(|vertex| vertex.pending()).sum();
        Effect { messages: 1, recipients, ..Effect::default() }
    }

    /// Returns what a change would do to its message, or to the next `count` threads.
    ///
    /// `next` is the slot at which to continue, `None` at the end.
    pub fn dry_run_reapply(
        self,
        change: &HoldChange,
        next: &mut Option<usize>,
        count: usize,
    ) -> Effect {
        if let HoldChange::Hold(Scope::Message(id)) = change {
            *next = None;
            return self.dry_run_hold(*id);
        }
        if let HoldChange::Release(Scope::Message(id)) = change {
            *next = None;
            return self.dry_run_release(*id);
        }
        let mut effect = Effect::default();
        let Some(start) = *next else {
            return effect;
        };
        let end = start.saturating_add(count).min(self.core.queue.threads().pool().slots());
        *next = (end < self.core.queue.threads().pool().slots()).then_some(end);
        for thread in (start..end).filter_map(|slot| self.core.queue.threads().pool().at(slot)) {
            let thread = self.core.queue.thread(thread);
            let ring = self.core.queue.ring(thread.ring);
            let is_held = |scope: &Scope| scope.contains(&thread.destination, ring);
            let others = |gone: &Scope| {
                let holds = self.core.overrides.holds.iter().map(|hold| &hold.scope);
                holds.filter(|scope| *scope != gone).any(is_held)
            };
            let changes = match change {
                HoldChange::Hold(scope) => !thread.held && is_held(scope),
                HoldChange::Release(scope) => thread.held && is_held(scope) && !others(scope),
                HoldChange::ReleaseAll => thread.held,
            };
            if changes {
                effect.threads += 1;
                effect.recipients += thread.recipients;
                let fed = thread.fed.iter(self.core.queue.vertices());
                effect.busy +=
                    fed.map(|vertex| self.core.queue.vertex(vertex).pending()).sum::<u32>();
            }
        }
        effect
    }
}
