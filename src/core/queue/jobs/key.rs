//! The order of jobs, as a comparable key.
//!
//! A job stands where its message arrived. A job that preempts another is moved directly in front
//! of it, behind those that have preempted the same one before. In a list, places would have to be
//! found and counted. Instead each job has a path. A job that has preempted no other has the empty
//! path. A job that preempts has the path of the job it preempts, plus a number that counts these.
//! A path sorts behind all paths that begin with it. So the children of a job come before it, the
//! oldest child first, and the children of each child before that child:
//!
//! ```text
//! 7        8        4        1        2       6       3       5
//! 1.[1 1]  1.[1 2]  1.[1]    1.[]     2.[]    3.[1]   3.[]    5.[]
//! ```

use crate::queue::jobs::job::JobId;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::rc::Rc;
use zsched_format::time::Timestamp;

/// The place of a job among the jobs of its ring.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Arrival time of the message, adjusted by priority.
    ///
    /// All jobs of a chain of preemptions have that of the first one.
    pub arrival: Timestamp,
    /// Order among messages with the same arrival time.
    pub sequence: u64,
    /// The jobs in front of which it was moved.
    pub path: Path,
    /// The job itself. This rarely decides anything.
    pub job: JobId,
}

/// The chain of jobs in front of which a job has moved.
///
/// Few of the many keys have a path, so it takes only a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path(Option<Rc<Box<[u32]>>>);

impl Key {
    /// A key before all others.
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

    /// Number of jobs that it preempts, directly or through others.
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
    fn path_of_child_sorts_before_its_parent() {
        let root = Path::default();
        let (first, second) = (root.child(0), root.child(1));
        let order = [first.child(0), first.child(1).child(9), first.child(1), first, second, root];
        assert!(order.is_sorted());
        assert!(order.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
