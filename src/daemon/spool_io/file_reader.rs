//! Reads control files, in the reader and the threads that help it.

use super::obsoleted::ObsoletesFinder;
use super::reader::NewFile;
use super::verbose_messages::VerboseMessages;
use super::{Completion, FileNews};
use crate::logging::mail_log::ArrivalLines;
use crate::state::duplicates::DuplicatesFile;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::vec;
use zsched_bulk::status::write_before_move_aside;
use zsched_service::worker;
use zsched_spool::load::{self, LoadObserver, LoadResult};
use zsched_spool::{HashLevel, Portion, Spool, SpoolName, SpoolOpener};

/// Reads control files. Each thread has its own, which shares what it finds with the others.
#[derive(Clone)]
pub(super) struct FileReader {
    pub(super) spool: Spool,
    pub(super) opener: SpoolOpener,
    pub(super) level: HashLevel,
    pub(super) duplicates: Arc<DuplicatesFile>,
    pub(super) arrivals: ArrivalLines,
    pub(super) verbose: VerboseMessages,
    pub(super) obsoletes: ObsoletesFinder,
}

impl FileReader {
    /// Reads the control file of a loaded message again, or a portion of it.
    pub(super) fn reload(&mut self, name: &SpoolName, portion: Option<Portion>) -> LoadResult {
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
    pub(super) fn read_new(&mut self, (name, at_most): NewFile) -> Completion {
        let FileReader { spool, opener, level, duplicates, arrivals, verbose, obsoletes } = self;
        let mut news = FileNews::default();
        let (tell, own_name) = (&mut duplicates.sink(), name.clone());
        let found = match opener.open() {
            Ok(open) => {
                let observer: LoadObserver<'_> = &mut |loaded| {
                    verbose.add(spool, &loaded);
                    arrivals.keep_facts(&loaded);
                    news.line = arrivals.compose(&loaded);
                    news.obsoleted = obsoletes.add(spool, &loaded);
                };
                load::load(open, *level, own_name, at_most, tell, observer, write_before_move_aside)
            }
            Err(error) => LoadResult::Failed(error),
        };
        VerboseMessages::explain_refusal(spool, &name, &found);
        Completion::Read(name, found, news)
    }
}

/// Files that several threads read.
pub(super) struct FileGroup {
    count: usize,
    unread: Mutex<vec::IntoIter<NewFile>>,
}

impl FileGroup {
    fn new(files: Vec<NewFile>) -> FileGroup {
        FileGroup { count: files.len(), unread: Mutex::new(files.into_iter()) }
    }

    /// Number of all its files.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The next file that no thread has begun to read.
    pub(super) fn next(&self) -> Option<NewFile> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// What a thread has read of a group, and the time that this took.
type PartOfGroup = (Vec<Completion>, Duration);

/// Threads that help the reader. They are started when they are needed.
pub(super) struct ReadHelpers {
    files: FileReader,
    groups: Vec<Sender<Arc<FileGroup>>>,
    result_sender: Sender<PartOfGroup>,
    results: Receiver<PartOfGroup>,
}

impl ReadHelpers {
    /// Creates none yet.
    pub(super) fn new(files: FileReader) -> ReadHelpers {
        let (result_sender, results) = channel();
        ReadHelpers { files, groups: Vec::new(), result_sender, results }
    }

    /// Lets some threads read files of a group.
    ///
    /// If no more threads can be started, the present ones do it.
    pub(super) fn share(&mut self, files: Vec<NewFile>, threads: usize) -> Arc<FileGroup> {
        let group = Arc::new(FileGroup::new(files));
        while self.groups.len() < threads && self.start_thread().is_ok() {}
        for thread in self.groups.iter().take(threads) {
            // A thread that has ended ends the scheduler.
            thread.send(group.clone()).ok();
        }
        group
    }

    fn start_thread(&mut self) -> std::io::Result<()> {
        let (sender, groups) = channel::<Arc<FileGroup>>();
        let (mut files, results) = (self.files.clone(), self.result_sender.clone());
        worker::start_in_background("read helper", move || {
            for group in groups {
                let began = Instant::now();
                let read = std::iter::from_fn(|| group.next());
                let read: Vec<_> = read.map(|file| files.read_new(file)).collect();
                if !read.is_empty() && results.send((read, began.elapsed())).is_err() {
                    return;
                }
            }
        })?;
        self.groups.push(sender);
        Ok(())
    }

    /// Waits for what a thread has read.
    pub(super) fn next_result(&self) -> PartOfGroup {
        self.results.recv().expect("this has a sender, too")
    }
}
