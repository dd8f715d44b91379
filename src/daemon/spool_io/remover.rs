//! Removes messages, several at a time if there are many, or if the disk is slow.
//!
//! In any order: the list of removals of the batch makes a kill between two of them harmless.

use super::parallel::{MAX_WORKERS, for_each_in_parallel};
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zsched_spool::move_aside::{self, Reason};
use zsched_spool::{OpenSpool, Spool, SpoolName, remove};

/// A removal that takes longer has probably waited for the disk.
const SLOW_REMOVAL: Duration = Duration::from_micros(200);
/// Number of slow removals in a row after which [`MAX_WORKERS`] share the rest of the batch.
///
/// They wait for the disk together. A single slow removal has waited for a processor.
const SLOW_REMOVALS: usize = 3;
/// Number of removals from which two workers share a batch on a fast disk, too.
///
/// Batches of this size come only if delivery is faster than one worker. In a smaller one, the
/// start of the second worker would cost more than it saves.
const SHARED_REMOVALS: usize = 128;

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
        let slow = AtomicUsize::new(0);
        let workers = if removals.len() < SHARED_REMOVALS { 1 } else { 2 };
        for_each_in_parallel(&removals, workers, |removal| {
            if slow.load(Ordering::Relaxed) < SLOW_REMOVALS {
                let started = Instant::now();
                removal.carry_out(spool, open);
                if started.elapsed() > SLOW_REMOVAL {
                    slow.fetch_add(1, Ordering::Relaxed);
                } else {
                    slow.store(0, Ordering::Relaxed);
                }
            }
        });
        // Some are left if the disk is slow.
        let rest: Vec<_> = removals.iter().filter(|one| one.result.get().is_none()).collect();
        for_each_in_parallel(&rest, MAX_WORKERS, |removal| removal.carry_out(spool, open));
        removals.into_iter().filter_map(|Removal { name, about, result, .. }| {
            Some((name, about, result.into_inner()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use zsched_spool::HashFolder;

    /// Removes messages. Returns their numbers, and the number of files that are left.
    fn remove_messages(count: u64) -> (Vec<u64>, usize) {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        let name = |number| SpoolName::plain(HashFolder::TOP, number);
        for number in 1..=count {
            fs::write(spool.control_file(&name(number)), "").expect("written");
            fs::write(spool.message_file(&name(number)), "").expect("written");
        }
        let removals = (1..=count).map(|number| Removal::new(name(number), false, number));
        let folders = OpenSpool::new(spool.clone()).expect("its folders are open");
        let open = Ok(&folders);
        let done = Removal::carry_out_all(removals.collect(), &spool, &open);
        let done = done.map(|(name, number, removed)| {
            assert_eq!((name.number(), removed.expect("removed")), (number, None));
            number
        });
        let done = done.collect();
        let files = |folder| fs::read_dir(folder).expect("a folder").count();
        (done, files(spool.transport()) + files(spool.queue()))
    }

    #[test]
    fn messages_of_any_batch_are_removed_and_reported_in_order() {
        let empty = remove_messages(0).1;
        for count in [1, 3, SHARED_REMOVALS as u64 - 1, 1000] {
            assert_eq!(remove_messages(count), ((1..=count).collect(), empty));
        }
    }
}
