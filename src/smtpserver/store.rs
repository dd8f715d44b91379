//! Writes submissions, and gives them to the router. A message that is stored is on disk.
//!
//! What waits is stored together: the files are synced at the same time, and share the sync of the
//! folder. A hundred clients cost few syncs more than one, and a single client waits for no timer.

use super::session::{Answer, Reply};
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use zsched_spool::submit::notify;
use zsched_spool::{HashLevel, PublishedSubmission, Spool, SubmissionFile};

/// Maximum number of parts that are written before the complete submissions are synced.
const MAX_BATCH: usize = 256;
/// Number of workers: one writes while the other one syncs.
pub(crate) const WORKERS: usize = 2;

/// Where submissions go.
#[derive(Clone, Debug)]
pub struct Store {
    /// The spool.
    pub spool: Spool,
    /// Nesting of `router/`.
    pub level: HashLevel,
    /// The socket of the router.
    pub router_socket: PathBuf,
}

/// Which request of which connection is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) connection: usize,
    pub(crate) number: u64,
}

/// A part of a submission.
pub(crate) struct StoreJob {
    pub(crate) ticket: Ticket,
    /// What is written already.
    pub(crate) file: Option<SubmissionFile>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_last: bool,
}

/// An answer to a connection.
pub(crate) struct Done {
    pub(crate) ticket: Ticket,
    pub(crate) answer: Answer,
    /// The submission, if more of it is to come.
    pub(crate) file: Option<SubmissionFile>,
}

/// The reply to an error of the spool. The client tries again in any case.
fn failure(error: &io::Error) -> Reply {
    log::error!("a submission cannot be stored: {error}");
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Reply::new(452, "4.3.1", "Not enough disk space")
        }
        _ => Reply::failure(),
    }
}

impl Store {
    /// Adds bytes to a submission, which is created if there is none.
    pub fn append(
        &self,
        file: Option<SubmissionFile>,
        bytes: &[u8],
    ) -> Result<SubmissionFile, Reply> {
        let write = || {
            let mut file = match file {
                Some(file) => file,
                None => SubmissionFile::create(&self.spool)?,
            };
            file.write_all(bytes)?;
            Ok(file)
        };
        write().map_err(|error| failure(&error))
    }

    /// Syncs submissions, and gives them to the router.
    pub fn publish(
        &self,
        files: Vec<SubmissionFile>,
    ) -> impl Iterator<Item = Result<PublishedSubmission, Reply>> {
        let results = SubmissionFile::publish_all(files, self.level);
        results.into_iter().map(|result| {
            let published = result.map_err(|error| failure(&error))?;
            // Otherwise the router finds it by its next scan.
            notify(&self.router_socket, &format!("NEW router {}", published.name)).ok();
            Ok(published)
        })
    }

    /// Works on what comes, until nothing can come any more.
    pub(crate) fn work(&self, jobs: &Arc<Mutex<Receiver<StoreJob>>>, done: &dyn Fn(Done)) {
        loop {
            let mut batch = Vec::new();
            {
                let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                let Ok(first) = jobs.recv() else { return };
                batch.push(first);
                while batch.len() < MAX_BATCH
                    && let Ok(job) = jobs.try_recv()
                {
                    batch.push(job);
                }
            }
            let tickets: Vec<Ticket> = batch.iter().map(|job| job.ticket).collect();
            let work = AssertUnwindSafe(|| self.batch(batch, done));
            if catch_unwind(work).is_err() {
                // Those that have their answers ignore another one.
                for ticket in tickets {
                    done(Done { ticket, answer: Answer::Failed, file: None });
                }
            }
        }
    }

    fn batch(&self, batch: Vec<StoreJob>, done: &dyn Fn(Done)) {
        let (mut tickets, mut files) = (Vec::new(), Vec::new());
        for StoreJob { ticket, file, bytes, is_last } in batch {
            match self.append(file, &bytes) {
                Ok(file) if is_last => {
                    tickets.push(ticket);
                    files.push(file);
                }
                Ok(file) => {
                    done(Done { ticket, answer: Answer::Appended(Ok(())), file: Some(file) });
                }
                Err(reply) => {
                    let answer = match is_last {
                        true => Answer::Stored(Err(reply)),
                        false => Answer::Appended(Err(reply)),
                    };
                    done(Done { ticket, answer, file: None });
                }
            }
        }
        for (ticket, result) in tickets.into_iter().zip(self.publish(files)) {
            let answer = Answer::Stored(result.map(|published| published.id));
            done(Done { ticket, answer, file: None });
        }
    }
}

/// Starts the workers. They end with the sender of jobs.
pub(crate) fn start(
    store: &Store,
    jobs: Receiver<StoreJob>,
    done: impl Fn(Done) + Clone + Send + 'static,
) -> io::Result<()> {
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..WORKERS {
        let (store, jobs, done) = (store.clone(), jobs.clone(), done.clone());
        let work = move || store.work(&jobs, &done);
        std::thread::Builder::new().name("store".into()).spawn(work)?;
    }
    Ok(())
}

/// Work that may wait for something other than the disk of the spool.
pub(crate) type Task = Box<dyn FnOnce() -> Answer + Send>;

/// Starts workers for tasks.
pub(crate) fn start_workers(
    count: usize,
    done: impl Fn(Done) + Clone + Send + 'static,
) -> io::Result<Sender<(Ticket, Task)>> {
    let (sender, tasks) = std::sync::mpsc::channel::<(Ticket, Task)>();
    let tasks = Arc::new(Mutex::new(tasks));
    for _ in 0..count {
        let (tasks, done) = (tasks.clone(), done.clone());
        let work = move || {
            loop {
                let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok((ticket, task)) = next else { return };
                let answer = catch_unwind(AssertUnwindSafe(task)).unwrap_or(Answer::Failed);
                done(Done { ticket, answer, file: None });
            }
        };
        std::thread::Builder::new().name("lookup".into()).spawn(work)?;
    }
    Ok(sender)
}
