//! The entries of one thread and one class, in the order of their jobs.
//!
//! Most threads have a few entries, and what comes is mostly the last and what goes the first. So these are in one
//! piece of memory, at the end of a chain that is as short as can be: with a hundred thousand threads none of it
//! is in a cache of the processor when it is needed, and each step of the chain takes as long as a thousand
//! instructions. A tree of all entries of a ring has six such steps, and more. Only a thread that has many has a
//! tree, of its own.

use super::job::JobId;
use super::key::{Key, Path};
use crate::vertex::VertexId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use zsched_format::time::Timestamp;

/// Up to so many entries are in a row, in which others are moved to make room for one.
const ROW: usize = 1024;
/// There is room for so many in the beginning: growing costs more than a little more room.
const FIRST_ROW: usize = 8;
/// A tree with so few entries becomes a row again.
const FEW: usize = 512;

/// An entry: the key of its job, and the vertex, as close together as can be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    arrival: Timestamp,
    sequence: u64,
    path: Path,
    job: JobId,
    pub vertex: VertexId,
}

impl Entry {
    pub fn new(key: Key, vertex: VertexId) -> Entry {
        let Key { arrival, sequence, path, job } = key;
        Entry { arrival, sequence, path, job, vertex }
    }

    /// That of its job.
    pub fn key(&self) -> Key {
        let Entry { arrival, sequence, ref path, job, .. } = *self;
        Key { arrival, sequence, path: path.clone(), job }
    }

    /// Whether its job comes after another.
    fn is_behind(&self, key: &Key) -> bool {
        let mine = (self.arrival, self.sequence, &self.path, self.job);
        mine > (key.arrival, key.sequence, &key.path, key.job)
    }

    /// Whether it is one of a job.
    pub fn is_of(&self, key: &Key) -> bool {
        self.job == key.job
    }
}

/// Entries in order.
#[derive(Serialize, Deserialize)]
pub enum Queue {
    One(Entry),
    Row(VecDeque<Entry>),
    Tree(BTreeSet<Entry>),
}

impl Queue {
    /// The first; there is always one.
    pub fn first(&self) -> &Entry {
        let first = match self {
            Queue::One(entry) => Some(entry),
            Queue::Row(row) => row.front(),
            Queue::Tree(tree) => tree.first(),
        };
        first.expect("a queue that is empty is dropped")
    }

    /// Whether an entry of a job would come before all others.
    pub fn would_be_first(&self, key: &Key) -> bool {
        // Hardly ever, which the last of a row tells: it is the one that is looked at next.
        let comes_last = match self {
            Queue::Row(row) => row.back().is_some_and(|last| !last.is_behind(key)),
            Queue::One(_) | Queue::Tree(_) => false,
        };
        !comes_last && self.first().is_behind(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Queue::One(_) => 1,
            Queue::Row(row) => row.len(),
            Queue::Tree(tree) => tree.len(),
        }
    }

    pub fn insert(&mut self, entry: Entry) {
        match self {
            Queue::One(only) => {
                let mut row = VecDeque::with_capacity(FIRST_ROW);
                row.push_back(only.clone());
                insert_into_row(&mut row, entry);
                *self = Queue::Row(row);
            }
            Queue::Row(row) if row.len() < ROW => insert_into_row(row, entry),
            Queue::Row(row) => {
                let mut tree: BTreeSet<Entry> = std::mem::take(row).into_iter().collect();
                tree.insert(entry);
                *self = Queue::Tree(tree);
            }
            Queue::Tree(tree) => {
                tree.insert(entry);
            }
        }
    }

    /// Takes one out that is among them. Tells whether it was the last: then the queue is to be dropped.
    pub fn remove(&mut self, entry: &Entry) -> bool {
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
                if tree.len() <= FEW {
                    *self = Queue::Row(std::mem::take(tree).into_iter().collect());
                }
                false
            }
        }
    }

    /// All of them.
    pub fn iter(&self) -> Box<dyn Iterator<Item = &Entry> + '_> {
        match self {
            Queue::One(only) => Box::new(std::iter::once(only)),
            Queue::Row(row) => Box::new(row.iter()),
            Queue::Tree(tree) => Box::new(tree.iter()),
        }
    }
}

fn insert_into_row(row: &mut VecDeque<Entry>, entry: Entry) {
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

    fn entry(number: u64) -> Entry {
        let arrival = Timestamp::from_seconds(number as i64 / 3);
        let key = Key { arrival, sequence: number, path: Default::default(), job: JobId::FIRST };
        Entry::new(key, VertexId::from_index(number as usize))
    }

    #[test]
    fn an_entry_is_half_of_a_line_of_a_cache() {
        assert!(size_of::<Entry>() <= 32);
        assert_eq!(entry(7).key().sequence, 7);
    }

    /// It must agree with a set, as a row and as a tree.
    #[test]
    fn it_does_what_a_set_does() {
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
