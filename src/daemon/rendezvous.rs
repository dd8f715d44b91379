//! Rendezvous file: a dump of the queue on SIGUSR2, for clients that cannot connect.
//!
//! When the dump is complete, the modification time of the file is set back by one second. A client
//! that finds it before the change time knows that the dump is complete.

use super::pieces::{PIECE, Pieces, ToWrite};
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
pub struct Rendezvous {
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
    pieces: Pieces,
}

impl Rendezvous {
    /// Creates the state without writing. `waker` wakes the loop.
    pub fn new(
        path: PathBuf,
        started: Timestamp,
        with_vertices: bool,
        waker: Arc<Waker>,
    ) -> Rendezvous {
        Rendezvous { path, started, with_vertices, waker, dumping: None, writer: None }
    }

    /// Starts a dump, unless one is under way.
    pub fn begin(&mut self) {
        let is_busy = self.writer.as_ref().is_some_and(|writer| !writer.is_finished());
        if is_busy || self.dumping.is_some() {
            log::warn!("{}: the former dump is still being written", self.path.display());
            return;
        }
        let path = self.path.clone();
        let write = move |pieces| write_and_report(&path, &pieces);
        match Pieces::start("rendezvous", self.waker.clone(), write) {
            Ok((pieces, writer)) => {
                self.writer = Some(writer);
                let dump = Dump::new(self.started, self.with_vertices);
                self.dumping = Some(Dumping { dump, pieces });
            }
            Err(error) => log::error!("{}: {error}", self.path.display()),
        }
    }

    /// Returns true if the next piece can be composed.
    pub fn is_busy(&self) -> bool {
        self.dumping.as_ref().is_some_and(|dumping| dumping.pieces.have_room())
    }

    /// Continues the dump, if there is one.
    pub fn write_on(&mut self, scheduler: &Scheduler, now: Timestamp) {
        if self.dumping.as_mut().is_some_and(|dumping| dumping.write_on(scheduler, now)) {
            self.dumping = None;
        }
    }
}

impl Dumping {
    /// Sends the worker one more piece, if it has room. Returns true once the last one is sent.
    fn write_on(&mut self, scheduler: &Scheduler, now: Timestamp) -> bool {
        let Dumping { dump, pieces } = self;
        pieces.give(|| {
            if dump.is_over() {
                return None;
            }
            let mut text = Vec::with_capacity(PIECE);
            dump.write(scheduler, now, &mut text, PIECE);
            Some(text)
        })
    }
}

fn write_and_report(path: &Path, pieces: &ToWrite) {
    match write(path, pieces) {
        Ok(()) => log::info!("{}: state written", path.display()),
        Err(error) => log::error!("{}: the state cannot be written: {error}", path.display()),
    }
}

fn write(path: &Path, pieces: &ToWrite) -> io::Result<()> {
    // `O_NOFOLLOW`, because the default is in a folder that all users may write to. `O_NONBLOCK`,
    // so that opening a pipe without a reader fails at once. Writes wait for a reader.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    sys::let_writes_wait(&file)?;
    let mut printable = PrintableWriter::new(&mut file);
    pieces.write_all(&mut printable)?;
    printable.flush()?;
    let a_second_ago = SystemTime::now() - Duration::from_secs(1);
    file.set_times(FileTimes::new().set_accessed(a_second_ago).set_modified(a_second_ago))
}
