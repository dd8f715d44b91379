//! Worker that reads control files.

use super::obsoleted::ObsoletesFinder;
use super::verbose_messages::VerboseMessages;
use super::{Completion, CompletionSender, FileNews};
use crate::logging::mail_log::ArrivalLines;
use crate::state::duplicates::DuplicatesFile;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use zsched_bulk::status::write_before_move_aside;
use zsched_format::time::Timestamp;
use zsched_spool::load::{self, LoadObserver, LoadResult};
use zsched_spool::{HashLevel, Portion, Spool, SpoolName, SpoolOpener};

/// Number of files of a batch that are sorted by age.
///
/// They are read before the first of them is passed on.
const SORTED_FILES: usize = 256;

/// Request to the reader.
pub(super) enum ReadRequest {
    /// One that comes before all batches.
    Urgent(UrgentRead),
    /// New control files.
    Batch(Vec<NewFile>),
}

/// New control file, and the maximum number of recipients to read.
///
/// `None` is all.
pub(super) type NewFile = (SpoolName, Option<u32>);

/// Request that comes before all batches.
pub(super) enum UrgentRead {
    /// Read a new control file.
    New(NewFile),
    /// Read more of a control file.
    More(SpoolName, Portion),
    /// Read the control file of a loaded message again.
    Again(SpoolName),
}

/// Requests in the order in which they are carried out.
pub(super) struct ReadQueue {
    requests: Receiver<ReadRequest>,
    urgent: VecDeque<UrgentRead>,
    batches: VecDeque<Vec<NewFile>>,
}

impl ReadQueue {
    /// Creates a queue of the requests that come from a channel.
    pub(super) fn new(requests: Receiver<ReadRequest>) -> ReadQueue {
        ReadQueue { requests, urgent: VecDeque::new(), batches: VecDeque::new() }
    }

    fn push(&mut self, request: ReadRequest) {
        match request {
            ReadRequest::Urgent(urgent) => self.urgent.push_back(urgent),
            ReadRequest::Batch(names) => self.batches.push_back(names),
        }
    }

    /// Waits for the next request; `None` if the loop has ended.
    fn next(&mut self) -> Option<ReadRequest> {
        loop {
            if let Some(urgent) = self.next_urgent() {
                return Some(ReadRequest::Urgent(urgent));
            }
            if let Some(batch) = self.batches.pop_front() {
                return Some(ReadRequest::Batch(batch));
            }
            let request = self.requests.recv().ok()?;
            self.push(request);
        }
    }

    fn next_urgent(&mut self) -> Option<UrgentRead> {
        while let Ok(request) = self.requests.try_recv() {
            self.push(request);
        }
        self.urgent.pop_front()
    }
}

/// State of the worker.
pub(super) struct Reader {
    pub(super) spool: Spool,
    pub(super) opener: SpoolOpener,
    pub(super) level: HashLevel,
    pub(super) queue: ReadQueue,
    pub(super) completions: CompletionSender,
    pub(super) duplicates: Arc<DuplicatesFile>,
    pub(super) arrivals: ArrivalLines,
    pub(super) verbose: VerboseMessages,
    pub(super) obsoletes: ObsoletesFinder,
    /// Results to be sent.
    pub(super) portion: Vec<Completion>,
    /// True once the loop has ended: another scheduler may use the spool then.
    pub(super) is_over: bool,
}

impl Reader {
    /// Carries out requests until the loop has ended.
    pub(super) fn run(mut self) {
        while !self.is_over
            && let Some(request) = self.queue.next()
        {
            match request {
                ReadRequest::Urgent(urgent) => self.read_urgent(Some(urgent)),
                ReadRequest::Batch(names) => self.read_batch(names),
            }
            self.flush();
        }
    }

    fn read_urgent(&mut self, mut next: Option<UrgentRead>) {
        while !self.is_over
            && let Some(urgent) = next
        {
            let done = match urgent {
                UrgentRead::New(new) => self.read_new(new),
                UrgentRead::More(name, portion) => {
                    let found = self.reload(&name, Some(portion));
                    Completion::ChunkRead(name, Box::new(found))
                }
                UrgentRead::Again(name) => {
                    let found = self.reload(&name, None);
                    Completion::ReadAgain(name, Box::new(found))
                }
            };
            self.add(done);
            next = self.queue.next_urgent();
        }
        self.flush();
    }

    /// Reads a batch, with urgent requests in between.
    ///
    /// Of some files that are found together, the oldest is passed on first.
    fn read_batch(&mut self, names: Vec<NewFile>) {
        let mut files = Vec::with_capacity(SORTED_FILES.min(names.len()));
        let mut names = names.into_iter();
        while !self.is_over && names.len() > 0 {
            for file in names.by_ref().take(SORTED_FILES) {
                self.read_next_urgent();
                files.push(self.read_new(file));
            }
            files.sort_by_key(age);
            files.drain(..).for_each(|done| self.add(done));
        }
    }

    /// Reads the control file of a loaded message again, or a portion of it.
    fn reload(&mut self, name: &SpoolName, portion: Option<Portion>) -> LoadResult {
        match self.opener.open() {
            Ok(open) => load::reload(
                open,
                name,
                portion,
                &mut self.duplicates.sink(),
                write_before_move_aside,
            ),
            Err(error) => LoadResult::Failed(error),
        }
    }

    /// Reads a new control file.
    fn read_new(&mut self, (name, at_most): NewFile) -> Completion {
        let (spool, level, own_name) = (&self.spool, self.level, name.clone());
        let tell = &mut self.duplicates.sink();
        let (mut line, mut obsoleted) = (Vec::new(), Vec::new());
        let observer: LoadObserver<'_> = &mut |loaded| {
            self.verbose.add(spool, &loaded);
            line = self.arrivals.compose(&loaded);
            self.arrivals.keep_facts(&loaded);
            obsoleted = self.obsoletes.add(spool, &loaded);
        };
        let found = match self.opener.open() {
            Ok(open) => {
                load::load(open, level, own_name, at_most, tell, observer, write_before_move_aside)
            }
            Err(error) => LoadResult::Failed(error),
        };
        VerboseMessages::explain_refusal(spool, &name, &found);
        Completion::Read(name, Box::new(found), FileNews { line, obsoleted })
    }

    fn read_next_urgent(&mut self) {
        if let urgent @ Some(_) = self.queue.next_urgent() {
            self.read_urgent(urgent);
        }
    }

    fn add(&mut self, done: Completion) {
        self.is_over |= !self.completions.add(&mut self.portion, done);
    }

    fn flush(&mut self) {
        self.is_over |= !self.completions.flush(&mut self.portion);
    }
}

/// When a message arrived, and its number.
fn age(done: &Completion) -> (Timestamp, u64) {
    match done {
        Completion::Read(name, found, _) => match &**found {
            LoadResult::Arrival(arrival) => (arrival.created, name.number()),
            _ => (Timestamp::EPOCH, name.number()),
        },
        _ => (Timestamp::EPOCH, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::LoopWaker;
    use super::*;
    use crate::logging::mail_log::{MailLines, MailLog, MailLogs};
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{channel, sync_channel};
    use zsched_service::{AppendedFile, BackgroundLog};
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
        let (requests, reads) = channel();
        let spool = Spool::new("/nonexistent");
        let duplicates = Arc::new(DuplicatesFile::new(spool.duplicates_file()));
        let file = AppendedFile::open(Path::new("/dev/null"), "log", 0o600).expect("a log");
        let log = BackgroundLog::start(file, |_| Vec::new()).expect("a worker");
        let logs = MailLogs::new(None, &log, MailLines::None);
        let mut reader = Reader {
            opener: SpoolOpener::new(spool.clone()),
            spool,
            level: HashLevel::Flat,
            queue: ReadQueue::new(reads),
            completions: CompletionSender { sender, loop_waker: Arc::new(loop_waker) },
            duplicates,
            verbose: VerboseMessages::default(),
            obsoletes: ObsoletesFinder::new(Arc::default()),
            arrivals: MailLog::new(logs).arrival_lines(None),
            portion: Vec::new(),
            is_over: false,
        };
        let batch = |numbers: std::ops::Range<u64>| numbers.map(|n| (name(n), None)).collect();
        let urgent = ReadRequest::Urgent(UrgentRead::New((name(4711), None)));
        for request in [ReadRequest::Batch(batch(100..200)), urgent] {
            requests.send(request).expect("the reader is there");
        }
        reader.read_batch(batch(1..100));
        let first = results.try_recv().expect("a result").into_iter().next();
        assert!(matches!(first, Some(Completion::Read(first, ..)) if first == name(4711)));
        drop(requests);
        assert!(matches!(reader.queue.next(), Some(ReadRequest::Batch(_))));
        assert!(reader.queue.next().is_none());
    }
}
