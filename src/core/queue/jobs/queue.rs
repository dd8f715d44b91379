//! Entries of one thread and class, in the order of their jobs.
//!
//! Most threads have a few entries. New ones mostly go to the end, and the first is taken first. So
//! these entries are in one piece of memory, at the end of a chain that is as short as possible.
//! With a hundred thousand threads, nothing in the chain is in the processor's cache when it is
//! needed, and each step of it takes as long as a thousand instructions. A tree of all entries of a
//! ring has six such steps, and more. Only a thread with many entries has a tree, of its own.

use crate::queue::VertexId;
use crate::queue::jobs::job::JobId;
use crate::queue::jobs::key::{Key, Path};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use zsched_format::time::Timestamp;

/// Maximum number of entries in a row.
///
/// To insert one, others are moved.
const MAX_ROW_LEN: usize = 1024;
/// Initial capacity of a row.
///
/// Growing costs more than a little spare room.
const INITIAL_ROW_CAPACITY: usize = 8;
/// Number of entries at which a tree becomes a row again.
const MAX_SHRUNK_TREE_LEN: usize = 512;

/// An entry: the key of its job, and the vertex, packed closely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyedEntry {
    arrival: Timestamp,
    sequence: u64,
    path: Path,
    job: JobId,
    pub vertex: VertexId,
}

impl KeyedEntry {
    pub fn new(key: Key, vertex: VertexId) -> KeyedEntry {
        let Key { arrival, sequence, path, job } = key;
        KeyedEntry { arrival, sequence, path, job, vertex }
    }

    /// Key of its job.
    pub fn key(&self) -> Key {
        let KeyedEntry { arrival, sequence, ref path, job, .. } = *self;
        Key { arrival, sequence, path: path.clone(), job }
    }

    /// Returns true if its job comes after another.
    fn is_behind(&self, key: &Key) -> bool {
        let mine = (self.arrival, self.sequence, &self.path, self.job);
        mine > (key.arrival, key.sequence, &key.path, key.job)
    }

    /// Returns true if it is an entry of a job.
    pub fn is_of(&self, key: &Key) -> bool {
        self.job == key.job
    }
}

/// Entries in order.
#[derive(Serialize, Deserialize)]
pub enum Queue {
    One(KeyedEntry),
    Row(VecDeque<KeyedEntry>),
    Tree(BTreeSet<KeyedEntry>),
}

impl Queue {
    /// The first entry; a queue is never empty.
    pub fn first(&self) -> &KeyedEntry {
        let first = match self {
            Queue::One(entry) => Some(entry),
            Queue::Row(row) => row.front(),
            Queue::Tree(tree) => tree.first(),
        };
        first.expect("a queue that is empty is dropped")
    }

    /// Returns true if an entry of a job would come first.
    pub fn would_be_first(&self, key: &Key) -> bool {
        // Rarely true. Most often the last entry of a row shows that, and it is needed next anyway.
        let comes_last = match self {
            Queue::Row(row) => row.back().is_some_and(|last| !last.is_behind(key)),
            Queue::One(_) | Queue::Tree(_) => false,
        };
        !comes_last && self.first().is_behind(key)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Queue::One(_) => 1,
            Queue::Row(row) => row.len(),
            Queue::Tree(tree) => tree.len(),
        }
    }

    pub fn insert(&mut self, entry: KeyedEntry) {
        match self {
            Queue::One(only) => {
                let mut row = VecDeque::with_capacity(INITIAL_ROW_CAPACITY);
                row.push_back(only.clone());
                insert_into_row(&mut row, entry);
                *self = Queue::Row(row);
            }
            Queue::Row(row) if row.len() < MAX_ROW_LEN => insert_into_row(row, entry),
            Queue::Row(row) => {
                let mut tree: BTreeSet<KeyedEntry> = std::mem::take(row).into_iter().collect();
                tree.insert(entry);
                *self = Queue::Tree(tree);
            }
            Queue::Tree(tree) => {
                tree.insert(entry);
            }
        }
    }

    /// Removes an entry, which must be in the queue.
    ///
    /// Returns true if it was the last one: the queue must then be dropped.
    pub fn remove(&mut self, entry: &KeyedEntry) -> bool {
        match self {
            Queue::One(only) => {
                debug_assert_eq!(only, entry, "an entry is taken out that was not due");
                true
            }
            Queue::Row(row) if row.front() == Some(entry) => {
                row.pop_front();
                row.is_empty()
            }
            Queue::Row(row) => {
                match row.binary_search(entry) {
                    Ok(place) => drop(row.remove(place)),
                    Err(_) => debug_assert!(false, "an entry is taken out that was not due"),
                }
                row.is_empty()
            }
            Queue::Tree(tree) => {
                let was_due = tree.remove(entry);
                debug_assert!(was_due, "an entry is taken out that was not due");
                if tree.len() <= MAX_SHRUNK_TREE_LEN {
                    *self = Queue::Row(std::mem::take(tree).into_iter().collect());
                }
                false
            }
        }
    }

    /// All entries.
    pub fn iter(&self) -> Box<dyn Iterator<Item = &KeyedEntry> + '_> {
        match self {
            Queue::One(only) => Box::new(std::iter::once(only)),
            Queue::Row(row) => Box::new(row.iter()),
            Queue::Tree(tree) => Box::new(tree.iter()),
        }
    }
}

fn insert_into_row(row: &mut VecDeque<KeyedEntry>, entry: KeyedEntry) {
    match row.back() {
        Some(last) if *last > entry => {
            let place = row.partition_point(|other| *other < entry);
            row.insert(place, entry);
        }
        _ => row.push_back(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> KeyedEntry {
        let arrival = Timestamp::from_seconds(number as i64 / 3);
        let key = Key { arrival, sequence: number, path: Default::default(), job: JobId::FIRST };
        KeyedEntry::new(key, VertexId::from_index(number as usize))
    }

    #[test]
    fn entry_fits_half_a_cache_line() {
        assert!(size_of::<KeyedEntry>() <= 32);
        assert_eq!(entry(7).key().sequence, 7);
    }

    /// Compares it with a set, as a row and as a tree.
    #[test]
    fn queue_random_operations_match_a_set() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut queue = Queue::One(entry(500));
        let mut model = BTreeSet::from([entry(500)]);
        let (mut rows, mut trees) = (0, 0);
        for step in 0..60_000 {
            let grows = step / 10_000 % 2 == 0;
            if model.len() < 2 || random.u32(0..10) < if grows { 7 } else { 2 } {
                let new = entry(random.u64(0..5000));
                if model.insert(new.clone()) {
                    queue.insert(new);
                }
            } else {
                let some = model.iter().nth(random.usize(0..model.len())).expect("one").clone();
                let some = if random.bool() { some } else { queue.first().clone() };
                model.remove(&some);
                assert!(!queue.remove(&some));
            }
            assert!(step % 64 != 0 || queue.iter().eq(model.iter()));
            assert_eq!((queue.len(), queue.first()), (model.len(), model.first().expect("one")));
            match queue {
                Queue::One(_) => {}
                Queue::Row(_) => rows += 1,
                Queue::Tree(_) => trees += 1,
            }
        }
        assert!(rows > 5000 && trees > 5000, "{rows} {trees}");
        while model.len() > 1 {
            let first = model.pop_first().expect("one");
            assert!(!queue.remove(&first));
        }
        assert!(queue.remove(model.first().expect("one")));
    }
}
