//! The rendezvous file: a dump of the queue for those who cannot connect, made on SIGUSR2.
//!
//! When all is written, the file's modification time is set one second back: a client that finds it before
//! the change time knows that it has everything.

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

/// The rendezvous file, and a dump that is on its way to it.
pub struct Rendezvous {
    path: PathBuf,
    started: Timestamp,
    with_vertices: bool,
    waker: Arc<Waker>,
    dumping: Option<Dumping>,
    writer: Option<JoinHandle<()>>,
}

/// A dump that is being put together.
struct Dumping {
    dump: Dump,
    pieces: Pieces,
}

impl Rendezvous {
    /// Nothing is written yet. `waker` wakes the loop.
    pub fn new(
        path: PathBuf,
        started: Timestamp,
        with_vertices: bool,
        waker: Arc<Waker>,
    ) -> Rendezvous {
        Rendezvous { path, started, with_vertices, waker, dumping: None, writer: None }
    }

    /// Begins a dump, unless one is under way.
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

    /// Whether the next piece can be put together.
    pub fn is_busy(&self) -> bool {
        self.dumping.as_ref().is_some_and(|dumping| dumping.pieces.have_room())
    }

    /// Goes on with the dump, if there is one.
    pub fn write_on(&mut self, scheduler: &Scheduler, now: Timestamp) {
        if self.dumping.as_mut().is_some_and(|dumping| dumping.write_on(scheduler, now)) {
            self.dumping = None;
        }
    }
}

impl Dumping {
    /// Gives the thread one more piece, if it has room for it. Tells whether that was the last one.
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
    // Not through a symbolic link: the default is in a folder that anybody may write to. A pipe that
    // nobody reads is refused at once; one that somebody reads is waited for.
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
