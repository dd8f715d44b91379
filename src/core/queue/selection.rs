//! The mail that an order names.

use crate::operator::order::{Effect, Target};
use crate::operator::select::{MailFilter, Selected};
use crate::queue::{Destination, MessageFlag, MessageId, Queue, ThreadId, VertexId};
use std::collections::{BTreeMap, BTreeSet};

/// The threads whose recipients of a message an order covers; `None` is all.
type MessagePart = Option<BTreeSet<ThreadId>>;

impl Queue {
    /// Returns true if a message matches all conditions but the destination.
    fn matches_message(&self, selector: &MailFilter, message: MessageId) -> bool {
        let message = &self.messages[message];
        let is_young = selector.older_than.is_some_and(|time| message.modified >= time);
        !message.is(MessageFlag::Removing)
            && !is_young
            && (message.is(MessageFlag::Held) || !selector.held)
    }

    /// Vertices of a message to be examined, in reverse.
    pub(crate) fn matching_vertices(
        &self,
        selector: &MailFilter,
        message: MessageId,
    ) -> Vec<VertexId> {
        if !self.matches_message(selector, message) {
            return Vec::new();
        }
        let mut vertices = self.messages[message].vertices.to_vec(&self.vertices);
        vertices.reverse();
        vertices
    }

    /// A matching message of which no recipient is in memory.
    pub(crate) fn unread_message(
        &self,
        selector: &MailFilter,
        message: MessageId,
    ) -> Option<Selected> {
        let matches_message =
            selector.means_whole_messages() && self.matches_message(selector, message);
        let message = &self.messages[message];
        let is_held = message.is(MessageFlag::Held) || !selector.on_hold;
        if !matches_message
            || !is_held
            || !message.is(MessageFlag::Partial)
            || !message.vertices.is_empty()
        {
            return None;
        }
        let target = Target { number: message.number(), destination: None, is_whole: false };
        Some(Selected { id: message.spool_id(), name: message.name(), vertex: None, target })
    }

    /// Resolves targets to the vertices of each message.
    ///
    /// A vertex that is named twice counts once.
    pub(crate) fn resolve_targets(
        &self,
        targets: &[Target],
        effect: &mut Effect,
    ) -> Vec<(MessageId, Vec<VertexId>)> {
        let mut wanted: BTreeMap<u64, MessagePart> = BTreeMap::new();
        for target in targets {
            let part = wanted.entry(target.number).or_insert_with(|| Some(BTreeSet::new()));
            match (&target.destination, part) {
                (None, part) => *part = None,
                (Some(_), None) => {}
                (Some(destination), Some(threads)) => {
                    let (channel, host) = (destination.channel(), destination.host());
                    threads.extend(self.threads.find(channel, host));
                }
            }
        }
        let parts = wanted.iter().filter_map(|(number, part)| self.part_of(*number, part));
        let parts: Vec<(MessageId, Vec<VertexId>)> = parts.collect();
        effect.messages = parts.len() as u32;
        parts
    }

    /// Returns the vertices of a message that a target names, if any.
    ///
    /// Visits the message once, however many destinations are named: it may have a hundred
    /// thousand.
    fn part_of(&self, number: u64, part: &MessagePart) -> Option<(MessageId, Vec<VertexId>)> {
        let message = self.messages.find(number)?;
        if self.messages[message].is(MessageFlag::Removing) {
            return None;
        }
        let is_in_part = |vertex: &VertexId| {
            part.as_ref().is_none_or(|part| part.contains(&self.vertices[*vertex].thread))
        };
        let vertices = self.messages[message].vertices.iter(&self.vertices);
        let vertices: Vec<VertexId> = vertices.filter(is_in_part).collect();
        // All of a partial message may be unread.
        let is_unread = part.is_none() && self.messages[message].is(MessageFlag::Partial);
        (is_unread || !vertices.is_empty()).then_some((message, vertices))
    }

    pub(crate) fn has_agents_now(&self, thread: ThreadId) -> bool {
        self.threads.get(thread).is_some_and(|thread| !thread.agents.is_empty())
    }

    pub(crate) fn threads_of(&self, destinations: &[Destination]) -> Vec<ThreadId> {
        let find = |destination: &Destination| {
            self.threads.find(destination.channel(), destination.host())
        };
        destinations.iter().filter_map(find).collect()
    }
}
