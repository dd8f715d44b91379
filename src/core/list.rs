//! Ordered lists of items in a [`Pool`], linked through the items.
//!
//! To add or remove an item anywhere takes the same short time however long the list is. A list
//! costs eight bytes per item.

use crate::pool::{Id, Pool};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Neighbours of an item in one list.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Links<T> {
    previous: Option<Id<T>>,
    next: Option<Id<T>>,
}

/// Selects the links that one kind of list uses.
///
/// An item is in at most one list of each kind.
pub trait ListKind {
    type Item;

    fn links(item: &Self::Item) -> &Links<Self::Item>;
    fn links_mut(item: &mut Self::Item) -> &mut Links<Self::Item>;
}

/// A list of items, first to last.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct List<C: ListKind> {
    first: Option<Id<C::Item>>,
    last: Option<Id<C::Item>>,
    length: u32,
    #[serde(skip)]
    chain: PhantomData<C>,
}

impl<C: ListKind> List<C> {
    pub const fn new() -> List<C> {
        List { first: None, last: None, length: 0, chain: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.length as usize
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn first(&self) -> Option<Id<C::Item>> {
        self.first
    }

    pub fn push_back(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        *C::links_mut(&mut pool[id]) = Links { previous: self.last, next: None };
        match self.last {
            Some(last) => C::links_mut(&mut pool[last]).next = Some(id),
            None => self.first = Some(id),
        }
        self.last = Some(id);
        self.length += 1;
    }

    pub fn push_front(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        *C::links_mut(&mut pool[id]) = Links { previous: None, next: self.first };
        match self.first {
            Some(first) => C::links_mut(&mut pool[first]).previous = Some(id),
            None => self.last = Some(id),
        }
        self.first = Some(id);
        self.length += 1;
    }

    /// Removes an item, which must be in this list.
    pub fn remove(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        let Links { previous, next } = std::mem::take(C::links_mut(&mut pool[id]));
        match previous {
            Some(previous) => C::links_mut(&mut pool[previous]).next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => C::links_mut(&mut pool[next]).previous = previous,
            None => self.last = previous,
        }
        self.length -= 1;
    }

    /// Iterates over the items in order. The list must not change meanwhile.
    pub fn iter<'p>(
        &self,
        pool: &'p Pool<C::Item>,
    ) -> impl Iterator<Item = Id<C::Item>> + use<'p, C> {
        std::iter::successors(self.first, |id| C::links(&pool[*id]).next)
    }

    /// Copies the order, for a loop that changes the list.
    pub fn to_vec(&self, pool: &Pool<C::Item>) -> Vec<Id<C::Item>> {
        self.iter(pool).collect()
    }
}

impl<T> Default for Links<T> {
    fn default() -> Links<T> {
        Links { previous: None, next: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bead {
        value: u32,
        links: Links<Bead>,
    }

    enum OnString {}

    impl ListKind for OnString {
        type Item = Bead;

        fn links(bead: &Bead) -> &Links<Bead> {
            &bead.links
        }

        fn links_mut(bead: &mut Bead) -> &mut Links<Bead> {
            &mut bead.links
        }
    }

    /// Compares a list with a plain vector under random operations.
    #[test]
    fn list_random_operations_match_a_vector() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut pool = Pool::default();
        let mut list = List::<OnString>::new();
        let mut model: Vec<(Id<Bead>, u32)> = Vec::new();
        for value in 0..2000 {
            match random.u32(0..5) {
                0 | 1 => {
                    let id = pool.insert(Bead { value, links: Links::default() });
                    list.push_back(&mut pool, id);
                    model.push((id, value));
                }
                2 => {
                    let id = pool.insert(Bead { value, links: Links::default() });
                    list.push_front(&mut pool, id);
                    model.insert(0, (id, value));
                }
                _ if !model.is_empty() => {
                    let (id, _) = model.remove(random.usize(0..model.len()));
                    list.remove(&mut pool, id);
                    pool.remove(id);
                }
                _ => {}
            }
            let listed: Vec<u32> = list.iter(&pool).map(|id| pool[id].value).collect();
            let expected: Vec<u32> = model.iter().map(|(_, value)| *value).collect();
            assert_eq!(listed, expected);
            assert_eq!(list.len(), model.len());
            assert_eq!(list.first(), model.first().map(|(id, _)| *id));
        }
    }
}
