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
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// Threads that may be served.
    ready: HashMap<ThreadId, Ready>,
    seats: BTreeMap<Class, BTreeSet<Seat>>,
    next_turn: u64,
}

/// A thread that may be served.
#[derive(Default, Serialize, Deserialize)]
struct Ready {
    /// When it was served last.
    turn: u64,
    /// Its seats, in the order of their classes: each with the key and the turn that it has.
    seats: Vec<(Class, Key, u64)>,
}

impl Index {
    pub fn insert(&mut self, due: Due) {
        let thread = due.thread;
        let ready = self.ready.get(&thread);
        // Nothing can be seen of it, or something that comes before it.
        let is_first = ready.is_some_and(|ready| {
            ready.seat(due.class).is_none_or(|(_, first, _)| due.key < *first)
        });
        let shown = is_first.then(|| (due.class, due.key.clone()));
        self.due.insert(due);
        if let Some((class, key)) = shown {
            self.show(thread, class, Some(key));
        }
    }

    pub fn remove(&mut self, due: &Due) {
        let was_due = self.due.remove(due);
        debug_assert!(was_due, "an entry is taken out that was not due");
        let ready = self.ready.get(&due.thread);
        let seat = ready.and_then(|ready| ready.seat(due.class));
        if seat.is_some_and(|(_, first, _)| *first == due.key) {
            let next = self.first_due(due.thread, due.class);
            self.show(due.thread, due.class, next);
        }
    }

    /// Says whether a thread may be served.
    pub fn set_ready(&mut self, thread: ThreadId, is_ready: bool) {
        if !is_ready {
            let former = self.ready.remove(&thread).unwrap_or_default();
            for (class, key, turn) in former.seats {
                self.take_seat(class, Seat { key, turn, thread });
            }
        } else if !self.is_ready(thread) {
            let turn = self.next_turn;
            self.next_turn += 1;
            self.ready.insert(thread, Ready { turn, seats: Vec::new() });
            let mut class = Class::PREEMPTING;
            while let Some(due) = self.due.range(Due::first(thread, class)..).next()
                && due.thread == thread
            {
                let (found, key) = (due.class, due.key.clone());
                self.show(thread, found, Some(key));
                class = found.next();
            }
        }
    }

    /// A thread has had its turn.
    pub fn served(&mut self, thread: ThreadId) {
        if let Some(ready) = self.ready.get_mut(&thread) {
            ready.turn = self.next_turn;
            self.next_turn += 1;
        }
    }

    pub fn is_ready(&self, thread: ThreadId) -> bool {
        self.ready.contains_key(&thread)
    }

    fn first_due(&self, thread: ThreadId, class: Class) -> Option<Key> {
        let due = self.due.range(Due::first(thread, class)..).next()?;
        ((due.thread, due.class) == (thread, class)).then(|| due.key.clone())
    }

    /// Lets the seat of a thread that may be served show the first job of a class; or there is none.
    fn show(&mut self, thread: ThreadId, class: Class, first: Option<Key>) {
        let Some(ready) = self.ready.get_mut(&thread) else {
            return;
        };
        let turn = ready.turn;
        let place = ready.seats.binary_search_by_key(&class, |(class, _, _)| *class);
        let former = match (place, &first) {
            (Ok(place), Some(key)) => {
                Some(std::mem::replace(&mut ready.seats[place], (class, key.clone(), turn)))
            }
            (Ok(place), None) => Some(ready.seats.remove(place)),
            (Err(place), Some(key)) => {
                ready.seats.insert(place, (class, key.clone(), turn));
                None
            }
            (Err(_), None) => None,
        };
        if let Some((class, key, turn)) = former {
            self.take_seat(class, Seat { key, turn, thread });
        }
        if let Some(key) = first {
            self.seats.entry(class).or_default().insert(Seat { key, turn, thread });
        }
    }

    fn take_seat(&mut self, class: Class, seat: Seat) {
        if let Some(seats) = self.seats.get_mut(&class) {
            seats.remove(&seat);
            if seats.is_empty() {
                self.seats.remove(&class);
            }
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
    pub fn ready(&self) -> Vec<ThreadId> {
        let mut ready: Vec<ThreadId> = self.ready.keys().copied().collect();
        ready.sort();
        ready
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
        let of_threads: usize = self.ready.values().map(|ready| ready.seats.len()).sum();
        assert_eq!(of_threads, firsts.len(), "seats of threads");
        for ((thread, class), key) in firsts {
            let seat = self.ready[&thread].seat(class);
            let (_, shown, turn) = seat.expect("whatever is due in a thread is seen");
            assert_eq!(shown, key, "what is seen of {thread:?} in {class:?}");
            let seat = Seat { key: key.clone(), turn: *turn, thread };
            assert!(self.seats[&class].contains(&seat), "no seat for {thread:?}");
        }
    }
}

impl Ready {
    fn seat(&self, class: Class) -> Option<&(Class, Key, u64)> {
        let place = self.seats.binary_search_by_key(&class, |(class, _, _)| *class);
        place.ok().map(|place| &self.seats[place])
    }
}

impl Due {
    /// Before all entries of a thread and class.
    fn first(thread: ThreadId, class: Class) -> Due {
        Due { thread, class, key: Key::FIRST, vertex: VertexId::FIRST }
    }
}
