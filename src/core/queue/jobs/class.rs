//! Size classes of jobs.
//!
//! They help to find the best candidate for preemption without a look at every job. Within a class
//! the oldest job is the best, or nearly so.

use serde::{Deserialize, Serialize};

/// Sizes up to this are in different classes.
const MAX_EXACT_SIZE: u32 = 16;
/// Number of classes for each doubling of larger sizes.
///
/// Sizes within one class differ by an eighth at most.
const CLASSES_PER_DOUBLING: u32 = 8;

/// A size class. Classes sort by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Class(u16);

impl Class {
    /// Class of jobs that have preempted another: they are no candidates.
    pub const PREEMPTING: Class = Class(0);
    /// Class of the smallest jobs.
    pub const SMALLEST: Class = Class(1);

    /// The class of a number of entries.
    pub fn of(size: u32) -> Class {
        if size <= MAX_EXACT_SIZE {
            return Class(size.max(1) as u16);
        }
        // The three bits behind the highest one.
        let doublings = size.ilog2() - MAX_EXACT_SIZE.ilog2();
        let eighth = (size >> (size.ilog2() - CLASSES_PER_DOUBLING.ilog2())) % CLASSES_PER_DOUBLING;
        Class((MAX_EXACT_SIZE + doublings * CLASSES_PER_DOUBLING + eighth) as u16)
    }

    /// The next larger class.
    pub fn next(self) -> Class {
        Class(self.0 + 1)
    }

    /// Smallest size in the class.
    pub fn min_size(self) -> u32 {
        let class = u32::from(self.0);
        if class < MAX_EXACT_SIZE {
            return class;
        }
        let (doublings, eighth) = (
            (class - MAX_EXACT_SIZE) / CLASSES_PER_DOUBLING,
            (class - MAX_EXACT_SIZE) % CLASSES_PER_DOUBLING,
        );
        (CLASSES_PER_DOUBLING + eighth)
            << (doublings + MAX_EXACT_SIZE.ilog2() - CLASSES_PER_DOUBLING.ilog2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_sizes_ascend_and_differ_by_an_eighth() {
        let mut former = Class::of(1);
        for size in 2..100_000 {
            let class = Class::of(size);
            assert!(class >= former && class.min_size() <= size, "{size}");
            assert_eq!(Class::of(class.min_size()), class, "{size}");
            assert!(size - class.min_size() <= class.min_size() / 8, "{size}");
            assert!(size > MAX_EXACT_SIZE || class.min_size() == size, "{size}");
            former = class;
        }
        assert_eq!(Class::of(u32::MAX).min_size(), 15 << 28);
    }
}
