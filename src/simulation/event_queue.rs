//! The event queue: the earliest event first; among simultaneous ones, the one planned first.

use std::collections::BTreeMap;
use zsched_format::time::Timestamp;

/// Future events, the earliest first.
pub(crate) struct EventQueue<T> {
    /// By time and order of planning. No two keys are equal, so a run is deterministic.
    events: BTreeMap<(Timestamp, u64), T>,
    planned: u64,
}

impl<T> EventQueue<T> {
    /// Creates an empty queue.
    pub(crate) fn new() -> EventQueue<T> {
        EventQueue { events: BTreeMap::new(), planned: 0 }
    }

    /// Plans an event.
    pub(crate) fn add(&mut self, time: Timestamp, what: T) {
        self.events.insert((time, self.planned), what);
        self.planned += 1;
    }

    /// Time of the next event.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.events.first_key_value().map(|((time, _), _)| *time)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.events.pop_first().map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_come_in_order_of_planning() {
        let at = Timestamp::from_seconds;
        let mut agenda = EventQueue::new();
        for (time, what) in [(2, 'c'), (1, 'a'), (2, 'd'), (1, 'b')] {
            agenda.add(at(time), what);
        }
        assert_eq!(agenda.next(), Some(at(1)));
        let order: String = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(order, "abcd");
    }
}
