//! Due entries in order, and which of them are visible.
//!
//! Visible is the first entry of each class, in each thread that may be served now.
//!
//! A host with a hundred thousand jobs becomes ready and busy again with every delivery. That
//! changes as many visible entries as the thread has classes, not jobs.

use crate::pool::IdMap;
use crate::queue::jobs::Entry;
use crate::queue::jobs::class::Class;
use crate::queue::jobs::key::Key;
use crate::queue::jobs::queue::{KeyedEntry, Queue};
use crate::queue::{ThreadId, VertexId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Number of classes that most threads do not exceed.
const INLINE_CLASSES: usize = 2;

/// The first entry of a class in a thread that may be served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VisibleEntry {
    /// The first job of the class that has an entry in the thread.
    pub key: Key,
    /// When the thread was last served: its place in the order of all that were served.
    ///
    /// Threads with the same job are served one after the other.
    pub last_served: u64,
    pub thread: ThreadId,
}

/// The entries of a ring that are due.
#[derive(Default, Serialize, Deserialize)]
pub struct Index {
    /// Threads that have entries, or may be served.
    lines: IdMap<ThreadId, ThreadQueues>,
    visible: BTreeMap<Class, BTreeSet<VisibleEntry>>,
    /// Number of threads that were served.
    served: u64,
}

/// Due entries of a thread.
#[derive(Default, Serialize, Deserialize)]
struct ThreadQueues {
    /// When it was last served, if it may be served now.
    last_served: Option<u64>,
    /// Sorted by class. The first entry of each is visible while the thread is ready.
    queues: SmallVec<[ClassQueue; INLINE_CLASSES]>,
}

/// Due entries of a thread, from jobs of one class.
#[derive(Serialize, Deserialize)]
struct ClassQueue {
    class: Class,
    /// [`VisibleEntry::last_served`] of its visible entry, if it has one.
    last_served: u64,
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
                if let Some(last_served) = line.last_served.filter(|_| is_first) {
                    let visible = self.visible.entry(class).or_default();
                    visible.remove(&queue.visible_entry(thread));
                    visible.insert(VisibleEntry { key: key.clone(), last_served, thread });
                    queue.last_served = last_served;
                }
                queue.entries.insert(KeyedEntry::new(key, vertex));
            }
            Err(place) => {
                let last_served = line.last_served.unwrap_or_default();
                let queue = ClassQueue {
                    class,
                    last_served,
                    entries: Queue::One(KeyedEntry::new(key, vertex)),
                };
                if line.last_served.is_some() {
                    self.visible.entry(class).or_default().insert(queue.visible_entry(thread));
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
        let shown = line.last_served.filter(|_| is_first);
        if shown.is_some() {
            remove_visible(&mut self.visible, class, &queue.visible_entry(thread));
        }
        let is_over = queue.entries.remove(&KeyedEntry::new(key.clone(), vertex));
        if is_over {
            line.queues.remove(place);
            if line.is_over() {
                self.lines.remove(&thread);
            }
        } else if let Some(last_served) = shown {
            queue.last_served = last_served;
            self.visible.entry(class).or_default().insert(queue.visible_entry(thread));
        }
    }

    /// Records that a thread may be served, or may not.
    pub fn set_ready(&mut self, thread: ThreadId, is_ready: bool) {
        if is_ready {
            let line = self.lines.entry(thread).or_default();
            if line.last_served.is_none() {
                line.last_served = Some(self.served);
                for queue in &mut line.queues {
                    queue.last_served = self.served;
                    self.visible
                        .entry(queue.class)
                        .or_default()
                        .insert(queue.visible_entry(thread));
                }
                self.served += 1;
            }
        } else if let Some(line) = self.lines.get_mut(&thread)
            && line.last_served.take().is_some()
        {
            for queue in &line.queues {
                remove_visible(&mut self.visible, queue.class, &queue.visible_entry(thread));
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

    /// Records that a thread was served.
    pub fn served(&mut self, thread: ThreadId) {
        if let Some(last_served) =
            self.lines.get_mut(&thread).and_then(|line| line.last_served.as_mut())
        {
            *last_served = self.served;
            self.served += 1;
        }
    }

    pub fn is_ready(&self, thread: ThreadId) -> bool {
        self.lines.get(&thread).is_some_and(|line| line.last_served.is_some())
    }

    /// Returns the first job that may be served, and its class.
    pub fn first(&self) -> Option<(Class, &Key)> {
        let firsts = self
            .visible
            .iter()
            .filter_map(|(class, visible)| Some((*class, &visible.first()?.key)));
        firsts.min_by_key(|(_, key)| *key)
    }

    /// Returns the classes of candidates, ascending, with their visible entries.
    ///
    /// Jobs that have preempted another one are not among them.
    pub fn classes(&self) -> impl Iterator<Item = (Class, &BTreeSet<VisibleEntry>)> {
        self.visible.range(Class::SMALLEST..).map(|(class, visible)| (*class, visible))
    }

    /// Returns the next entry of a job.
    ///
    /// Only entries in threads that may be served count. The job must be the first of its class.
    pub fn next_entry_of(&self, class: Class, key: &Key) -> Option<Entry> {
        let thread = self.visible.get(&class)?.first().filter(|entry| entry.key == *key)?.thread;
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
        let ready = self.lines.iter().filter(|(_, line)| line.last_served.is_some());
        let mut ready: Vec<ThreadId> = ready.map(|(thread, _)| *thread).collect();
        ready.sort();
        ready
    }

    /// Panics if the visible entries are not the first ones.
    pub fn check(&self) {
        let mut shown = 0;
        for (thread, line) in &self.lines {
            assert!(!line.is_over(), "nothing is due in {thread:?}, and it is not ready");
            let classes = line.queues.iter().map(|queue| queue.class);
            assert!(classes.is_sorted_by(|one, other| one < other), "classes of {thread:?}");
            assert!(line.queues.iter().all(|queue| queue.entries.len() > 0), "an empty queue");
            if line.last_served.is_some() {
                for queue in &line.queues {
                    let is_visible =
                        self.visible[&queue.class].contains(&queue.visible_entry(*thread));
                    assert!(is_visible, "{thread:?} is not visible in {:?}", queue.class);
                }
                shown += line.queues.len();
            }
        }
        let visible: usize = self.visible.values().map(BTreeSet::len).sum();
        assert_eq!(visible, shown, "visible entries");
        assert!(
            self.visible.values().all(|visible| !visible.is_empty()),
            "a class without entries"
        );
    }
}

impl ThreadQueues {
    /// Index of the queue of a class, or where to insert it.
    fn place(&self, class: Class) -> Result<usize, usize> {
        self.queues.binary_search_by_key(&class, |queue| queue.class)
    }

    /// Returns true if it has no entries and may not be served.
    fn is_over(&self) -> bool {
        self.queues.is_empty() && self.last_served.is_none()
    }
}

impl ClassQueue {
    fn visible_entry(&self, thread: ThreadId) -> VisibleEntry {
        VisibleEntry { key: self.entries.first().key(), last_served: self.last_served, thread }
    }
}

fn remove_visible(
    visible: &mut BTreeMap<Class, BTreeSet<VisibleEntry>>,
    class: Class,
    entry: &VisibleEntry,
) {
    if let Some(of_class) = visible.get_mut(&class) {
        let was_there = of_class.remove(entry);
        debug_assert!(was_there, "another entry of the thread is visible");
        if of_class.is_empty() {
            visible.remove(&class);
        }
    }
}
