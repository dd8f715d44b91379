//! Lookup worker for MAILQ clients: finds on disk what is not in memory.
//!
//! It has no part in delivery, so that a slow disk delays only the clients with lookups. Each
//! client has at most one lookup under way, with a limited number of files. Lookups are answered in
//! order of arrival. So a client with a lookup of a million files makes it in parts and does not
//! delay the others.

use mio::Waker;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use zsched_format::control_file::{parse, read_all};
use zsched_mailq_server::v2::{
    Candidate, DiskSpace, FileCriteria, HostFacts, Lookup, LookupResult,
};
use zsched_service::worker;
use zsched_spool::{Spool, SpoolName, error_address};
use zsched_sys as sys;

/// The loop's end of the worker. Each client has at most one lookup under way.
pub(crate) struct LookupWorker {
    requests: Sender<(usize, Lookup)>,
    results: Receiver<(usize, Option<LookupResult>)>,
}

/// Paths the worker needs.
struct LookupPaths {
    spool: Spool,
    log: Option<PathBuf>,
}

impl LookupWorker {
    /// Starts the worker, which wakes the loop through `waker`.
    pub(crate) fn start(
        spool: Spool,
        log: Option<PathBuf>,
        waker: Arc<Waker>,
    ) -> io::Result<LookupWorker> {
        let (requests, asked) = channel::<(usize, Lookup)>();
        let (found, results) = channel();
        let paths = LookupPaths { spool, log };
        worker::start("lookups", move || {
            answer_all(&asked, &found, &waker, |lookup| paths.find(lookup));
        })?;
        Ok(LookupWorker { requests, results })
    }

    /// Starts a lookup for a client.
    pub(crate) fn ask(&self, client: usize, lookup: Lookup) {
        self.requests.send((client, lookup)).expect("the worker runs until the loop ends");
    }

    /// Removes and returns the next result and its client.
    ///
    /// The result is `None` if the lookup has panicked and the client is to be disconnected.
    pub(crate) fn next_result(&self) -> Option<(usize, Option<LookupResult>)> {
        self.results.try_recv().ok()
    }
}

/// Answers lookups in order until the loop is gone.
fn answer_all(
    asked: &Receiver<(usize, Lookup)>,
    found: &Sender<(usize, Option<LookupResult>)>,
    waker: &Waker,
    find: impl Fn(&Lookup) -> LookupResult,
) {
    while let Ok((client, lookup)) = asked.recv() {
        if found.send((client, worker::catch_panic(|| find(&lookup)))).is_err() {
            return;
        }
        // Waking fails only if the loop is gone. Then the result is not needed.
        drop(waker.wake());
    }
}

impl LookupPaths {
    fn find(&self, lookup: &Lookup) -> LookupResult {
        match lookup {
            Lookup::ErrorAddresses(names) => {
                // The message may have left the spool meanwhile.
                let address = |name| error_address(&self.spool, name).ok().flatten();
                LookupResult::ErrorAddresses(names.iter().map(address).collect())
            }
            Lookup::MatchFiles(criteria, candidates) => {
                let of_messages = candidates.chunk_by(|a, b| a.name == b.name);
                let fitting = of_messages.flat_map(|of_one| self.fitting(criteria, of_one));
                LookupResult::MatchFiles(fitting.collect())
            }
            Lookup::Host => LookupResult::Host(HostFacts {
                pid: std::process::id(),
                load: sys::load_averages(),
                disks: [
                    space(self.spool.queue()),
                    space(self.spool.transport()),
                    self.log.as_deref().map_or(DiskSpace::default(), space),
                ],
            }),
        }
    }

    /// Returns for each candidate of one message whether it matches.
    ///
    /// None matches if a file cannot be read or parsed.
    fn fitting(&self, criteria: &FileCriteria, candidates: &[Candidate]) -> Vec<bool> {
        self.matches_in(criteria, candidates).unwrap_or_else(|| vec![false; candidates.len()])
    }

    fn matches_in(&self, criteria: &FileCriteria, candidates: &[Candidate]) -> Option<Vec<bool>> {
        let name = &candidates.first()?.name;
        if criteria.has_size() {
            let message = fs::symlink_metadata(self.spool.message_file(name)).ok()?;
            criteria.matches_size(message.len()).then_some(())?;
        }
        if !criteria.addresses.is_given() {
            return Some(vec![true; candidates.len()]);
        }
        let file = parse(self.read(name).ok()?).ok()?;
        let destinations = candidates.iter().map(|candidate| &*candidate.destination);
        Some(criteria.addresses.matches_in(&file, &destinations.collect::<Vec<&[u8]>>()))
    }

    fn read(&self, name: &SpoolName) -> io::Result<Vec<u8>> {
        let path = self.spool.control_file(name);
        let file = sys::open_nofollow(File::options().read(true), &path)?;
        let size = file.metadata()?.len();
        read_all(&file, size)
    }
}

fn space(path: &Path) -> DiskSpace {
    let Ok(found) = sys::statvfs(path) else {
        return DiskSpace::default();
    };
    let kilobytes = |blocks: u64| blocks.saturating_mul(found.f_frsize) / 1024;
    DiskSpace {
        free_kb: kilobytes(found.f_bavail),
        used_kb: kilobytes(found.f_blocks.saturating_sub(found.f_bfree)),
        free_files: found.f_favail,
        used_files: found.f_files.saturating_sub(found.f_ffree),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_that_panics_affects_only_its_client() {
        let poll = mio::Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let ((requests, asked), (found, results)) = (channel(), channel());
        for client in 1..=3 {
            let kinds = [Lookup::Host, Lookup::ErrorAddresses(Vec::new())];
            requests.send((client, kinds[client % 2].clone())).expect("sent");
        }
        drop(requests);
        answer_all(&asked, &found, &waker, |lookup| match lookup {
            Lookup::Host => panic!("as planned"),
            _ => LookupResult::ErrorAddresses(Vec::new()),
        });
        let answered: Vec<(usize, bool)> =
            results.try_iter().map(|(client, found)| (client, found.is_some())).collect();
        assert_eq!(answered, [(1, true), (2, false), (3, true)]);
    }
}
