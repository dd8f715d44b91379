//! Worker that reads control files.

use super::duplicates::Duplicates;
use super::{Done, Results};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use zsched_spool::load::{self, FileStat, LoadResult};
use zsched_spool::{HashLevel, Portion, PossibleDuplicates, Spool, SpoolName};

/// Requests for the reader.
#[derive(Default)]
pub struct ReadQueue {
    requests: Mutex<Requests>,
    filled: Condvar,
}

#[derive(Default)]
struct Requests {
    urgent: VecDeque<Urgent>,
    batches: VecDeque<Vec<ToRead>>,
    is_closed: bool,
}

/// New control file, and the maximum number of open recipients to read; `None` is all.
pub type ToRead = (SpoolName, Option<u32>);

/// Request that comes before all batches.
pub enum Urgent {
    /// Read a new control file.
    Read(ToRead),
    /// Read more of a control file.
    More(SpoolName, Portion),
    /// Read the control file of a loaded message again.
    Again(SpoolName),
}

enum Request {
    Urgent(Urgent),
    Batch(Vec<ToRead>),
}

impl ReadQueue {
    /// Adds a request that comes before all batches.
    pub fn push_urgent(&self, urgent: Urgent) {
        self.lock().urgent.push_back(urgent);
        self.filled.notify_one();
    }

    /// Adds control files to be read, the oldest first.
    pub fn push_batch(&self, names: Vec<ToRead>) {
        self.lock().batches.push_back(names);
        self.filled.notify_one();
    }

    /// Closes the queue and discards its requests.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
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
                return Some(Request::Urgent(urgent));
            }
            if let Some(batch) = requests.batches.pop_front() {
                return Some(Request::Batch(batch));
            }
            requests = self.filled.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next_urgent(&self) -> Option<Urgent> {
        self.lock().urgent.pop_front()
    }
}

/// State of the worker.
pub struct Reader {
    spool: Spool,
    level: HashLevel,
    queue: Arc<ReadQueue>,
    put: Results,
    duplicates: Arc<Duplicates>,
    portion: Vec<Done>,
}

/// Error: the loop no longer receives results.
struct Unheard;

impl Reader {
    /// Creates a reader.
    pub fn new(
        spool: Spool,
        level: HashLevel,
        queue: Arc<ReadQueue>,
        put: Results,
        duplicates: Arc<Duplicates>,
    ) -> Reader {
        Reader { spool, level, queue, put, duplicates, portion: Vec::new() }
    }

    /// Carries out requests until the queue is closed.
    pub fn run(&mut self) {
        while let Some(request) = self.queue.next() {
            let heard = match request {
                Request::Urgent(urgent) => self.read_urgent(urgent),
                Request::Batch(names) => self.read_batch(names),
            };
            if heard.is_err() {
                return;
            }
        }
    }

    fn read_urgent(&mut self, urgent: Urgent) -> Result<(), Unheard> {
        let mut next = Some(urgent);
        let duplicates = self.duplicates.clone();
        let mut tell = |doubt: &PossibleDuplicates| duplicates.tell(doubt);
        while let Some(urgent) = next {
            let done = match urgent {
                Urgent::Read((name, at_most)) => {
                    let (spool, level) = (&self.spool, self.level);
                    let found = load::load(spool, level, name.clone(), at_most, &mut tell);
                    Done::Read(name, Box::new(found))
                }
                Urgent::More(name, portion) => {
                    let found = load::load_more(&self.spool, name.clone(), portion, &mut tell);
                    Done::MoreRead(name, Box::new(found))
                }
                Urgent::Again(name) => {
                    let found = load::reload(&self.spool, name.clone(), &mut tell);
                    Done::ReadAgain(name, Box::new(found))
                }
            };
            self.gather(done)?;
            next = self.queue.next_urgent();
        }
        self.put_rest()
    }

    /// Reads a batch, the oldest first, with urgent requests in between.
    fn read_batch(&mut self, names: Vec<ToRead>) -> Result<(), Unheard> {
        let mut files = Vec::with_capacity(names.len());
        for (name, at_most) in names {
            self.read_what_is_urgent()?;
            match FileStat::at(&self.spool, &name) {
                Ok(Some(look)) => files.push((look, name, at_most)),
                Ok(None) => self.gather(Done::Read(name, Box::new(LoadResult::Nothing)))?,
                Err(error) => self.gather(Done::Read(name, Box::new(LoadResult::Failed(error))))?,
            }
        }
        files.sort_by_key(|(look, name, _)| (look.changed, name.number()));
        for (look, name, at_most) in files {
            self.read_what_is_urgent()?;
            let tell = &mut |doubt: &PossibleDuplicates| self.duplicates.tell(doubt);
            let (spool, level) = (&self.spool, self.level);
            let found = load::load_examined(spool, level, name.clone(), &look, at_most, tell);
            self.gather(Done::Read(name, Box::new(found)))?;
        }
        self.put_rest()
    }

    fn read_what_is_urgent(&mut self) -> Result<(), Unheard> {
        self.queue.next_urgent().map_or(Ok(()), |urgent| self.read_urgent(urgent))
    }

    fn gather(&mut self, done: Done) -> Result<(), Unheard> {
        if self.put.gather(&mut self.portion, done) { Ok(()) } else { Err(Unheard) }
    }

    fn put_rest(&mut self) -> Result<(), Unheard> {
        if self.put.put_rest(&mut self.portion) { Ok(()) } else { Err(Unheard) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bell;
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
        let bell = Bell { waker: Arc::new(waker), has_rung: AtomicBool::new(false) };
        let (sender, results) = sync_channel(100);
        let queue = Arc::new(ReadQueue::default());
        let put = Results { sender, bell: Arc::new(bell) };
        let spool = Spool::new("/nonexistent");
        let duplicates = Arc::new(Duplicates::new(spool.duplicates_file()));
        let mut reader = Reader::new(spool, HashLevel::Flat, queue.clone(), put, duplicates);
        queue.push_urgent(Urgent::Read((name(4711), None)));
        assert!(reader.read_batch((1..100).map(|n| (name(n), None)).collect()).is_ok());
        let first = results.try_recv().expect("a result").into_iter().next();
        assert!(matches!(first, Some(Done::Read(first, _)) if first == name(4711)));
    }
}
