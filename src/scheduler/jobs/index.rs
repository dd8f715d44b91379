//! Which entries are due, in order; and what can be seen of them from outside: of each thread that may
//! be served now, the first entry of each class.
//!
//! A host with a hundred thousand jobs becomes ready and busy again with every delivery. That changes
//! as many places here as it has classes, not jobs.

use super::class::Class;
use super::key::Key;
use crate::scheduler::thread::ThreadId;
use crate::scheduler::vertex::VertexId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An entry that is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Due {
    pub thread: ThreadId,
    pub class: Class,
    /// That of its job.
    pub key: Key,
    pub vertex: VertexId,
}

/// A thread's place among those that may be served, for one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seat {
    /// The first job of the class that has an entry in the thread.
    pub key: Key,
    /// When it was served last, in turns: threads with the same job take turns.
    pub turn: u64,
    pub thread: ThreadId,
}

/// The entries of a ring that are due.
#[derive(Default, Serialize, Deserialize)]
pub struct Index {
    due: BTreeSet<Due>,
    /// Threads that may be served, and when they were served last.
    turns: BTreeMap<ThreadId, u64>,
    seats: BTreeMap<Class, BTreeSet<Seat>>,
    /// The seat of each thread and class.
    seat_of: BTreeMap<(ThreadId, Class), (Key, u64)>,
    next_turn: u64,
}

impl Index {
    pub fn insert(&mut self, due: Due) {
        let (thread, class) = (due.thread, due.class);
        let is_behind = self.seat_key(thread, class).is_some_and(|first| *first <= due.key);
        self.due.insert(due);
        if !is_behind && self.is_ready(thread) {
            self.refresh(thread, class);
        }
    }

    pub fn remove(&mut self, due: &Due) {
        let was_due = self.due.remove(due);
        debug_assert!(was_due, "an entry is taken out that was not due");
        if self.seat_key(due.thread, due.class) == Some(&due.key) {
            self.refresh(due.thread, due.class);
        }
    }

    /// Says whether a thread may be served.
    pub fn set_ready(&mut self, thread: ThreadId, is_ready: bool) {
        if is_ready == self.is_ready(thread) {
            return;
        }
        if is_ready {
            self.turns.insert(thread, self.next_turn);
            self.next_turn += 1;
        } else {
            self.turns.remove(&thread);
        }
        let mut class = Class::PREEMPTING;
        while let Some(next) = self.next_class(thread, class, is_ready) {
            self.refresh(thread, next);
            class = next.next();
        }
    }

    /// The first class from this one on that a thread has an entry of; or a seat for.
    fn next_class(&self, thread: ThreadId, from: Class, of_entries: bool) -> Option<Class> {
        if of_entries {
            let due = self.due.range(Due::first(thread, from)..).next()?;
            return (due.thread == thread).then_some(due.class);
        }
        let ((of, class), _) = self.seat_of.range((thread, from)..).next()?;
        (*of == thread).then_some(*class)
    }

    /// A thread has had its turn.
    pub fn served(&mut self, thread: ThreadId) {
        if let Some(turn) = self.turns.get_mut(&thread) {
            *turn = self.next_turn;
            self.next_turn += 1;
        }
    }

    pub fn is_ready(&self, thread: ThreadId) -> bool {
        self.turns.contains_key(&thread)
    }

    /// The first job of a class in a thread, as it is shown.
    fn seat_key(&self, thread: ThreadId, class: Class) -> Option<&Key> {
        self.seat_of.get(&(thread, class)).map(|(key, _)| key)
    }

    /// Lets a seat show what the thread has.
    fn refresh(&mut self, thread: ThreadId, class: Class) {
        let first = || {
            let due = self.due.range(Due::first(thread, class)..).next()?;
            ((due.thread, due.class) == (thread, class)).then(|| due.key.clone())
        };
        let turn = self.turns.get(&thread).copied();
        let wanted = turn.and_then(|turn| Some((first()?, turn)));
        let seat = |(key, turn): (Key, u64)| Seat { key, turn, thread };
        let former = match &wanted {
            Some(wanted) => self.seat_of.insert((thread, class), wanted.clone()),
            None => self.seat_of.remove(&(thread, class)),
        };
        if former == wanted {
            return;
        }
        let seats = self.seats.entry(class).or_default();
        if let Some(former) = former {
            seats.remove(&seat(former));
        }
        if let Some(wanted) = wanted {
            seats.insert(seat(wanted));
        }
        if seats.is_empty() {
            self.seats.remove(&class);
        }
    }

    /// The first job that may be served, and its class.
    pub fn first(&self) -> Option<(Class, &Key)> {
        let firsts =
            self.seats.iter().filter_map(|(class, seats)| Some((*class, &seats.first()?.key)));
        firsts.min_by_key(|(_, key)| *key)
    }

    /// The classes of jobs that have not preempted any, in ascending order, each with what can be seen
    /// of it.
    pub fn classes(&self) -> impl Iterator<Item = (Class, &BTreeSet<Seat>)> {
        self.seats.range(Class::SMALLEST..).map(|(class, seats)| (*class, seats))
    }

    /// The entry of a job whose turn it is: of those in threads that may be served. The job must be the
    /// first of its class.
    pub fn in_turn(&self, class: Class, key: &Key) -> Option<(ThreadId, VertexId)> {
        let thread = self.seats.get(&class)?.first().filter(|seat| seat.key == *key)?.thread;
        let from = Due { thread, class, key: key.clone(), vertex: VertexId::FIRST };
        let due = self.due.range(from..).next()?;
        (due.thread == thread && due.key == *key).then_some((thread, due.vertex))
    }

    /// All entries that are due.
    pub fn due(&self) -> &BTreeSet<Due> {
        &self.due
    }

    /// All threads that may be served.
    pub fn ready(&self) -> impl Iterator<Item = ThreadId> {
        self.turns.keys().copied()
    }

    /// Panics if what can be seen is not what is there.
    pub fn check(&self) {
        let mut firsts: BTreeMap<(ThreadId, Class), &Key> = BTreeMap::new();
        for due in &self.due {
            if self.is_ready(due.thread) {
                firsts.entry((due.thread, due.class)).or_insert(&due.key);
            }
        }
        let seats: usize = self.seats.values().map(BTreeSet::len).sum();
        assert_eq!(seats, firsts.len(), "seats");
        assert_eq!(self.seat_of.len(), firsts.len(), "seats of threads");
        for ((thread, class), key) in firsts {
            let (shown, turn) = &self.seat_of[&(thread, class)];
            assert_eq!(shown, key, "what is seen of {thread:?} in {class:?}");
            let seat = Seat { key: key.clone(), turn: *turn, thread };
            assert!(self.seats[&class].contains(&seat), "no seat for {thread:?}");
        }
    }
}

impl Due {
    /// Before all entries of a thread and class.
    fn first(thread: ThreadId, class: Class) -> Due {
        Due { thread, class, key: Key::FIRST, vertex: VertexId::FIRST }
    }
}
