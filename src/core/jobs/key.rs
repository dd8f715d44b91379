//! The order of jobs, as something that can be compared.
//!
//! A job stands where its message arrived. One that preempts another is moved directly in front of it,
//! behind those that have preempted the same one before. Instead of a list, in which places would have
//! to be found and counted, each job has a path: a job that stands in its own right has the empty one;
//! one that preempts has the path of the job it preempts, and a number that counts these. A path sorts
//! behind all that begin with it, so the children of a job come before it, the oldest child first, and
//! each child's own children before that child:
//!
//! ```text
//! 7        8        4        1        2       6       3       5
//! 1.[1 1]  1.[1 2]  1.[1]    1.[]     2.[]    3.[1]   3.[]    5.[]
//! ```

use super::job::JobId;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::rc::Rc;
use zsched_format::time::Timestamp;

/// The place of a job among the jobs of its ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// When the message arrived, its priority counted in; that of the first job of a chain of
    /// preemptions stands for all of them.
    pub arrival: Timestamp,
    /// Which of several that arrived at the same time comes first.
    pub sequence: u64,
    /// In front of whom it was moved.
    pub path: Path,
    /// The job itself. There is hardly ever anything left for this to decide.
    pub job: JobId,
}

/// Which jobs a job has moved in front of. There are many keys, and few with a path: it is one pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path(Option<Rc<Box<[u32]>>>);

impl Key {
    /// Before all others.
    pub const FIRST: Key = Key {
        arrival: Timestamp::from_nanoseconds(i64::MIN),
        sequence: 0,
        path: Path(None),
        job: JobId::FIRST,
    };
}

impl Path {
    /// The path of the child of this number.
    pub fn child(&self, number: u32) -> Path {
        let steps: Box<[u32]> = self.steps().iter().copied().chain([number]).collect();
        Path(Some(Rc::new(steps)))
    }

    /// How many jobs are preempted by it, one through the other.
    pub fn depth(&self) -> usize {
        self.steps().len()
    }

    fn steps(&self) -> &[u32] {
        self.0.as_ref().map_or(&[], |steps| &steps[..])
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Path) -> Ordering {
        let (mine, others) = (self.steps(), other.steps());
        let common = mine.len().min(others.len());
        mine[..common].cmp(&others[..common]).then(others.len().cmp(&mine.len()))
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_before_their_parent_in_their_order() {
        let root = Path::default();
        let (first, second) = (root.child(0), root.child(1));
        let order = [first.child(0), first.child(1).child(9), first.child(1), first, second, root];
        assert!(order.is_sorted());
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
