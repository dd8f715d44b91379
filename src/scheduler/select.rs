//! Finding out which mail an operator means: some at a time, while the queue goes on changing.

use super::Scheduler;
use super::order::Target;
use super::standing::Destinations;
use super::vertex::Place;
use crate::spool::{SpoolId, SpoolName};
use crate::time::Timestamp;

/// Which mail is meant: what fits all that is given.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    /// Where it goes.
    pub destinations: Option<Destinations>,
    /// The message with this number.
    pub number: Option<u64>,
    /// Its message file was modified before this.
    pub older_than: Option<Timestamp>,
}

/// Some of what is meant.
#[derive(Debug)]
pub struct Selected {
    /// The message.
    pub id: SpoolId,
    /// The name of its files.
    pub name: SpoolName,
    /// Whose recipients.
    pub target: Target,
    /// How many.
    pub recipients: u32,
    /// An agent has them.
    pub is_busy: bool,
}

/// Where a search goes on: the number of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(Option<u64>);

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor(Some(0))
    }
}

impl Cursor {
    /// Whether everything was looked at.
    pub fn is_over(self) -> bool {
        self.0.is_none()
    }
}

impl Scheduler {
    /// Looks at the next `count` vertices, about, for such as are meant.
    pub fn select(&self, selector: &Selector, cursor: &mut Cursor, count: usize) -> Vec<Selected> {
        let mut selected = Vec::new();
        let mut left = count;
        while left > 0
            && let Some(number) = cursor.0
        {
            let wanted = selector.number.unwrap_or(number);
            let Some(message) = self.messages.at_or_after(wanted) else {
                cursor.0 = None;
                break;
            };
            let found = self.messages[message].name.number();
            if selector.number.is_some_and(|wanted| wanted != found) {
                cursor.0 = None;
                break;
            }
            left -= self.messages[message].vertices.len().clamp(1, left);
            self.select_of(selector, message, &mut selected);
            cursor.0 = found.checked_add(1).filter(|_| selector.number.is_none());
        }
        selected
    }

    fn select_of(
        &self,
        selector: &Selector,
        message: super::message::MessageId,
        selected: &mut Vec<Selected>,
    ) {
        let message = &self.messages[message];
        if message.removing || selector.older_than.is_some_and(|time| message.modified >= time) {
            return;
        }
        for vertex in message.vertices.iter(&self.vertices) {
            let vertex = &self.vertices[vertex];
            let destination = &self.threads[vertex.thread].destination;
            let is_meant = |wanted: &Destinations| wanted.matches(destination);
            if selector.destinations.as_ref().is_none_or(is_meant) {
                let number = message.name.number();
                selected.push(Selected {
                    id: message.spool_id(),
                    name: message.name.clone(),
                    target: Target { number, destination: Some(destination.clone()) },
                    recipients: vertex.pending,
                    is_busy: vertex.place == Place::Fed,
                });
            }
        }
    }
}
