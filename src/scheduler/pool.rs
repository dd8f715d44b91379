//! Storage for things that are known by small numbers instead of by reference.

use slab::Slab;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a `T` in its [`Pool`]. It is given to another `T` once the first one is taken out,
/// so whoever keeps one must be told; across the border of the core only lasting names travel.
pub struct Id<T> {
    /// Index plus one, so that an `Option<Id>` needs no more room.
    number: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

/// All things of one kind.
pub struct Pool<T> {
    slots: Slab<T>,
}

impl<T> Pool<T> {
    pub fn new() -> Pool<T> {
        Pool { slots: Slab::new() }
    }

    pub fn insert(&mut self, value: T) -> Id<T> {
        Id::from_index(self.slots.insert(value))
    }

    /// Takes a thing out; its number is free again.
    pub fn remove(&mut self, id: Id<T>) -> T {
        self.slots.remove(id.index())
    }

    pub fn get(&self, id: Id<T>) -> Option<&T> {
        self.slots.get(id.index())
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.slots.iter().map(|(index, value)| (Id::from_index(index), value))
    }
}

impl<T> Index<Id<T>> for Pool<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        &self.slots[id.index()]
    }
}

impl<T> IndexMut<Id<T>> for Pool<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.slots[id.index()]
    }
}

impl<T> Id<T> {
    fn from_index(index: usize) -> Id<T> {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Id {
            number: number.expect("memory ends before four thousand million things"),
            of: PhantomData,
        }
    }

    fn index(self) -> usize {
        self.number.get() as usize - 1
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
