//! Removes messages, several at a time while the disk is slow.
//!
//! In any order: the list of removals of the batch makes a kill between two of them harmless.

use super::parallel::for_each_in_parallel;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use zsched_spool::move_aside::{self, Reason};
use zsched_spool::{Spool, SpoolName, remove};

/// A removal that takes longer has waited for the disk.
///
/// The removals after it in a batch are shared by several workers, since they wait together. On a
/// fast disk one worker is faster, as the removals from a folder exclude each other.
const SLOW_REMOVAL: Duration = Duration::from_micros(200);

/// A message to be removed, and what else the writer knows about it.
pub(super) struct Removal<T> {
    pub name: SpoolName,
    /// If true, the message is moved to `postman/`.
    pub aside: bool,
    /// Passed through.
    pub about: T,
    result: OnceLock<io::Result<Option<PathBuf>>>,
}

impl<T: Sync> Removal<T> {
    pub(super) fn new(name: SpoolName, aside: bool, about: T) -> Removal<T> {
        Removal { name, aside, about, result: OnceLock::new() }
    }

    /// Removes the message. The result is its new path if it was moved aside.
    fn carry_out(&self, spool: &Spool) {
        let done = match self.aside {
            true => move_aside::move_aside(spool, &self.name, Reason::Undeliverable).map(Some),
            false => remove::remove(spool, &self.name).map(|()| None),
        };
        // Each removal is carried out once.
        self.result.set(done).ok();
    }

    /// Carries out removals in any order. Returns each with its result.
    pub(super) fn carry_out_all(
        removals: Vec<Removal<T>>,
        spool: &Spool,
    ) -> impl Iterator<Item = (SpoolName, T, io::Result<Option<PathBuf>>)> {
        let mut started = Instant::now();
        for (index, removal) in removals.iter().enumerate() {
            removal.carry_out(spool);
            let ended = Instant::now();
            if ended - started > SLOW_REMOVAL {
                for_each_in_parallel(&removals[index + 1..], |removal| removal.carry_out(spool));
                break;
            }
            started = ended;
        }
        removals.into_iter().filter_map(|Removal { name, about, result, .. }| {
            Some((name, about, result.into_inner()?))
        })
    }
}
