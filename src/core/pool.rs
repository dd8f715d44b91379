//! Storage for values that are identified by small numbers.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a `T` in its [`Pool`].
///
/// It is used again for another `T` after the first one is removed. So holders of an id must drop
/// it before then, and only lasting names cross the border of the core.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Id<T> {
    /// Index plus one, so that an `Option<Id>` needs no more room.
    number: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

/// All values of one kind.
///
/// The next number depends only on the order of insertions and removals. A checkpoint keeps it,
/// because numbers decide which of two values comes first.
#[derive(Serialize, Deserialize)]
pub struct Pool<T> {
    slots: Vec<Slot<T>>,
    /// The slot that was emptied last; it is used first.
    free: Option<Id<T>>,
    length: u32,
}

/// Storage for one value.
#[derive(Serialize, Deserialize)]
enum Slot<T> {
    Taken(T),
    /// Empty, with the next slot of the list of free slots.
    Free(Option<Id<T>>),
}

impl<T> Slot<T> {
    fn value(&self) -> Option<&T> {
        match self {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        }
    }
}

/// Panic message: an id is dropped before its value is removed.
const ID_IS_LIVE: &str = "an id is used only as long as its thing is there";

impl<T> Pool<T> {
    pub fn insert(&mut self, value: T) -> Id<T> {
        self.length += 1;
        let Some(id) = self.free else {
            self.slots.push(Slot::Taken(value));
            return Id::from_index(self.slots.len() - 1);
        };
        match std::mem::replace(&mut self.slots[id.index()], Slot::Taken(value)) {
            Slot::Free(next) => self.free = next,
            Slot::Taken(_) => unreachable!("what is in the list of free slots is free"),
        }
        id
    }

    /// Removes a value and frees its number, or all memory after the last value.
    pub fn remove(&mut self, id: Id<T>) -> T {
        match std::mem::replace(&mut self.slots[id.index()], Slot::Free(self.free)) {
            Slot::Taken(value) => {
                self.free = Some(id);
                self.length -= 1;
                if self.length == 0 {
                    *self = Pool::default();
                }
                value
            }
            Slot::Free(_) => panic!("{ID_IS_LIVE}"),
        }
    }

    pub fn get(&self, id: Id<T>) -> Option<&T> {
        self.slots.get(id.index())?.value()
    }

    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Number of slots, free ones included.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The id of the value in a slot.
    ///
    /// `None` if it is free or out of range.
    pub fn at(&self, slot: usize) -> Option<Id<T>> {
        self.slots.get(slot)?.value().map(|_| Id::from_index(slot))
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((Id::from_index(index), slot.value()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Taken(value) => Some(value),
            Slot::Free(_) => None,
        })
    }
}

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool { slots: Vec::new(), free: None, length: 0 }
    }
}

impl<T> Index<Id<T>> for Pool<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        self.slots[id.index()].value().expect(ID_IS_LIVE)
    }
}

impl<T> IndexMut<Id<T>> for Pool<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match &mut self.slots[id.index()] {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("{ID_IS_LIVE}"),
        }
    }
}

impl<T> Id<T> {
    /// The lowest number.
    pub const FIRST: Id<T> = Id { number: NonZeroU32::MIN, of: PhantomData };

    pub(super) fn from_index(index: usize) -> Id<T> {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Id { number: number.expect("a pool has less than 2^32 slots"), of: PhantomData }
    }

    /// Index of its slot, below [`Pool::slots`].
    pub fn index(self) -> usize {
        self.number.get() as usize - 1
    }
}

/// A map by ids.
///
/// Ids cannot be chosen from outside, so a hash without a random key is enough.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes ids so that groups of neighbours stay together.
///
/// Ids that were given one after the other are often used together. This way they share lines of
/// the processor's cache.
#[derive(Clone, Copy, Default)]
pub struct IdHasher(u64);

/// Size of a group of neighbouring ids, as a power of two.
const ID_GROUP_BITS: u32 = 3;

impl Hasher for IdHasher {
    fn write_u32(&mut self, number: u32) {
        let group = u64::from(number >> ID_GROUP_BITS).wrapping_add(self.0);
        // The steps of SplitMix64, which make each bit depend on all bits.
        let group = (group ^ (group >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let group = (group ^ (group >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let group = group ^ (group >> 31);
        // The map takes the bucket from the lowest bits, and compares the highest ones within it.
        let within = u64::from(number) & ((1 << ID_GROUP_BITS) - 1);
        self.0 = ((group << ID_GROUP_BITS) | within) ^ (within << (u64::BITS - ID_GROUP_BITS));
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

// A derive would require the same of `T`.
impl<T> Clone for Id<T> {
    fn clone(&self) -> Id<T> {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Id<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Id<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Id<T>) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl<T> std::hash::Hash for Id<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_value_frees_all_memory() {
        let mut pool = Pool::default();
        let ids: Vec<Id<u32>> = (0..100).map(|number| pool.insert(number)).collect();
        let (first, others) = ids.split_first().expect("a hundred");
        others.iter().for_each(|id| assert!(pool.remove(*id) > 0));
        assert_eq!((pool.len(), pool.slots()), (1, 100));
        assert_eq!(pool.insert(7), ids[99], "the slot that was emptied last");
        pool.remove(ids[99]);
        pool.remove(*first);
        assert_eq!((pool.len(), pool.slots.capacity()), (0, 0));
        assert_eq!(pool.insert(8), Id::FIRST);
    }
}
