//! The helper OS threads: everything that may block on a disk happens here, never on the loop.
//!
//! There are three, each with a queue of requests (and [`predecessor`], for a while after a start): one lists folders ([`scanner`]), one reads control
//! files ([`reader`]), one writes to and removes from the spool ([`writer`]), and composes the lines of the status log
//! ([`super::status_log`]), which need what it removes. What they have done goes
//! into one channel, some at a time, and the loop is woken through mio's `Waker`. They decide nothing.

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
use zsched_spool::read::Found;
use zsched_spool::scan::{ScanEnd, ScanLimits};
use zsched_spool::{HashLevel, Portion, Spool, SpoolName};

/// So many portions of results may wait for the loop before the threads wait for it.
const PORTIONS: usize = 128;
/// So many results make a portion; fewer, where the thread has nothing more to do.
const PORTION: usize = 32;

/// Why requests reach the threads: a panic in one of them ends the process ([`worker`]).
const ALIVE: &str = "helper threads live as long as the loop";

/// What a helper thread has done.
pub enum Done {
    /// The scan has come upon these names. The scanner waits to be told how many of them were new.
    Names(Vec<SpoolName>),
    /// The scan is over.
    ScanEnded(ScanEnd),
    /// A control file was read.
    Read(SpoolName, Box<Found>),
    /// A loaded message's control file was read again.
    ReadAgain(SpoolName, Box<Found>),
    /// More of a control file was read.
    MoreRead(SpoolName, Box<Found>),
    /// A note was written, or was not.
    Noted(NoteTicket, io::Result<bool>),
    /// A message was taken out of the spool, or could not be. With the path it has now, if it was
    /// moved aside.
    Removed(SpoolName, io::Result<Option<PathBuf>>),
    /// The orders in force were stored, or could not be.
    OrdersKept(io::Result<()>),
    /// Agents of an earlier scheduler have changed these control files, or one of them has ended.
    Changed {
        /// The messages of these control files.
        names: Vec<SpoolName>,
        /// Its locks are dead.
        an_agent_ended: bool,
    },
    /// Locks could not be cleared.
    LocksNotCleared(SpoolName, io::Error),
}

/// The loop's end of the helper threads.
pub struct Files {
    results: Receiver<Vec<Done>>,
    /// The rest of the portion that is being looked at.
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

/// Wakes the loop, once for all results that it has not looked at.
struct Bell {
    waker: Arc<Waker>,
    has_rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            // It fails only if the loop is gone, and then nobody needs to know.
            drop(self.waker.wake());
        }
    }
}

/// Where a helper thread puts its results.
#[derive(Clone)]
struct Results {
    sender: SyncSender<Vec<Done>>,
    bell: Arc<Bell>,
}

impl Results {
    /// Tells whether there is still somebody to take it.
    fn put(&self, portion: Vec<Done>) -> bool {
        let sent = self.sender.send(portion).is_ok();
        self.bell.ring();
        sent
    }

    /// Adds a result to a portion, and puts it out if that is full.
    fn gather(&self, portion: &mut Vec<Done>, done: Done) -> bool {
        portion.push(done);
        portion.len() < PORTION || self.put(std::mem::take(portion))
    }

    /// Puts out a portion, if there is anything in it.
    fn put_rest(&self, portion: &mut Vec<Done>) -> bool {
        portion.is_empty() || self.put(std::mem::take(portion))
    }
}

impl Files {
    /// Starts the threads.
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

    /// Who may be delivered to twice, as the threads have found out.
    pub fn duplicates(&self) -> &Duplicates {
        &self.duplicates
    }

    /// The next result, if there is one.
    pub fn next_result(&mut self) -> Option<Done> {
        loop {
            if let Some(done) = self.portion.next() {
                return Some(done);
            }
            self.portion = self.results.try_recv().ok()?.into_iter();
        }
    }

    /// The loop is about to take results: whatever comes from now on must wake it again.
    pub fn hear_bell(&self) {
        // A swap: what was put before the ring that it undoes is seen from here on. A mere store could come
        // after the look for results, and a ring between the two would be lost.
        self.bell.has_rung.swap(false, Ordering::SeqCst);
    }

    /// Asks for a scan.
    pub fn scan(&self, limits: ScanLimits) {
        self.scan_requests.send(limits).expect(ALIVE);
    }

    /// Tells the scanner how many of the names it found were new.
    pub fn new_names(&self, count: usize) {
        self.new_names.send(count).expect(ALIVE);
    }

    /// Asks for control files to be read, the oldest first.
    pub fn read(&self, names: Vec<ToRead>) {
        self.reader.push_batch(names);
    }

    /// Asks for one control file to be read before all others.
    pub fn read_soon(&self, name: SpoolName, at_most: Option<u32>) {
        self.reader.push_urgent(Urgent::Read((name, at_most)));
    }

    /// Asks for the control file of a loaded message to be read again.
    pub fn read_again(&self, name: SpoolName) {
        self.reader.push_urgent(Urgent::Again(name));
    }

    /// Asks for more of the control file of a loaded message.
    pub fn read_more(&self, name: SpoolName, portion: Portion) {
        self.reader.push_urgent(Urgent::More(name, portion));
    }

    /// Asks for something to be written. It is, after the next [`send`](Files::send).
    pub fn write(&mut self, request: WriteRequest) {
        self.to_write.push(request);
    }

    /// Asks for lines of the status log, in order with all else that is to be written. If there is no
    /// room for them, they are lost, and counted.
    pub fn write_status(&mut self, record: StatusRecord) {
        let request = self.status_log.as_ref().and_then(|log| log.request(record));
        if let Some(request) = request {
            self.to_write.push(WriteRequest::Status(request));
        }
    }

    /// Has the status log opened anew under its name.
    pub fn reopen_status_log(&self) {
        if let Some(log) = &self.status_log {
            log.reopen();
        }
    }

    /// Has the status log opened anew if its name leads elsewhere.
    pub fn look_at_status_log(&self) {
        if let Some(log) = &self.status_log {
            log.look();
        }
    }

    /// Hands everything that is to be written to the writer.
    pub fn send(&mut self) {
        self.to_write.send().expect(ALIVE);
    }

    /// Whether so much waits to be written that nothing more is to be decided. The loop is woken when that is over.
    pub fn are_behind(&self) -> bool {
        self.to_write.is_full()
    }

    /// Waits until everything that was asked for has been written. Results are thrown away.
    pub fn finish(mut self) {
        self.send();
        self.to_write.close();
        let Some(writer) = self.writer.take() else {
            return;
        };
        while !writer.is_finished() {
            // The writer may be waiting for room.
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
