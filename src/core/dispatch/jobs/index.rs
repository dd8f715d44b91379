//! Due entries in order, and which of them are visible.
//!
//! Visible is the first entry of each class, in each thread that may be served now.
//!
//! A host with a hundred thousand jobs becomes ready and busy again with every delivery. That
//! changes as many seats as the thread has classes, not jobs.

use crate::dispatch::jobs::Entry;
use crate::dispatch::jobs::class::Class;
use crate::dispatch::jobs::key::Key;
use crate::dispatch::jobs::queue::{KeyedEntry, Queue};
use crate::pool::IdMap;
use crate::queue::{ThreadId, VertexId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Number of classes that most threads do not exceed.
const INLINE_CLASSES: usize = 2;

/// Place of a thread that may be served, for one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VisibleEntry {
    /// The first job of the class that has an entry in the thread.
    pub key: Key,
    /// When it was served last, in turns.
    ///
    /// Threads with the same job take turns.
    pub turn: u64,
    pub thread: ThreadId,
}

/// The entries of a ring that are due.
#[derive(Default, Serialize, Deserialize)]
pub struct Index {
    /// Threads that have entries, or may be served.
    lines: IdMap<ThreadId, ThreadQueues>,
    visible: BTreeMap<Class, BTreeSet<VisibleEntry>>,
    next_turn: u64,
}

/// Due entries of a thread.
#[derive(Default, Serialize, Deserialize)]
struct ThreadQueues {
    /// If it may be served: when it was served last.
    turn: Option<u64>,
    /// Sorted by class. Each has a seat while the thread is ready.
    queues: SmallVec<[ClassQueue; INLINE_CLASSES]>,
}

/// Due entries of a thread, from jobs of one class.
#[derive(Serialize, Deserialize)]
struct ClassQueue {
    class: Class,
    /// Turn of its seat, if it has one.
    turn: u64,
    entries: Queue,
}

impl Index {
    pub fn insert(&mut self, thread: ThreadId, class: Class, key: Key, vertex: VertexId) {
        let line = self.lines.entry(thread).or_default();
        match line.place(class) {
            Ok(place) => {
                let queue = &mut line.queues[place];
                // The entry becomes visible if it precedes the visible one.
                let is_first = queue.entries.would_be_first(&key);
                if let Some(turn) = line.turn.filter(|_| is_first) {
                    let visible = self.visible.entry(class).or_default();
                    visible.remove(&queue.seat(thread));
                    visible.insert(VisibleEntry { key: key.clone(), turn, thread });
                    queue.turn = turn;
                }
                queue.entries.insert(KeyedEntry::new(key, vertex));
            }
            Err(place) => {
                let turn = line.turn.unwrap_or_default();
                let queue =
                    ClassQueue { class, turn, entries: Queue::One(KeyedEntry::new(key, vertex)) };
                if line.turn.is_some() {
                    self.visible.entry(class).or_default().insert(queue.seat(thread));
                }
                line.queues.insert(place, queue);
            }
        }
    }

    pub fn remove(&mut self, thread: ThreadId, class: Class, key: &Key, vertex: VertexId) {
        let Some(line) = self.lines.get_mut(&thread) else {
            return debug_assert!(false, "an entry is taken out of a thread without any");
        };
        let Ok(place) = line.place(class) else {
            return debug_assert!(false, "an entry is taken out of a class without any");
        };
        let queue = &mut line.queues[place];
        let is_first = queue.entries.first().is_of(key);
        let shown = line.turn.filter(|_| is_first);
        if shown.is_some() {
            remove_visible(&mut self.visible, class, &queue.seat(thread));
        }
        let is_over = queue.entries.remove(&KeyedEntry::new(key.clone(), vertex));
        if is_over {
            line.queues.remove(place);
            if line.is_over() {
                self.lines.remove(&thread);
            }
        } else if let Some(turn) = shown {
            queue.turn = turn;
            self.visible.entry(class).or_default().insert(queue.seat(thread));
        }
    }

    /// Records that a thread may be served, or may not.
    pub fn set_ready(&mut self, thread: ThreadId, is_ready: bool) {
        if is_ready {
            let line = self.lines.entry(thread).or_default();
            if line.turn.is_none() {
                line.turn = Some(self.next_turn);
                for queue in &mut line.queues {
                    queue.turn = self.next_turn;
                    self.visible.entry(queue.class).or_default().insert(queue.seat(thread));
                }
                self.next_turn += 1;
            }
        } else if let Some(line) = self.lines.get_mut(&thread)
            && line.turn.take().is_some()
        {
            for queue in &line.queues {
                remove_visible(&mut self.visible, queue.class, &queue.seat(thread));
            }
            if line.is_over() {
                self.lines.remove(&thread);
            }
        }
    }

    /// Drops all entries of a thread.
    pub fn forget(&mut self, thread: ThreadId) {
        self.set_ready(thread, false);
        self.lines.remove(&thread);
    }

    /// Records that a thread has had its turn.
    pub fn served(&mut self, thread: ThreadId) {
        if let Some(turn) = self.lines.get_mut(&thread).and_then(|line| line.turn.as_mut()) {
            *turn = self.next_turn;
            self.next_turn += 1;
        }
    }

    pub fn is_ready(&self, thread: ThreadId) -> bool {
        self.lines.get(&thread).is_some_and(|line| line.turn.is_some())
    }

    /// Returns the first job that may be served, and its class.
    pub fn first(&self) -> Option<(Class, &Key)> {
        let firsts = self
            .visible
            .iter()
            .filter_map(|(class, visible)| Some((*class, &visible.first()?.key)));
        firsts.min_by_key(|(_, key)| *key)
    }

    /// Returns the classes of candidates, ascending, with their seats.
    ///
    /// Jobs that have preempted another one are not among them.
    pub fn classes(&self) -> impl Iterator<Item = (Class, &BTreeSet<VisibleEntry>)> {
        self.visible.range(Class::SMALLEST..).map(|(class, visible)| (*class, visible))
    }

    /// Returns the entry of a job whose turn it is.
    ///
    /// Only entries in threads that may be served count. The job must be the first of its class.
    pub fn in_turn(&self, class: Class, key: &Key) -> Option<Entry> {
        let thread = self.visible.get(&class)?.first().filter(|seat| seat.key == *key)?.thread;
        let line = self.lines.get(&thread)?;
        let first = line.queues[line.place(class).ok()?].entries.first();
        first.is_of(key).then_some((thread, first.vertex))
    }

    /// Returns all due entries, unordered.
    pub fn due(&self) -> impl Iterator<Item = (ThreadId, Class, &KeyedEntry)> {
        self.lines.iter().flat_map(|(thread, line)| {
            let of_class = |queue: &'_ ClassQueue| (*thread, queue.class);
            line.queues.iter().flat_map(move |queue| {
                let (thread, class) = of_class(queue);
                queue.entries.iter().map(move |entry| (thread, class, entry))
            })
        })
    }

    /// Returns all threads that may be served.
    pub fn ready(&self) -> Vec<ThreadId> {
        let ready = self.lines.iter().filter(|(_, line)| line.turn.is_some());
        let mut ready: Vec<ThreadId> = ready.map(|(thread, _)| *thread).collect();
        ready.sort();
        ready
    }

    /// Panics if the seats do not match the entries.
    pub fn check(&self) {
        let mut shown = 0;
        for (thread, line) in &self.lines {
            assert!(!line.is_over(), "nothing is due in {thread:?}, and it is not ready");
            let classes = line.queues.iter().map(|queue| queue.class);
            assert!(classes.is_sorted_by(|one, other| one < other), "classes of {thread:?}");
            assert!(line.queues.iter().all(|queue| queue.entries.len() > 0), "an empty queue");
            if line.turn.is_some() {
                for queue in &line.queues {
                    let is_seated = self.visible[&queue.class].contains(&queue.seat(*thread));
                    assert!(is_seated, "no seat for {thread:?} in {:?}", queue.class);
                }
                shown += line.queues.len();
            }
        }
        let visible: usize = self.visible.values().map(BTreeSet::len).sum();
        assert_eq!(visible, shown, "seats");
        assert!(self.visible.values().all(|visible| !visible.is_empty()), "a class without seats");
    }
}

impl ThreadQueues {
    /// Index of the queue of a class, or where to insert it.
    fn place(&self, class: Class) -> Result<usize, usize> {
        self.queues.binary_search_by_key(&class, |queue| queue.class)
    }

    /// Returns true if it has no entries and may not be served.
    fn is_over(&self) -> bool {
        self.queues.is_empty() && self.turn.is_none()
    }
}

impl ClassQueue {
    fn seat(&self, thread: ThreadId) -> VisibleEntry {
        VisibleEntry { key: self.entries.first().key(), turn: self.turn, thread }
    }
}

fn remove_visible(
    visible: &mut BTreeMap<Class, BTreeSet<VisibleEntry>>,
    class: Class,
    seat: &VisibleEntry,
) {
    if let Some(of_class) = visible.get_mut(&class) {
        let was_there = of_class.remove(seat);
        debug_assert!(was_there, "a thread has another seat");
        if of_class.is_empty() {
            visible.remove(&class);
        }
    }
}
