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
use zsched_spool::load::{self, LoadObserver, LoadResult, LoadedFile};
use zsched_spool::{HashLevel, Portion, Spool, SpoolName, SpoolOpener};

/// Reads control files; several threads may do so at the same time.
pub(super) struct FileReader {
    pub(super) spool: Spool,
    pub(super) level: HashLevel,
    pub(super) duplicates: Arc<DuplicatesFile>,
    pub(super) observers: Mutex<ReadObservers>,
}

/// What takes note of each message that is read.
pub(super) struct ReadObservers {
    pub(super) arrivals: ArrivalLines,
    pub(super) verbose: VerboseMessages,
    pub(super) obsoletes: ObsoletesFinder,
}

impl FileReader {
    /// Reads the control file of a loaded message again, or a portion of it.
    pub(super) fn reload(
        &self,
        opener: &mut SpoolOpener,
        name: &SpoolName,
        portion: Option<Portion>,
    ) -> LoadResult {
        match opener.open() {
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
    pub(super) fn read_new(
        &self,
        opener: &mut SpoolOpener,
        (name, at_most): NewFile,
    ) -> Completion {
        let tell = &mut self.duplicates.sink();
        let mut news = FileNews::default();
        let observer: LoadObserver<'_> = &mut |loaded| news = self.observe(&loaded);
        let (level, own_name) = (self.level, name.clone());
        let found = match opener.open() {
            Ok(open) => {
                load::load(open, level, own_name, at_most, tell, observer, write_before_move_aside)
            }
            Err(error) => LoadResult::Failed(error),
        };
        VerboseMessages::explain_refusal(&self.spool, &name, &found);
        Completion::Read(name, Box::new(found), news)
    }

    fn observe(&self, loaded: &LoadedFile<'_>) -> FileNews {
        let mut observers = self.observers.lock().unwrap_or_else(PoisonError::into_inner);
        observers.verbose.add(&self.spool, loaded);
        observers.arrivals.keep_facts(loaded);
        let line = observers.arrivals.compose(loaded);
        FileNews { line, obsoleted: observers.obsoletes.add(&self.spool, loaded) }
    }
}

/// Files that several threads read.
pub(super) struct FileGroup(Mutex<vec::IntoIter<NewFile>>);

impl FileGroup {
    /// The next file that no thread has begun to read.
    pub(super) fn next(&self) -> Option<NewFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// What a thread has read of a group, and the time that this took.
type PartOfGroup = (Vec<Completion>, Duration);

/// Threads that help the reader. They are started when they are needed.
pub(super) struct ReadHelpers {
    files: Arc<FileReader>,
    groups: Vec<Sender<Arc<FileGroup>>>,
    result_sender: Sender<PartOfGroup>,
    results: Receiver<PartOfGroup>,
}

impl ReadHelpers {
    /// Creates none yet.
    pub(super) fn new(files: Arc<FileReader>) -> ReadHelpers {
        let (result_sender, results) = channel();
        ReadHelpers { files, groups: Vec::new(), result_sender, results }
    }

    /// Lets some threads read files of a group.
    ///
    /// If no more threads can be started, the present ones do it.
    pub(super) fn share(&mut self, files: Vec<NewFile>, threads: usize) -> Arc<FileGroup> {
        let group = Arc::new(FileGroup(Mutex::new(files.into_iter())));
        while self.groups.len() < threads && self.start_thread().is_ok() {}
        for thread in self.groups.iter().take(threads) {
            // A thread that has ended ends the scheduler.
            thread.send(group.clone()).ok();
        }
        group
    }

    fn start_thread(&mut self) -> std::io::Result<()> {
        let (sender, groups) = channel::<Arc<FileGroup>>();
        let (files, results) = (self.files.clone(), self.result_sender.clone());
        worker::start_in_background("read helper", move || {
            let mut opener = SpoolOpener::new(files.spool.clone());
            for group in groups {
                let began = Instant::now();
                let read = std::iter::from_fn(|| group.next());
                let read: Vec<_> = read.map(|file| files.read_new(&mut opener, file)).collect();
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
