//! Size classes of jobs.
//!
//! They help to find the best candidate for preemption without a look at every job. Within a class
//! the oldest job is the best, or nearly so.

use serde::{Deserialize, Serialize};

/// Sizes up to this are in different classes.
const EXACT: u32 = 16;
/// Number of classes for each doubling of larger sizes.
///
/// Sizes within one class differ by an eighth at most.
const PER_DOUBLING: u32 = 8;

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
        if size <= EXACT {
            return Class(size.max(1) as u16);
        }
        // The three bits behind the highest one.
        let doublings = size.ilog2() - EXACT.ilog2();
        let eighth = (size >> (size.ilog2() - PER_DOUBLING.ilog2())) % PER_DOUBLING;
        Class((EXACT + doublings * PER_DOUBLING + eighth) as u16)
    }

    /// The next larger class.
    pub fn next(self) -> Class {
        Class(self.0 + 1)
    }

    /// Smallest size in the class.
    pub fn least(self) -> u32 {
        let class = u32::from(self.0);
        if class < EXACT {
            return class;
        }
        let (doublings, eighth) = ((class - EXACT) / PER_DOUBLING, (class - EXACT) % PER_DOUBLING);
        (PER_DOUBLING + eighth) << (doublings + EXACT.ilog2() - PER_DOUBLING.ilog2())
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
            assert!(class >= former && class.least() <= size, "{size}");
            assert_eq!(Class::of(class.least()), class, "{size}");
            assert!(size - class.least() <= class.least() / 8, "{size}");
            assert!(size > EXACT || class.least() == size, "{size}");
            former = class;
        }
        assert_eq!(Class::of(u32::MAX).least(), 15 << 28);
    }
}
