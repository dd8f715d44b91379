//! Worker that reads control files.

use super::{Completion, CompletionSender};
use crate::state::duplicates::DuplicatesFile;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use zsched_spool::load::{self, FileStat, LoadResult};
use zsched_spool::{HashLevel, Portion, PossibleDuplicates, Spool, SpoolName};

/// Requests for the reader.
#[derive(Default)]
pub(super) struct ReadQueue {
    requests: Mutex<ReadRequests>,
    filled: Condvar,
}

#[derive(Default)]
struct ReadRequests {
    urgent: VecDeque<UrgentRead>,
    batches: VecDeque<Vec<ReadRequest>>,
    is_closed: bool,
}

/// New control file, and the maximum number of open recipients to read; `None` is all.
pub(super) type ReadRequest = (SpoolName, Option<u32>);

/// Request that comes before all batches.
pub(super) enum UrgentRead {
    /// Read a new control file.
    Read(ReadRequest),
    /// Read more of a control file.
    Chunk(SpoolName, Portion),
    /// Read the control file of a loaded message again.
    Reread(SpoolName),
}

enum Request {
    UrgentRead(UrgentRead),
    Batch(Vec<ReadRequest>),
}

impl ReadQueue {
    /// Adds a request that comes before all batches.
    pub(super) fn push_urgent(&self, urgent: UrgentRead) {
        self.lock().urgent.push_back(urgent);
        self.filled.notify_one();
    }

    /// Adds control files to be read, the oldest first.
    pub(super) fn push_batch(&self, names: Vec<ReadRequest>) {
        self.lock().batches.push_back(names);
        self.filled.notify_one();
    }

    /// Closes the queue and discards its requests.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, ReadRequests> {
        // No code panics while holding it, and a queue stays valid in any case.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next request; `None` if the queue is closed.
    fn next(&self) -> Option<Request> {
        let mut requests = self.lock();
        loop {
            if requests.is_closed {
                return None;
            }
            if let Some(urgent) = requests.urgent.pop_front() {
                return Some(Request::UrgentRead(urgent));
            }
            if let Some(batch) = requests.batches.pop_front() {
                return Some(Request::Batch(batch));
            }
            requests = self.filled.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next_urgent(&self) -> Option<UrgentRead> {
        self.lock().urgent.pop_front()
    }
}

/// State of the worker.
pub(super) struct Reader {
    spool: Spool,
    level: HashLevel,
    queue: Arc<ReadQueue>,
    completions: CompletionSender,
    duplicates: Arc<DuplicatesFile>,
    portion: Vec<Completion>,
}

/// Error: the loop no longer receives results.
struct LoopGone;

impl Reader {
    /// Creates a reader.
    pub(super) fn new(
        spool: Spool,
        level: HashLevel,
        queue: Arc<ReadQueue>,
        completions: CompletionSender,
        duplicates: Arc<DuplicatesFile>,
    ) -> Reader {
        Reader { spool, level, queue, completions, duplicates, portion: Vec::new() }
    }

    /// Carries out requests until the queue is closed.
    pub(super) fn run(&mut self) {
        while let Some(request) = self.queue.next() {
            let heard = match request {
                Request::UrgentRead(urgent) => self.read_urgent(urgent),
                Request::Batch(names) => self.read_batch(names),
            };
            if heard.is_err() {
                return;
            }
        }
    }

    fn read_urgent(&mut self, urgent: UrgentRead) -> Result<(), LoopGone> {
        let mut next = Some(urgent);
        let duplicates = self.duplicates.clone();
        let mut tell = |doubt: &PossibleDuplicates| duplicates.record(doubt);
        while let Some(urgent) = next {
            let done = match urgent {
                UrgentRead::Read((name, at_most)) => {
                    let (spool, level) = (&self.spool, self.level);
                    let found = load::load(spool, level, name.clone(), at_most, &mut tell);
                    Completion::Read(name, Box::new(found))
                }
                UrgentRead::Chunk(name, portion) => {
                    let found = load::load_more(&self.spool, name.clone(), portion, &mut tell);
                    Completion::ChunkRead(name, Box::new(found))
                }
                UrgentRead::Reread(name) => {
                    let found = load::reload(&self.spool, name.clone(), &mut tell);
                    Completion::ReadAgain(name, Box::new(found))
                }
            };
            self.add(done)?;
            next = self.queue.next_urgent();
        }
        self.flush()
    }

    /// Reads a batch, the oldest first, with urgent requests in between.
    fn read_batch(&mut self, names: Vec<ReadRequest>) -> Result<(), LoopGone> {
        let mut files = Vec::with_capacity(names.len());
        for (name, at_most) in names {
            self.read_next_urgent()?;
            match FileStat::at(&self.spool, &name) {
                Ok(Some(look)) => files.push((look, name, at_most)),
                Ok(None) => self.add(Completion::Read(name, Box::new(LoadResult::Nothing)))?,
                Err(error) => {
                    self.add(Completion::Read(name, Box::new(LoadResult::Failed(error))))?
                }
            }
        }
        files.sort_by_key(|(look, name, _)| (look.changed, name.number()));
        for (look, name, at_most) in files {
            self.read_next_urgent()?;
            let tell = &mut |doubt: &PossibleDuplicates| self.duplicates.record(doubt);
            let (spool, level) = (&self.spool, self.level);
            let found = load::load_examined(spool, level, name.clone(), &look, at_most, tell);
            self.add(Completion::Read(name, Box::new(found)))?;
        }
        self.flush()
    }

    fn read_next_urgent(&mut self) -> Result<(), LoopGone> {
        self.queue.next_urgent().map_or(Ok(()), |urgent| self.read_urgent(urgent))
    }

    fn add(&mut self, done: Completion) -> Result<(), LoopGone> {
        if self.completions.add(&mut self.portion, done) { Ok(()) } else { Err(LoopGone) }
    }

    fn flush(&mut self) -> Result<(), LoopGone> {
        if self.completions.flush(&mut self.portion) { Ok(()) } else { Err(LoopGone) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LoopWaker;
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::sync_channel;
    use zsched_spool::HashFolder;

    fn name(number: u64) -> SpoolName {
        SpoolName::new(HashFolder::TOP, number.to_string().as_bytes()).expect("a name")
    }

    #[test]
    fn urgent_read_is_not_delayed_by_batch() {
        let poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let loop_waker = LoopWaker { waker: Arc::new(waker), is_awake: AtomicBool::new(false) };
        let (sender, results) = sync_channel(100);
        let queue = Arc::new(ReadQueue::default());
        let completions = CompletionSender { sender, loop_waker: Arc::new(loop_waker) };
        let spool = Spool::new("/nonexistent");
        let duplicates = Arc::new(DuplicatesFile::new(spool.duplicates_file()));
        let mut reader =
            Reader::new(spool, HashLevel::Flat, queue.clone(), completions, duplicates);
        queue.push_urgent(UrgentRead::Read((name(4711), None)));
        assert!(reader.read_batch((1..100).map(|n| (name(n), None)).collect()).is_ok());
        let first = results.try_recv().expect("a result").into_iter().next();
        assert!(matches!(first, Some(Completion::Read(first, _)) if first == name(4711)));
    }
}
