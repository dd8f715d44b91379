//! Rendezvous file: a dump of the queue on SIGUSR2, for clients that cannot connect.
//!
//! When the dump is complete, the modification time of the file is set back by one second. A client
//! that finds it before the change time knows that the dump is complete.

use crate::chunked_writer::{CHUNK_SIZE, ChunkReceiver, ChunkedWriter};
use mio::Waker;
use std::fs::{FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    writer: ChunkedWriter<Dump>,
}

impl Rendezvous {
    /// Creates the state without writing. `waker` wakes the loop.
    pub(crate) fn new(
        path: PathBuf,
        started: Timestamp,
        with_vertices: bool,
        waker: Arc<Waker>,
    ) -> Rendezvous {
        let writer = ChunkedWriter::new("rendezvous", waker);
        Rendezvous { path, started, with_vertices, writer }
    }

    /// Starts a dump, unless one is under way.
    pub(crate) fn begin(&mut self) {
        let path = self.path.clone();
        let dump = Dump::new(self.started, self.with_vertices);
        let begun = self.writer.begin(dump, move |chunks| write_and_report(&path, &chunks));
        let path = self.path.display();
        match begun {
            Ok(true) => {}
            Ok(false) => log::warn!("{path}: the former dump is still being written"),
            Err(error) => log::error!("{path}: {error}"),
        }
    }

    /// Returns true if the next piece can be composed.
    pub(crate) fn is_busy(&self) -> bool {
        self.writer.is_busy()
    }

    /// Continues the dump, if there is one.
    pub(crate) fn advance(&mut self, scheduler: &Scheduler, now: Timestamp) {
        self.writer.advance(|dump| {
            if dump.is_over() {
                return None;
            }
            let mut text = Vec::with_capacity(CHUNK_SIZE);
            dump.write(scheduler, now, &mut text, CHUNK_SIZE);
            Some(text)
        });
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
