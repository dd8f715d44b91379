//! The helper OS threads: everything that may block on a disk happens here, never on the loop.
//!
//! There are three, each with a queue of requests: one lists folders, one reads control files, one
//! writes to and removes from the spool. What they have done goes into one channel, and the loop is
//! woken through mio's `Waker`. They decide nothing.

use crate::scheduler::{Note, NoteTicket};
use crate::spool::note::{self, Remark};
use crate::spool::read::{self, Found};
use crate::spool::remove::{self, Reason};
use crate::spool::scan::{ScanEnd, ScanLimits, scan};
use crate::spool::{HashLevel, Spool, SpoolName};
use crate::time::Timestamp;
use mio::Waker;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// So many results may wait for the loop before the threads wait for it.
const RESULTS: usize = 4096;

/// Why requests reach the threads. If one has panicked, so must we: the spool is not served any more.
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
    /// A note was written, or was not.
    Noted(NoteTicket, io::Result<bool>),
    /// A message was taken out of the spool, or could not be. With the path it has now, if it was
    /// moved aside.
    Removed(SpoolName, io::Result<Option<PathBuf>>),
    /// Locks could not be cleared.
    LocksNotCleared(SpoolName, io::Error),
}

/// What the writer is asked to do.
pub enum WriteRequest {
    /// Append diagnostics.
    Note(Box<NoteRequest>),
    /// Take a message out of the spool; aside if a report is owed.
    Remove(SpoolName, bool),
    /// Clear the locks of a dead process.
    ClearLocks(SpoolName, u32),
}

/// The parts of a [`Note`] that may travel between OS threads.
pub struct NoteRequest {
    ticket: NoteTicket,
    name: SpoolName,
    offsets: Vec<u32>,
    occasion: note::Occasion,
    time: Timestamp,
    notary: Vec<u8>,
    message: Vec<u8>,
}

impl From<Note> for NoteRequest {
    fn from(note: Note) -> NoteRequest {
        let Note { ticket, name, offsets, occasion, time, notary, message } = note;
        let (notary, message) = (notary.to_vec(), message.to_vec());
        NoteRequest { ticket, name, offsets, occasion, time, notary, message }
    }
}

/// The loop's end of the helper threads.
pub struct Files {
    results: Receiver<Done>,
    bell: Arc<Bell>,
    scan_requests: Sender<ScanLimits>,
    new_names: Sender<usize>,
    reader: Arc<ReadQueue>,
    write_requests: Sender<WriteRequest>,
    writer: Option<thread::JoinHandle<()>>,
}

/// Wakes the loop, once for all results that it has not looked at.
struct Bell {
    waker: Waker,
    has_rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            // It fails only if the loop is gone, and then nobody needs to know.
            drop(self.waker.wake());
        }
    }
}

/// Where a helper thread puts its results.
#[derive(Clone)]
struct Results {
    sender: SyncSender<Done>,
    bell: Arc<Bell>,
}

impl Results {
    /// Tells whether there is still somebody to take it.
    fn put(&self, done: Done) -> bool {
        let sent = self.sender.send(done).is_ok();
        self.bell.ring();
        sent
    }
}

impl Files {
    /// Starts the threads.
    pub fn start(spool: &Spool, level: HashLevel, waker: Waker) -> io::Result<Files> {
        let (sender, results) = sync_channel(RESULTS);
        let bell = Arc::new(Bell { waker, has_rung: AtomicBool::new(false) });
        let put = Results { sender, bell: bell.clone() };
        let (scan_requests, scans) = channel();
        let (new_names, counts) = channel();
        let (write_requests, writes) = channel();
        let reader = Arc::new(ReadQueue::default());
        start("scanner", {
            let (spool, put) = (spool.clone(), put.clone());
            move || run_scanner(&spool, &scans, &counts, &put)
        })?;
        start("reader", {
            let (spool, put, queue) = (spool.clone(), put.clone(), reader.clone());
            move || run_reader(&spool, level, &queue, &put)
        })?;
        let writer = start("writer", {
            let spool = spool.clone();
            move || run_writer(&spool, &writes, &put)
        })?;
        let writer = Some(writer);
        Ok(Files { results, bell, scan_requests, new_names, reader, write_requests, writer })
    }

    /// The next result, if there is one.
    pub fn next_result(&self) -> Option<Done> {
        self.results.try_recv().ok()
    }

    /// The loop is about to take results: whatever comes from now on must wake it again.
    pub fn hear_bell(&self) {
        self.bell.has_rung.store(false, Ordering::Release);
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
    pub fn read(&self, names: Vec<SpoolName>) {
        self.reader.lock().batches.push_back(names);
        self.reader.filled.notify_one();
    }

    /// Asks for one control file to be read before all others.
    pub fn read_soon(&self, name: SpoolName) {
        self.reader.lock().urgent.push_back(Urgent::Read(name));
        self.reader.filled.notify_one();
    }

    /// Asks for the control file of a loaded message to be read again.
    pub fn read_again(&self, name: SpoolName) {
        self.reader.lock().urgent.push_back(Urgent::Again(name));
        self.reader.filled.notify_one();
    }

    /// Asks for something to be written.
    pub fn write(&self, request: WriteRequest) {
        self.write_requests.send(request).expect(ALIVE);
    }

    /// Waits until everything that was asked for has been written. Results are thrown away.
    pub fn finish(mut self) {
        let (unused, _) = channel();
        self.write_requests = unused;
        let Some(writer) = self.writer.take() else {
            return;
        };
        while !writer.is_finished() {
            // The writer may be waiting for room.
            drop(self.results.recv_timeout(Duration::from_millis(10)));
        }
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.to_string()).spawn(run)
}

fn run_scanner(
    spool: &Spool,
    requests: &Receiver<ScanLimits>,
    new_names: &Receiver<usize>,
    put: &Results,
) {
    for limits in requests {
        let end = scan(spool, limits, |names| {
            if put.put(Done::Names(names)) { new_names.recv().ok() } else { None }
        });
        if !put.put(Done::ScanEnded(end)) {
            return;
        }
    }
}

/// What the reader has to do.
#[derive(Default)]
struct ReadQueue {
    requests: Mutex<ReadRequests>,
    filled: Condvar,
}

#[derive(Default)]
struct ReadRequests {
    urgent: VecDeque<Urgent>,
    batches: VecDeque<Vec<SpoolName>>,
    is_closed: bool,
}

enum Urgent {
    Read(SpoolName),
    Again(SpoolName),
}

enum ReadRequest {
    Urgent(Urgent),
    Batch(Vec<SpoolName>),
}

impl ReadQueue {
    fn lock(&self) -> MutexGuard<'_, ReadRequests> {
        // Nobody panics while holding it, and a queue is a queue whatever happened.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request; `None` if there will be none.
    fn next(&self) -> Option<ReadRequest> {
        let mut requests = self.lock();
        loop {
            if requests.is_closed {
                return None;
            }
            if let Some(urgent) = requests.urgent.pop_front() {
                return Some(ReadRequest::Urgent(urgent));
            }
            if let Some(batch) = requests.batches.pop_front() {
                return Some(ReadRequest::Batch(batch));
            }
            requests = self.filled.wait(requests).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn next_urgent(&self) -> Option<Urgent> {
        self.lock().urgent.pop_front()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.reader.lock().is_closed = true;
        self.reader.filled.notify_one();
    }
}

fn run_reader(spool: &Spool, level: HashLevel, queue: &ReadQueue, put: &Results) {
    let read_urgent = |urgent| match urgent {
        Urgent::Read(name) => {
            put.put(Done::Read(name.clone(), Box::new(read::read(spool, level, name))))
        }
        Urgent::Again(name) => {
            put.put(Done::ReadAgain(name.clone(), Box::new(read::read_again(spool, name))))
        }
    };
    while let Some(request) = queue.next() {
        let batch = match request {
            ReadRequest::Urgent(urgent) => {
                if !read_urgent(urgent) {
                    return;
                }
                continue;
            }
            ReadRequest::Batch(batch) => batch,
        };
        for name in oldest_first(spool, batch) {
            while let Some(urgent) = queue.next_urgent() {
                if !read_urgent(urgent) {
                    return;
                }
            }
            if !read_urgent(Urgent::Read(name)) {
                return;
            }
        }
    }
}

/// Puts names in the order in which their control files came.
fn oldest_first(spool: &Spool, names: Vec<SpoolName>) -> impl Iterator<Item = SpoolName> {
    let created = |name: &SpoolName| {
        let metadata = fs::symlink_metadata(spool.control_file(name));
        metadata.map_or((i64::MAX, 0), |metadata| (metadata.ctime(), metadata.ctime_nsec()))
    };
    let mut dated: Vec<_> = names.into_iter().map(|name| (created(&name), name)).collect();
    dated.sort_by_key(|(created, name)| (*created, name.number()));
    dated.into_iter().map(|(_, name)| name)
}

fn run_writer(spool: &Spool, requests: &Receiver<WriteRequest>, put: &Results) {
    for request in requests {
        let done = match request {
            WriteRequest::Note(request) => Some(write_note(spool, *request)),
            WriteRequest::Remove(name, aside) => {
                let removed = take_out(spool, &name, aside);
                Some(Done::Removed(name, removed))
            }
            WriteRequest::ClearLocks(name, pid) => match read::clear_locks(spool, &name, pid) {
                Ok(()) => None,
                Err(error) => Some(Done::LocksNotCleared(name, error)),
            },
        };
        if let Some(done) = done {
            put.put(done);
        }
    }
}

fn write_note(spool: &Spool, request: NoteRequest) -> Done {
    let remark = Remark {
        offsets: &request.offsets,
        occasion: request.occasion,
        time: request.time,
        notary: &request.notary,
        message: &request.message,
    };
    Done::Noted(request.ticket, note::write(spool, &request.name, &remark))
}

fn take_out(spool: &Spool, name: &SpoolName, aside: bool) -> io::Result<Option<PathBuf>> {
    if aside && remove::must_be_kept(spool, name)? {
        return remove::move_aside(spool, name, Reason::OwedReport).map(Some);
    }
    remove::remove(spool, name).map(|()| None)
}
