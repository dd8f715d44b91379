//! Workers that store submissions.
//!
//! What waits is stored together: the files are synced at the same time, and share the sync of the
//! folder. A hundred clients cost few syncs more than one, and a single client waits for no timer.

use super::requests::{Done, Ticket};
use crate::session::Answer;
use crate::store::Store;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use zsched_service::worker;
use zsched_spool::SubmissionFile;

/// Maximum number of parts that are written before the complete submissions are synced.
const MAX_BATCH: usize = 256;
/// Number of workers: one writes while the other one syncs.
const WORKERS: usize = 2;

/// A part of a submission.
pub(super) struct StoreJob {
    pub(super) ticket: Ticket,
    /// What is written already.
    pub(super) file: Option<SubmissionFile>,
    pub(super) bytes: Vec<u8>,
    pub(super) is_last: bool,
}

/// Starts the workers. They end with the returned sender.
pub(super) fn start(
    store: &Store,
    done: impl Fn(Done) + Clone + Send + 'static,
) -> io::Result<Sender<StoreJob>> {
    let (sender, jobs) = channel();
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..WORKERS {
        let (store, jobs, done) = (store.clone(), jobs.clone(), done.clone());
        worker::start("store", move || {
            while let Some(batch) = next_batch(&jobs) {
                let tickets: Vec<Ticket> = batch.iter().map(|job| job.ticket).collect();
                if worker::catch_panic(|| work(&store, batch, &done)).is_none() {
                    // Those that have their answers ignore another one.
                    for ticket in tickets {
                        done(Done::Answer { ticket, answer: Answer::Failed, file: None });
                    }
                }
            }
        })?;
    }
    Ok(sender)
}

/// Waits for jobs. Returns `None` when none can come any more.
fn next_batch(jobs: &Mutex<Receiver<StoreJob>>) -> Option<Vec<StoreJob>> {
    let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    let mut batch = vec![jobs.recv().ok()?];
    batch.extend(jobs.try_iter().take(MAX_BATCH - 1));
    Some(batch)
}

fn work(store: &Store, batch: Vec<StoreJob>, done: &dyn Fn(Done)) {
    let (mut tickets, mut files) = (Vec::new(), Vec::new());
    for StoreJob { ticket, file, bytes, is_last } in batch {
        match store.append(file, &bytes) {
            Ok(file) if is_last => {
                tickets.push(ticket);
                files.push(file);
            }
            Ok(file) => {
                let (answer, file) = (Answer::Appended(Ok(())), Some(file));
                done(Done::Answer { ticket, answer, file });
            }
            Err(reply) => {
                let answer = match is_last {
                    true => Answer::Stored(Err(reply)),
                    false => Answer::Appended(Err(reply)),
                };
                done(Done::Answer { ticket, answer, file: None });
            }
        }
    }
    for (ticket, result) in tickets.into_iter().zip(store.publish(files)) {
        let answer = Answer::Stored(result.map(|published| published.id));
        done(Done::Answer { ticket, answer, file: None });
    }
}
