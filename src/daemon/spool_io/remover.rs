//! Removes messages, several at a time while the disk is slow.
//!
//! In any order: the list of removals of the batch makes a kill between two of them harmless.

use super::parallel::for_each_in_parallel;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use zsched_spool::move_aside::{self, Reason};
use zsched_spool::{OpenSpool, Spool, SpoolName, remove};

/// A removal that takes longer has probably waited for the disk.
const SLOW_REMOVAL: Duration = Duration::from_micros(200);
/// Number of slow removals in a row after which several workers remove.
///
/// They share the rest of the batch, and wait for the disk together. On a fast disk one worker is
/// faster, as the removals from a folder exclude each other; a single slow one has waited for a
/// processor.
const SLOW_REMOVALS: usize = 3;

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
    fn carry_out(&self, spool: &Spool, open: &io::Result<&OpenSpool>) {
        let done = match (self.aside, open) {
            (true, _) => move_aside::move_aside(spool, &self.name, Reason::Undeliverable).map(Some),
            (false, Ok(open)) => remove::remove(open, &self.name).map(|()| None),
            (false, Err(error)) => Err(error.kind().into()),
        };
        // Each removal is carried out once.
        self.result.set(done).ok();
    }

    /// Carries out removals in any order. Returns each with its result.
    pub(super) fn carry_out_all(
        removals: Vec<Removal<T>>,
        spool: &Spool,
        open: &io::Result<&OpenSpool>,
    ) -> impl Iterator<Item = (SpoolName, T, io::Result<Option<PathBuf>>)> {
        let (mut started, mut slow) = (Instant::now(), 0);
        for (index, removal) in removals.iter().enumerate() {
            removal.carry_out(spool, open);
            let ended = Instant::now();
            slow = if ended - started > SLOW_REMOVAL { slow + 1 } else { 0 };
            if slow == SLOW_REMOVALS {
                let rest = &removals[index + 1..];
                for_each_in_parallel(rest, |removal| removal.carry_out(spool, open));
                break;
            }
            started = ended;
        }
        removals.into_iter().filter_map(|Removal { name, about, result, .. }| {
            Some((name, about, result.into_inner()?))
        })
    }
}
