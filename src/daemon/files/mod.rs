//! Helper workers: everything that may block on the spool's disk happens here, never on the loop.
//!
//! There are three, each with a queue of requests. The scanner lists folders ([`scanner`]). The
//! reader reads control files ([`reader`]). The writer writes to and removes from the spool
//! ([`writer`]); it also composes the lines of the status log ([`super::status_log`]), which need
//! files that it removes. A fourth watches the agents of an earlier scheduler for a while after a
//! start ([`predecessor`]).
//!
//! Results go into one channel in portions, and mio's `Waker` wakes the loop. The workers make no
//! decisions.

mod duplicates;
mod notes;
mod predecessor;
mod reader;
mod scanner;
mod write_queue;
mod writer;

pub use writer::WriteRequest;

use super::orders::Journal;
use super::status_log::{Composer, StatusLog};
use super::unfinished;
use super::worker;
use duplicates::Duplicates;
use mio::Waker;
use reader::{ReadQueue, Reader, ToRead, Urgent};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;
use std::vec;
use write_queue::{WriteQueue, write_queue};
use zsched_core::{NoteTicket, StatusRecord};
use zsched_spool::load::LoadResult;
use zsched_spool::scan::{ScanEnd, ScanLimits};
use zsched_spool::{HashLevel, Portion, Spool, SpoolName};

/// Maximum number of portions that wait for the loop. Beyond it the workers wait.
const PORTIONS: usize = 128;
/// Number of results in a portion. A worker without more requests sends a smaller one.
const PORTION: usize = 32;

/// Reason why sending cannot fail: a panic in a worker ends the process ([`worker`]).
const ALIVE: &str = "helper threads live as long as the loop";

/// Result of a helper worker.
pub enum Done {
    /// Names found by the scan. The scanner waits for the number of new ones among them.
    Names(Vec<SpoolName>),
    /// The scan has ended.
    ScanEnded(ScanEnd),
    /// A control file was read.
    Read(SpoolName, Box<LoadResult>),
    /// The control file of a loaded message was read again.
    ReadAgain(SpoolName, Box<LoadResult>),
    /// More recipients of a control file were read.
    MoreRead(SpoolName, Box<LoadResult>),
    /// Result of writing a note.
    Noted(NoteTicket, io::Result<bool>),
    /// Result of removing a message, with its new path if moved aside.
    Removed(SpoolName, io::Result<Option<PathBuf>>),
    /// Result of storing the overrides of operators.
    OrdersKept(io::Result<()>),
    /// Agents of an earlier scheduler changed control files, or one has ended.
    Changed {
        /// Messages of the control files.
        names: Vec<SpoolName>,
        /// True if the agent has ended, so that its locks are dead.
        an_agent_ended: bool,
    },
    /// Locks could not be cleared.
    LocksNotCleared(SpoolName, io::Error),
}

/// The loop's end of the helper workers.
pub struct Files {
    results: Receiver<Vec<Done>>,
    /// Unhandled results of the current portion.
    portion: vec::IntoIter<Done>,
    bell: Arc<Bell>,
    scan_requests: Sender<ScanLimits>,
    new_names: Sender<usize>,
    reader: Arc<ReadQueue>,
    to_write: WriteQueue,
    duplicates: Arc<Duplicates>,
    writer: Option<thread::JoinHandle<()>>,
    spool: Spool,
    status_log: Option<StatusLog>,
}

/// Wakes the loop once for all results not taken yet.
struct Bell {
    waker: Arc<Waker>,
    has_rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            // Waking fails only if the loop is gone. Then the results are not needed.
            drop(self.waker.wake());
        }
    }
}

/// A helper worker's end of the channel of results.
#[derive(Clone)]
struct Results {
    sender: SyncSender<Vec<Done>>,
    bell: Arc<Bell>,
}

impl Results {
    /// Sends a portion. Returns true while the loop still receives.
    fn put(&self, portion: Vec<Done>) -> bool {
        let sent = self.sender.send(portion).is_ok();
        self.bell.ring();
        sent
    }

    /// Adds a result to a portion, and sends the portion if it is full.
    fn gather(&self, portion: &mut Vec<Done>, done: Done) -> bool {
        portion.push(done);
        portion.len() < PORTION || self.put(std::mem::take(portion))
    }

    /// Sends a portion unless it is empty.
    fn put_rest(&self, portion: &mut Vec<Done>) -> bool {
        portion.is_empty() || self.put(std::mem::take(portion))
    }
}

impl Files {
    /// Starts the workers.
    pub fn start(
        spool: &Spool,
        level: HashLevel,
        waker: Arc<Waker>,
        status_log: Option<StatusLog>,
        orders: Journal,
    ) -> io::Result<Files> {
        let (sender, results) = sync_channel(PORTIONS);
        let bell = Arc::new(Bell { waker, has_rung: AtomicBool::new(false) });
        let put = Results { sender, bell: bell.clone() };
        let (scan_requests, scans) = channel();
        let (new_names, counts) = channel();
        let (to_write, writes) = write_queue(bell.clone());
        let reader = Arc::new(ReadQueue::default());
        let duplicates = Arc::new(Duplicates::new(spool.duplicates_file()));
        let scanner = (spool.clone(), put.clone());
        worker::start("scanner", move || scanner::run(&scanner.0, &scans, &counts, &scanner.1))?;
        let mut reads =
            Reader::new(spool.clone(), level, reader.clone(), put.clone(), duplicates.clone());
        worker::start("reader", move || reads.run())?;
        let agents = predecessor::agents();
        if !agents.is_empty() {
            let (spool, put) = (spool.clone(), put.clone());
            worker::start("predecessor", move || predecessor::run(&spool, agents, &put))?;
        }
        let (of_writer, list) = (spool.clone(), duplicates.clone());
        let composer: Option<Composer> = status_log.as_ref().map(StatusLog::composer);
        let writer = worker::start("writer", move || {
            writer::run(&of_writer, &writes, &put, &list, composer, orders);
        })?;
        Ok(Files {
            results,
            portion: Vec::new().into_iter(),
            bell,
            scan_requests,
            new_names,
            reader,
            to_write,
            duplicates,
            writer: Some(writer),
            spool: spool.clone(),
            status_log,
        })
    }

    /// Possible duplicate deliveries found by the workers.
    pub fn duplicates(&self) -> &Duplicates {
        &self.duplicates
    }

    /// Removes and returns the next result, if there is one.
    pub fn next_result(&mut self) -> Option<Done> {
        loop {
            if let Some(done) = self.portion.next() {
                return Some(done);
            }
            self.portion = self.results.try_recv().ok()?.into_iter();
        }
    }

    /// Rearms the waker before results are taken: any later result wakes the loop again.
    pub fn hear_bell(&self) {
        // A swap is needed: results put before the previous wake-up are visible from here on. A
        // plain store could take effect after the check for results, and a wake-up between the two
        // would be lost.
        self.bell.has_rung.swap(false, Ordering::SeqCst);
    }

    /// Requests a scan.
    pub fn scan(&self, limits: ScanLimits) {
        self.scan_requests.send(limits).expect(ALIVE);
    }

    /// Reports to the scanner how many of the names it found are new.
    pub fn new_names(&self, count: usize) {
        self.new_names.send(count).expect(ALIVE);
    }

    /// Requests reading of control files, the oldest first.
    pub fn read(&self, names: Vec<ToRead>) {
        self.reader.push_batch(names);
    }

    /// Requests reading of a control file before all others.
    pub fn read_soon(&self, name: SpoolName, at_most: Option<u32>) {
        self.reader.push_urgent(Urgent::Read((name, at_most)));
    }

    /// Requests that the control file of a loaded message is read again.
    pub fn read_again(&self, name: SpoolName) {
        self.reader.push_urgent(Urgent::Again(name));
    }

    /// Requests reading of more recipients of a loaded message.
    pub fn read_more(&self, name: SpoolName, portion: Portion) {
        self.reader.push_urgent(Urgent::More(name, portion));
    }

    /// Queues a write request, for the next [`send`](Files::send).
    pub fn write(&mut self, request: WriteRequest) {
        self.to_write.push(request);
    }

    /// Queues lines of the status log, in order with other write requests.
    ///
    /// Without room for them they are dropped and counted.
    pub fn write_status(&mut self, record: StatusRecord) {
        let request = self.status_log.as_ref().and_then(|log| log.request(record));
        if let Some(request) = request {
            self.to_write.push(WriteRequest::Status(request));
        }
    }

    /// Requests that the status log is reopened under its name.
    pub fn reopen_status_log(&self) {
        if let Some(log) = &self.status_log {
            log.reopen();
        }
    }

    /// Requests that the status log is reopened if it was renamed.
    pub fn look_at_status_log(&self) {
        if let Some(log) = &self.status_log {
            log.look();
        }
    }

    /// Passes all queued write requests to the writer.
    pub fn send(&mut self) {
        self.to_write.send().expect(ALIVE);
    }

    /// Returns true if so much is queued for the writer that no more may be decided.
    ///
    /// The loop is woken when that has changed.
    pub fn are_behind(&self) -> bool {
        self.to_write.is_full()
    }

    /// Waits until everything requested is written. Discards results.
    pub fn finish(mut self) {
        self.send();
        self.to_write.close();
        let Some(writer) = self.writer.take() else {
            return;
        };
        while !writer.is_finished() {
            // The writer may be waiting for room in the channel of results.
            drop(self.results.recv_timeout(Duration::from_millis(10)));
        }
        unfinished::tell_what_is_left(&self.spool);
        if let Some(log) = self.status_log.take() {
            log.finish();
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.reader.close();
    }
}
