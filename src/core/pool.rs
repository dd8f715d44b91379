//! Storage for things that are known by small numbers instead of by reference.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a `T` in its [`Pool`]. It is given to another `T` once the first one is taken out,
/// so whoever keeps one must be told; across the border of the core only lasting names travel.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Id<T> {
    /// Index plus one, so that an `Option<Id>` needs no more room.
    number: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

/// All things of one kind.
///
/// Which number is given away next depends on nothing but the order of insertions and removals, and is
/// part of what a checkpoint keeps: numbers decide which of two things comes first.
#[derive(Serialize, Deserialize)]
pub struct Pool<T> {
    slots: Vec<Slot<T>>,
    /// The slot that was emptied last; it is used first.
    free: Option<Id<T>>,
    length: u32,
}

/// A place for one thing.
#[derive(Serialize, Deserialize)]
enum Slot<T> {
    Taken(T),
    /// Empty. With the slot that was emptied before it, unless that is used again.
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

/// Why an id leads to a thing: whoever keeps one is told before the thing is taken out.
const KEPT: &str = "an id is used only as long as its thing is there";

impl<T> Pool<T> {
    pub fn new() -> Pool<T> {
        Pool { slots: Vec::new(), free: None, length: 0 }
    }

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

    /// Takes a thing out; its number is free again.
    pub fn remove(&mut self, id: Id<T>) -> T {
        match std::mem::replace(&mut self.slots[id.index()], Slot::Free(self.free)) {
            Slot::Taken(value) => {
                self.free = Some(id);
                self.length -= 1;
                value
            }
            Slot::Free(_) => panic!("{KEPT}"),
        }
    }

    pub fn get(&self, id: Id<T>) -> Option<&T> {
        self.slots.get(id.index())?.value()
    }

    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// How many places there are, free ones included.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The id of the thing in a place; `None` if it is free, or no place.
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

impl<T> Index<Id<T>> for Pool<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        self.slots[id.index()].value().expect(KEPT)
    }
}

impl<T> IndexMut<Id<T>> for Pool<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match &mut self.slots[id.index()] {
            Slot::Taken(value) => value,
            Slot::Free(_) => panic!("{KEPT}"),
        }
    }
}

impl<T> Id<T> {
    /// The lowest number there is.
    pub const FIRST: Id<T> = Id { number: NonZeroU32::MIN, of: PhantomData };

    pub(super) fn from_index(index: usize) -> Id<T> {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Id {
            number: number.expect("memory ends before four thousand million things"),
            of: PhantomData,
        }
    }

    /// None is before this one.
    pub fn first() -> Id<T> {
        Id::from_index(0)
    }

    /// Which place it has: below [`Pool::slots`].
    pub fn index(self) -> usize {
        self.number.get() as usize - 1
    }
}

/// A map by ids. Nobody outside chooses these, so they are not scattered as carefully as names that come
/// from strangers are.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Scatters ids in groups: those that are neighbours, as those of what came one after the other are, stay
/// neighbours, so that they are in the cache of the processor together.
#[derive(Clone, Copy, Default)]
pub struct IdHasher(u64);

/// So many ids are a group: 2 to the power of this.
const GROUP_BITS: u32 = 3;

impl Hasher for IdHasher {
    fn write_u32(&mut self, number: u32) {
        let group = u64::from(number >> GROUP_BITS).wrapping_add(self.0);
        // The steps of SplitMix64, by which each bit depends on each.
        let group = (group ^ (group >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let group = (group ^ (group >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let group = group ^ (group >> 31);
        // A map takes the place from the lowest bits, and tells neighbours apart by the highest.
        let within = u64::from(number) & ((1 << GROUP_BITS) - 1);
        self.0 = ((group << GROUP_BITS) | within) ^ (within << (u64::BITS - GROUP_BITS));
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

// Derives would ask the same of `T`.
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
