//! The event queue: the earliest event first; among simultaneous ones, the one planned first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use zsched_format::time::Timestamp;

/// Future events, the earliest first.
pub(crate) struct EventQueue<T> {
    heap: BinaryHeap<Entry<T>>,
    planned: u64,
}

struct Entry<T> {
    /// Time, then order of planning. No two are equal, so a run is deterministic.
    rank: Reverse<(Timestamp, u64)>,
    what: T,
}

impl<T> EventQueue<T> {
    /// Creates an empty queue.
    pub(crate) fn new() -> EventQueue<T> {
        EventQueue { heap: BinaryHeap::new(), planned: 0 }
    }

    /// Plans an event.
    pub(crate) fn add(&mut self, time: Timestamp, what: T) {
        self.heap.push(Entry { rank: Reverse((time, self.planned)), what });
        self.planned += 1;
    }

    /// Time of the next event.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.heap.peek().map(|entry| entry.rank.0.0)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.heap.pop().map(|entry| entry.what)
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Entry<T> {}

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
