//! The worker that writes recordings, and their files.

use super::frame;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use zsched_sys::{if_exists, with_suffix};

/// Maximum number of blocks that wait for the disk.
const MAX_WAITING_BLOCKS: usize = 64;

/// A request to the worker.
pub(crate) enum WriterRequest {
    /// Begin a new file.
    Begin {
        /// Its first frame.
        header: Vec<u8>,
        /// Its second frame.
        checkpoint: Vec<u8>,
    },
    /// Add a frame.
    Block {
        /// Its contents.
        block: Vec<u8>,
        /// Number of events in the block.
        events: u64,
    },
}

/// The loop's handle of the worker.
pub(crate) struct Writer {
    orders: Option<SyncSender<WriterRequest>>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

/// The state shared by both sides.
#[derive(Default)]
struct State {
    /// Number of requests that have not been processed.
    waiting: AtomicUsize,
    /// The last error. After it, nothing is written until a new file begins.
    fault: Mutex<Option<String>>,
    /// Number of events that should have been written, but were not.
    lost: AtomicU64,
}

impl Writer {
    /// Starts the worker.
    pub(crate) fn start(files: Files) -> io::Result<Writer> {
        let (orders, received) = sync_channel(MAX_WAITING_BLOCKS);
        let state = Arc::new(State::default());
        let shared = state.clone();
        let run = move || Worker { files, state: shared, has_failed: false }.run(&received);
        let thread = thread::Builder::new().name("recorder".to_string()).spawn(run)?;
        Ok(Writer { orders: Some(orders), state, thread: Some(thread) })
    }

    /// Sends a request. Returns it if the queue is full.
    pub(crate) fn send(&self, order: WriterRequest) -> Result<(), WriterRequest> {
        let Some(orders) = &self.orders else {
            return Err(order);
        };
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        orders.try_send(order).map_err(|error| {
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            match error {
                TrySendError::Full(order) | TrySendError::Disconnected(order) => order,
            }
        })
    }

    /// Returns true if two more requests fit into the queue.
    pub(crate) fn has_room(&self) -> bool {
        self.state.waiting.load(Ordering::Relaxed) + 2 <= MAX_WAITING_BLOCKS
    }

    /// Returns true if all requests have been processed.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.waiting.load(Ordering::Relaxed) == 0
    }

    /// Takes the last error.
    pub(crate) fn take_error(&self) -> Option<String> {
        // A worker that panicked while it held the lock has left a complete value or none.
        self.state.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the number of lost events.
    pub(crate) fn take_lost(&self) -> u64 {
        self.state.lost.swap(0, Ordering::Relaxed)
    }

    /// Waits until everything is written. Returns the last error.
    pub(crate) fn finish(&mut self) -> Option<String> {
        self.orders = None;
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        let panicked = ended.is_err().then(|| "the recording worker has panicked".to_string());
        self.take_error().or(panicked)
    }
}

/// The worker's own state.
struct Worker {
    files: Files,
    state: Arc<State>,
    /// True if the present file is incomplete.
    ///
    /// Nothing more may be written to it then.
    has_failed: bool,
}

impl Worker {
    fn run(mut self, orders: &Receiver<WriterRequest>) {
        for order in orders {
            self.carry_out(order);
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn carry_out(&mut self, order: WriterRequest) {
        let (result, events) = match order {
            WriterRequest::Begin { header, checkpoint } => {
                (self.files.begin(&header, &checkpoint), 0)
            }
            WriterRequest::Block { events, .. } if self.has_failed => {
                self.state.lost.fetch_add(events, Ordering::Relaxed);
                return;
            }
            WriterRequest::Block { block, events } => (self.files.add(&block), events),
        };
        self.has_failed = result.is_err();
        if let Err(error) = result {
            self.state.lost.fetch_add(events, Ordering::Relaxed);
            let mut fault = self.state.fault.lock().unwrap_or_else(PoisonError::into_inner);
            *fault = Some(error.to_string());
        }
    }
}

/// The files: `FILE`, and the older `FILE.1`, `FILE.2` and so on.
pub(crate) struct Files {
    path: PathBuf,
    keep_files: u32,
    present: File,
    /// True if the present file is still empty.
    is_new: bool,
}

impl Files {
    /// Creates a new file, and renames an existing one.
    pub(crate) fn create(path: &Path, keep: u32) -> io::Result<Files> {
        let present = create(path, keep).map_err(|error| at(path, &error))?;
        Ok(Files { path: path.to_path_buf(), keep_files: keep, present, is_new: true })
    }

    fn begin(&mut self, header: &[u8], checkpoint: &[u8]) -> io::Result<()> {
        let at_path = |error| at(&self.path, &error);
        if !self.is_new {
            self.present = create(&self.path, self.keep_files).map_err(at_path)?;
        }
        // After a failure the same file is used for the next attempt. Otherwise attempts on a full
        // disk would remove the older files one by one.
        self.is_new = true;
        let mut out = BufWriter::new(&self.present);
        self.present
            .set_len(0)
            .and_then(|()| out.rewind())
            .and_then(|()| frame::write_start(&mut out))
            .and_then(|()| frame::write(&mut out, header))
            .and_then(|()| frame::write(&mut out, checkpoint))
            .and_then(|()| out.flush())
            .map_err(at_path)?;
        drop(out);
        self.is_new = false;
        Ok(())
    }

    fn add(&mut self, block: &[u8]) -> io::Result<()> {
        // One call for the head and one for the contents, since a torn frame must be handled
        // anyway.
        frame::write(&mut &self.present, block).map_err(|error| at(&self.path, &error))
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Creates a file, and renames older ones before.
///
/// Only its owner may read it, since it contains addresses and replies of hosts.
fn create(path: &Path, keep: u32) -> io::Result<File> {
    let older = |number: u32| match number {
        0 => path.to_path_buf(),
        _ => with_suffix(path, format!(".{number}")),
    };
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "the file exists and is not a regular file",
        ));
    }
    if keep == 0 {
        if_exists(fs::remove_file(path))?;
    }
    // Up to the first missing one: later files need not be renamed.
    let mut missing = 0;
    while missing < keep && if_exists(fs::symlink_metadata(older(missing)))?.is_some() {
        missing += 1;
    }
    for number in (0..missing).rev() {
        fs::rename(older(number), older(number + 1))?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
