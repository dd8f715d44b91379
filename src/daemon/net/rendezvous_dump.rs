//! Rendezvous file: a dump of the queue on SIGUSR2, for clients that cannot connect.
//!
//! When the dump is complete, the modification time of the file is set back by one second. A client
//! that finds it before the change time knows that the dump is complete.

use crate::worker::chunked_writer::{CHUNK_SIZE, ChunkReceiver, ChunkSender};
use mio::Waker;
use std::fs::{FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use zsched_core::Scheduler;
use zsched_format::printable::PrintableWriter;
use zsched_format::time::Timestamp;
use zsched_mailq_server::v1::Dump;
use zsched_sys as sys;

/// Rendezvous file, and the dump under way.
pub(crate) struct Rendezvous {
    path: PathBuf,
    started: Timestamp,
    with_vertices: bool,
    waker: Arc<Waker>,
    dumping: Option<Dumping>,
    writer: Option<JoinHandle<()>>,
}

/// Dump under way.
struct Dumping {
    dump: Dump,
    chunks: ChunkSender,
}

impl Rendezvous {
    /// Creates the state without writing. `waker` wakes the loop.
    pub(crate) fn new(
        path: PathBuf,
        started: Timestamp,
        with_vertices: bool,
        waker: Arc<Waker>,
    ) -> Rendezvous {
        Rendezvous { path, started, with_vertices, waker, dumping: None, writer: None }
    }

    /// Starts a dump, unless one is under way.
    pub(crate) fn begin(&mut self) {
        let is_busy = self.writer.as_ref().is_some_and(|writer| !writer.is_finished());
        if is_busy || self.dumping.is_some() {
            log::warn!("{}: the former dump is still being written", self.path.display());
            return;
        }
        let path = self.path.clone();
        let write = move |chunks| write_and_report(&path, &chunks);
        match ChunkSender::start("rendezvous", self.waker.clone(), write) {
            Ok((chunks, writer)) => {
                self.writer = Some(writer);
                let dump = Dump::new(self.started, self.with_vertices);
                self.dumping = Some(Dumping { dump, chunks });
            }
            Err(error) => log::error!("{}: {error}", self.path.display()),
        }
    }

    /// Returns true if the next piece can be composed.
    pub(crate) fn is_busy(&self) -> bool {
        self.dumping.as_ref().is_some_and(|dumping| dumping.chunks.has_room())
    }

    /// Continues the dump, if there is one.
    pub(crate) fn advance(&mut self, scheduler: &Scheduler, now: Timestamp) {
        if self.dumping.as_mut().is_some_and(|dumping| dumping.advance(scheduler, now)) {
            self.dumping = None;
        }
    }
}

impl Dumping {
    /// Sends the worker one more piece, if it has room. Returns true once the last one is sent.
    fn advance(&mut self, scheduler: &Scheduler, now: Timestamp) -> bool {
        let Dumping { dump, chunks } = self;
        chunks.send_next(|| {
            if dump.is_over() {
                return None;
            }
            let mut text = Vec::with_capacity(CHUNK_SIZE);
            dump.write(scheduler, now, &mut text, CHUNK_SIZE);
            Some(text)
        })
    }
}

fn write_and_report(path: &Path, chunks: &ChunkReceiver) {
    match write(path, chunks) {
        Ok(()) => log::info!("{}: queue dump written", path.display()),
        Err(error) => log::error!("{}: the queue dump cannot be written: {error}", path.display()),
    }
}

fn write(path: &Path, chunks: &ChunkReceiver) -> io::Result<()> {
    // `O_NOFOLLOW`, because the default is in a folder that all users may write to. `O_NONBLOCK`,
    // so that opening a pipe without a reader fails at once. Writes wait for a reader.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    sys::set_blocking(&file)?;
    let mut printable = PrintableWriter::new(&mut file);
    chunks.write_all(&mut printable)?;
    printable.flush()?;
    let a_second_ago = SystemTime::now() - Duration::from_secs(1);
    file.set_times(FileTimes::new().set_accessed(a_second_ago).set_modified(a_second_ago))
}
