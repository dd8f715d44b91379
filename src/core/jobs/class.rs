//! Classes of jobs by their size, so that the best candidate for preemption is found without looking at
//! every job: within a class the oldest is the best, or nearly so.

use serde::{Deserialize, Serialize};

/// Sizes up to this have a class each.
const EXACT: u32 = 16;
/// Larger sizes have so many classes for each doubling: sizes within one differ by an eighth at most.
const PER_DOUBLING: u32 = 8;

/// A class of sizes, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Class(u16);

impl Class {
    /// Of jobs that have preempted another one, whatever their size: they are no candidates.
    pub const PREEMPTING: Class = Class(0);
    /// Of the smallest job.
    pub const SMALLEST: Class = Class(1);

    /// The class of a number of entries.
    pub fn of(size: u32) -> Class {
        if size <= EXACT {
            return Class(size.max(1) as u16);
        }
        // The first bits of the size: 3 behind the highest.
        let doublings = size.ilog2() - EXACT.ilog2();
        let eighth = (size >> (size.ilog2() - PER_DOUBLING.ilog2())) % PER_DOUBLING;
        Class((EXACT + doublings * PER_DOUBLING + eighth) as u16)
    }

    /// The one behind it.
    pub fn next(self) -> Class {
        Class(self.0 + 1)
    }

    /// The smallest size that is in it.
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
    fn classes_ascend_and_are_narrow() {
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
