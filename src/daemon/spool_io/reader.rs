//! Worker that reads control files.

use super::file_reader::{FileGroup, FileReader, ReadHelpers};
use super::{Completion, CompletionSender};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use std::vec;
use zsched_format::time::Timestamp;
use zsched_spool::load::LoadResult;
use zsched_spool::{Portion, SpoolName};

/// Number of files of a batch that are sorted by age.
///
/// They are read before the first of them is passed on.
const SORTED_FILES: usize = 256;

/// Number of threads that help to read a group of files.
const USUAL_HELPERS: usize = 1;
/// Number of threads that help to read a group of files from a slow disk.
const MAX_HELPERS: usize = 7;
/// Minimum number of files in a group for each of these threads.
const MIN_FILES_PER_HELPER: usize = 32;
/// Time to read a file from a slow disk.
const SLOW_READ: Duration = Duration::from_micros(200);

/// Request to the reader.
pub(super) enum ReadRequest {
    /// Some that come before all batches.
    Urgent(Vec<UrgentRead>),
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
            ReadRequest::Urgent(urgent) => self.urgent.extend(urgent),
            ReadRequest::Batch(names) => self.batches.push_back(names),
        }
    }

    /// Waits for a request. Returns false if there is none, and the loop has ended.
    fn wait(&mut self) -> bool {
        if self.urgent.is_empty() && self.batches.is_empty() {
            match self.requests.recv() {
                Ok(request) => self.push(request),
                Err(_) => return false,
            }
        }
        true
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
    files: FileReader,
    helpers: ReadHelpers,
    queue: ReadQueue,
    completions: CompletionSender,
    /// Results to be sent.
    portion: Vec<Completion>,
    /// True if the last group of files took [`SLOW_READ`] for each.
    is_slow: bool,
    /// True once the loop has ended: another scheduler may use the spool then.
    is_over: bool,
}

impl Reader {
    /// Creates a reader that has read nothing.
    pub(super) fn new(
        files: FileReader,
        queue: ReadQueue,
        completions: CompletionSender,
    ) -> Reader {
        Reader {
            helpers: ReadHelpers::new(files.clone()),
            files,
            queue,
            completions,
            portion: Vec::new(),
            is_slow: false,
            is_over: false,
        }
    }

    /// Carries out requests until the loop has ended.
    pub(super) fn run(mut self) {
        while !self.is_over && self.queue.wait() {
            self.read_urgent();
            if let Some(names) = self.queue.batches.pop_front() {
                self.read_batch(names);
                self.flush();
            }
        }
    }

    /// Carries out urgent requests until there are none, and passes on what they have found.
    fn read_urgent(&mut self) {
        let mut has_read = false;
        while !self.is_over
            && let Some(urgent) = self.queue.next_urgent()
        {
            has_read = true;
            let files = &mut self.files;
            let done = match urgent {
                UrgentRead::New(new) => files.read_new(new),
                UrgentRead::More(name, portion) => {
                    let found = files.reload(&name, Some(portion));
                    Completion::ChunkRead(name, found)
                }
                UrgentRead::Again(name) => {
                    let found = files.reload(&name, None);
                    Completion::ReadAgain(name, found)
                }
            };
            self.add(done);
        }
        if has_read {
            self.flush();
        }
    }

    /// Reads a batch, with urgent requests in between.
    ///
    /// Of some files that are found together, the oldest is passed on first. Meanwhile the helpers
    /// begin with the next ones.
    fn read_batch(&mut self, names: Vec<NewFile>) {
        let mut names = names.into_iter();
        let mut next = self.share_group(&mut names);
        while !self.is_over
            && let Some(group) = next
        {
            let mut files = self.read_group(group);
            next = self.share_group(&mut names);
            files.sort_by_key(age);
            files.into_iter().for_each(|done| self.add(done));
        }
    }

    /// Lets the helpers begin to read some files, if there are many of them.
    fn share_group(&mut self, names: &mut vec::IntoIter<NewFile>) -> Option<Arc<FileGroup>> {
        let group: Vec<NewFile> = names.take(SORTED_FILES).collect();
        let most = if self.is_slow { MAX_HELPERS } else { USUAL_HELPERS };
        let helpers = most.min(group.len() / MIN_FILES_PER_HELPER);
        (!group.is_empty()).then(|| self.helpers.share(group, helpers))
    }

    /// Reads the files of a group together with the helpers, with urgent requests in between.
    fn read_group(&mut self, group: Arc<FileGroup>) -> Vec<Completion> {
        let count = group.count();
        let (mut done, mut time) = (Vec::with_capacity(count), Duration::ZERO);
        while let Some(file) = group.next() {
            self.read_urgent();
            let began = Instant::now();
            done.push(self.files.read_new(file));
            time += began.elapsed();
        }
        while done.len() < count {
            let (read, took) = self.helpers.next_result();
            done.extend(read);
            time += took;
        }
        self.is_slow = time > SLOW_READ * count as u32;
        done
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
        Completion::Read(name, found, _) => match found {
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
    use crate::spool_io::obsoleted::ObsoletesFinder;
    use crate::spool_io::verbose_messages::VerboseMessages;
    use crate::state::duplicates::DuplicatesFile;
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::{Sender, channel, sync_channel};
    use zsched_service::{AppendedFile, BackgroundLog};
    use zsched_spool::{HashFolder, HashLevel, Spool, SpoolOpener};

    fn name(number: u64) -> SpoolName {
        SpoolName::new(HashFolder::TOP, number.to_string().as_bytes()).expect("a name")
    }

    /// Creates a reader of a spool, and the other ends of its channels.
    fn reader(spool: Spool) -> (Reader, Sender<ReadRequest>, Receiver<Vec<Completion>>) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        let loop_waker = LoopWaker { waker: Arc::new(waker), is_awake: AtomicBool::new(false) };
        let (sender, results) = sync_channel(100);
        let (requests, reads) = channel();
        let file = AppendedFile::open(Path::new("/dev/null"), "log", 0o600).expect("a log");
        let log = BackgroundLog::start(file, |_| Vec::new()).expect("a worker");
        let logs = MailLogs::new(None, &log, MailLines::None);
        let files = FileReader {
            duplicates: Arc::new(DuplicatesFile::new(spool.duplicates_file())),
            opener: SpoolOpener::new(spool.clone()),
            spool,
            level: HashLevel::Flat,
            arrivals: MailLog::new(logs).arrival_lines(None),
            verbose: VerboseMessages::default(),
            obsoletes: ObsoletesFinder::new(Arc::default()),
        };
        let completions = CompletionSender { sender, loop_waker: Arc::new(loop_waker) };
        (Reader::new(files, ReadQueue::new(reads), completions), requests, results)
    }

    fn batch(numbers: std::ops::Range<u64>) -> Vec<NewFile> {
        numbers.map(|number| (name(number), None)).collect()
    }

    #[test]
    fn urgent_read_is_not_delayed_by_batch() {
        let (mut reader, requests, results) = reader(Spool::new("/nonexistent"));
        let urgent = ReadRequest::Urgent(vec![UrgentRead::New((name(4711), None))]);
        for request in [ReadRequest::Batch(batch(100..200)), urgent] {
            requests.send(request).expect("the reader is there");
        }
        reader.read_batch(batch(1..100));
        let first = results.try_recv().expect("a result").into_iter().next();
        assert!(matches!(first, Some(Completion::Read(first, ..)) if first == name(4711)));
        drop(requests);
        assert!(reader.queue.wait());
        assert!(reader.queue.batches.pop_front().is_some());
        assert!(!reader.queue.wait());
    }

    /// Several threads read files, and move malformed ones aside.
    #[test]
    fn each_file_of_a_batch_is_read_once() {
        const COUNT: u64 = 1000;
        for is_slow in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let spool = Spool::new(folder.path());
            spool.create().expect("a spool");
            for number in 1..=COUNT {
                let own_name = if number % 5 == 0 { 0 } else { number };
                let text = format!("i {own_name}\ns l - a 0\nr           c h u 0\nm\n\n");
                fs::write(spool.control_file(&name(number)), text).expect("written");
                fs::write(spool.message_file(&name(number)), "").expect("written");
            }
            let (mut reader, _requests, results) = reader(spool.clone());
            reader.is_slow = is_slow;
            reader.read_batch(batch(1..COUNT + 1));
            reader.flush();
            let mut read = Vec::new();
            for done in results.try_iter().flatten() {
                let Completion::Read(name, found, _) = done else { panic!("another result") };
                match found {
                    LoadResult::Arrival(_) => assert_ne!(name.number() % 5, 0),
                    LoadResult::Malformed { moved, .. } => {
                        assert_eq!(name.number() % 5, 0);
                        assert!(moved.expect("moved").exists());
                    }
                    other => panic!("{other:?}"),
                }
                read.push(name.number());
            }
            read.sort_unstable();
            assert_eq!(read, (1..=COUNT).collect::<Vec<u64>>());
        }
    }
}
