//! Search for the mail that an operator selects.
//!
//! It proceeds in steps, while the queue changes.

use crate::operator::order::Target;
use crate::operator::overrides::DestinationPattern;
use crate::query::view::{QueuedVertex, View};
use crate::queue::{MessageFlag, MessageId, VertexId};
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

/// Conditions on mail, all of which must match.
#[derive(Clone, Debug, Default)]
pub struct MailFilter {
    /// Its destination.
    pub destinations: Option<DestinationPattern>,
    /// The number of its message.
    pub number: Option<u64>,
    /// Its message file was modified before this.
    pub older_than: Option<Timestamp>,
    /// Only messages that are held individually.
    pub held: bool,
    /// Only mail on hold: individually, or with its destination or ring.
    pub on_hold: bool,
}

impl MailFilter {
    pub(crate) fn means_whole_messages(&self) -> bool {
        self.destinations.as_ref().is_none_or(DestinationPattern::matches_all)
    }
}

/// A part of the mail that was found.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The message.
    pub id: SpoolId,
    /// The name of its files.
    pub name: SpoolName,
    /// The vertex, valid until something changes.
    ///
    /// `None` if no recipient of the message is in memory yet.
    pub vertex: Option<VertexId>,
    /// The recipients, as the target of an order.
    pub target: Target,
}

/// Position of a search.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Number of the present message, or the minimum for the next.
    number: Option<u64>,
    /// Vertices of the present message still to be examined, in reverse.
    ///
    /// There may be very many destinations.
    rest: Vec<VertexId>,
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor { number: Some(0), rest: Vec::new() }
    }
}

impl Cursor {
    /// Returns true if everything was examined.
    pub fn is_over(&self) -> bool {
        self.number.is_none()
    }
}

impl<'s> View<'s> {
    /// Examines the next `count` vertices and returns those that match.
    pub fn select(self, selector: &MailFilter, cursor: &mut Cursor, count: usize) -> Vec<Selected> {
        let mut selected = Vec::new();
        let mut left = count;
        while left > 0
            && let Some(number) = cursor.number
        {
            let Some(message) = self.next_message(selector, number) else {
                *cursor = Cursor { number: None, rest: Vec::new() };
                break;
            };
            let found = self.core.queue.message(message).number();
            if cursor.rest.is_empty() || found != number {
                cursor.rest = self.core.queue.matching_vertices(selector, message);
                selected.extend(self.core.queue.unread_message(selector, message));
            }
            cursor.number = Some(found);
            let behind = cursor.rest.len().saturating_sub(left);
            let now = cursor.rest.split_off(behind);
            left -= now.len().max(1);
            // Some may have been removed since they were found.
            let there = now.into_iter().rev().filter_map(|id| self.vertex_in_message(found, id));
            selected.extend(there.filter_map(|queued| selector.selected(&queued)));
            if cursor.rest.is_empty() {
                cursor.number = found.checked_add(1).filter(|_| selector.number.is_none());
            }
        }
        selected
    }

    /// Returns true if a message is queued and not being removed.
    pub fn has_message(self, id: SpoolId) -> bool {
        self.core
            .queue
            .message_of(id)
            .is_some_and(|message| !self.core.queue.message(message).is(MessageFlag::Removing))
    }

    /// The first message with this number or a higher one that may match.
    fn next_message(self, selector: &MailFilter, number: u64) -> Option<MessageId> {
        if let Some(wanted) = selector.number {
            return self.core.queue.messages().find(wanted).filter(|_| number <= wanted);
        }
        if selector.held {
            let mut held = self.core.overrides.messages.range(number..);
            return held.find_map(|(held, _)| self.core.queue.messages().find(*held));
        }
        self.core.queue.messages().at_or_after(number)
    }
}

impl MailFilter {
    /// A matching vertex.
    fn selected(&self, queued: &QueuedVertex<'_>) -> Option<Selected> {
        let matches = |wanted: &DestinationPattern| wanted.matches(&queued.thread.destination);
        let is_held = !self.on_hold || queued.is_on_hold();
        (is_held && self.destinations.as_ref().is_none_or(matches)).then(|| Selected {
            id: queued.message.spool_id(),
            name: queued.message.name(),
            vertex: Some(queued.id),
            target: queued.target(),
        })
    }
}
