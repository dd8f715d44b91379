//! Messages by the number in their names.
//!
//! There may be millions in memory. An entry takes 12 bytes, where numbers come in ascending order,
//! and up to twice as much otherwise; in a `BTreeMap` it would take 24.

use crate::queue::MessageId;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Maximum number of entries in a block. Each insertion moves half of them.
const MAX_BLOCK_LEN: usize = 256;

/// An ordered map of numbers to messages.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct NumberIndex {
    /// Blocks that are not empty, in ascending order of their numbers.
    blocks: VecDeque<Block>,
    length: usize,
}

/// Entries in ascending order of their numbers.
#[derive(Default, Serialize, Deserialize)]
struct Block {
    /// The lowest number that may be in it. Those before it are in the former block.
    from: u64,
    numbers: Vec<u64>,
    ids: Vec<MessageId>,
}

impl NumberIndex {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn get(&self, number: u64) -> Option<MessageId> {
        let block = &self.blocks[self.block_of(number)?];
        let place = block.numbers.binary_search(&number).ok()?;
        Some(block.ids[place])
    }

    /// The message with the lowest number that is `number` or higher.
    pub(super) fn at_or_after(&self, number: u64) -> Option<MessageId> {
        let block = self.block_of(number);
        let place = |block: &Block| block.numbers.partition_point(|other| *other < number);
        let in_block = block.map(|index| &self.blocks[index]);
        let in_block = in_block.and_then(|block| block.ids.get(place(block)));
        let next = || self.blocks.get(block.map_or(0, |index| index + 1))?.ids.first();
        in_block.or_else(next).copied()
    }

    /// Adds a message. Returns the former one with the number.
    pub(super) fn insert(&mut self, number: u64, id: MessageId) -> Option<MessageId> {
        let index = self.block_of(number).unwrap_or_else(|| {
            self.blocks.push_front(Block::default());
            0
        });
        let block = &mut self.blocks[index];
        let place = match block.numbers.binary_search(&number) {
            Ok(place) => return Some(std::mem::replace(&mut block.ids[place], id)),
            Err(place) => place,
        };
        self.length += 1;
        if block.numbers.len() < MAX_BLOCK_LEN {
            block.insert(place, number, id);
            return None;
        }
        // A full block stays as it is where numbers ascend, and is cut in two otherwise.
        let middle = if place == MAX_BLOCK_LEN { place } else { MAX_BLOCK_LEN / 2 };
        let mut upper = block.split_off(middle);
        if place >= middle {
            upper.insert(place - middle, number, id);
        } else {
            block.insert(place, number, id);
        }
        upper.from = upper.numbers[0];
        self.blocks.insert(index + 1, upper);
        None
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<MessageId> {
        let index = self.block_of(number)?;
        let block = &mut self.blocks[index];
        let place = block.numbers.binary_search(&number).ok()?;
        let id = block.remove(place);
        self.length -= 1;
        if block.numbers.is_empty() {
            self.blocks.remove(index);
        }
        Some(id)
    }

    /// The index of the block that a number may be in.
    fn block_of(&self, number: u64) -> Option<usize> {
        self.blocks.partition_point(|block| block.from <= number).checked_sub(1)
    }
}

impl Block {
    fn insert(&mut self, place: usize, number: u64, id: MessageId) {
        self.numbers.insert(place, number);
        self.ids.insert(place, id);
    }

    fn split_off(&mut self, place: usize) -> Block {
        let (numbers, ids) = (self.numbers.split_off(place), self.ids.split_off(place));
        Block { from: 0, numbers, ids }
    }

    fn remove(&mut self, place: usize) -> MessageId {
        self.numbers.remove(place);
        let id = self.ids.remove(place);
        if self.numbers.len() < self.numbers.capacity() / 4 {
            self.numbers.shrink_to(2 * self.numbers.len());
            self.ids.shrink_to(2 * self.ids.len());
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Compares the index with a `BTreeMap` under random operations.
    #[test]
    fn random_operations_match_a_map() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for highest in [40, 2_000, 100_000, u64::MAX] {
            let (mut index, mut model) = (NumberIndex::default(), BTreeMap::new());
            for step in 0..20_000_u64 {
                let ascending = (step / 2).min(highest);
                let number = if random.bool() { random.u64(0..=highest) } else { ascending };
                let id = MessageId::from_index(random.usize(0..50));
                // It grows in the first half and shrinks in the second.
                if random.u64(0..20_000) > step {
                    assert_eq!(index.insert(number, id), model.insert(number, id));
                } else {
                    let next = model.range(number..).next().map_or(number, |(next, _)| *next);
                    assert_eq!(index.remove(next), model.remove(&next));
                }
                let number = random.u64(0..=highest);
                assert_eq!(index.get(number), model.get(&number).copied());
                let next = model.range(number..).next().map(|(_, id)| *id);
                assert_eq!(index.at_or_after(number), next);
                assert_eq!(index.len(), model.len());
            }
            for number in model.into_keys() {
                assert!(index.remove(number).is_some());
            }
            assert!(index.blocks.is_empty() && index.len() == 0);
        }
    }

    #[test]
    fn ascending_numbers_fill_the_blocks() {
        let mut index = NumberIndex::default();
        for number in 0..10 * MAX_BLOCK_LEN as u64 {
            index.insert(7 * number, MessageId::FIRST);
        }
        assert_eq!(index.blocks.len(), 10);
        assert!(index.blocks.iter().all(|block| block.numbers.capacity() == MAX_BLOCK_LEN));
    }
}
