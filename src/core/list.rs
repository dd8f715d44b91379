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

/// The ends of a list whose length is not counted.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Chain<C: ListKind> {
    first: Option<Id<C::Item>>,
    last: Option<Id<C::Item>>,
    #[serde(skip)]
    kind: PhantomData<C>,
}

impl<C: ListKind> Chain<C> {
    pub const fn new() -> Chain<C> {
        Chain { first: None, last: None, kind: PhantomData }
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
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
    }

    pub fn push_front(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        *C::links_mut(&mut pool[id]) = Links { previous: None, next: self.first };
        match self.first {
            Some(first) => C::links_mut(&mut pool[first]).previous = Some(id),
            None => self.last = Some(id),
        }
        self.first = Some(id);
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

/// A list of items, first to last, that knows its length.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct List<C: ListKind> {
    chain: Chain<C>,
    length: u32,
}

impl<C: ListKind> List<C> {
    pub const fn new() -> List<C> {
        List { chain: Chain::new(), length: 0 }
    }

    pub fn len(&self) -> usize {
        self.length as usize
    }

    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    pub fn first(&self) -> Option<Id<C::Item>> {
        self.chain.first()
    }

    pub fn push_back(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        self.chain.push_back(pool, id);
        self.length += 1;
    }

    pub fn push_front(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        self.chain.push_front(pool, id);
        self.length += 1;
    }

    /// Removes an item, which must be in this list.
    pub fn remove(&mut self, pool: &mut Pool<C::Item>, id: Id<C::Item>) {
        self.chain.remove(pool, id);
        self.length -= 1;
    }

    /// Iterates over the items in order. The list must not change meanwhile.
    pub fn iter<'p>(
        &self,
        pool: &'p Pool<C::Item>,
    ) -> impl Iterator<Item = Id<C::Item>> + use<'p, C> {
        self.chain.iter(pool)
    }

    /// Copies the order, for a loop that changes the list.
    pub fn to_vec(&self, pool: &Pool<C::Item>) -> Vec<Id<C::Item>> {
        self.chain.to_vec(pool)
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
