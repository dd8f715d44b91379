//! The rendezvous file: a dump of the queue for those who cannot connect, made on SIGUSR2.
//!
//! The dump is put together on the loop, a piece at a time, and written by a thread of its own, which
//! may have to wait for the reader of a pipe. A few pieces at most wait for the thread; when it has taken
//! one, it wakes the loop. When all is written, the file's modification time is set one second back: a
//! client that finds it before the change time knows that it has everything.

use crate::mailq::v1::Dump;
use crate::scheduler::Scheduler;
use crate::sys;
use crate::time::Timestamp;
use mio::Waker;
use std::fs::{FileTimes, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// The size of a piece, in bytes: one is put together in a turn of the loop.
const PIECE: usize = 64 * 1024;
/// So many pieces may wait for the thread.
const WAITING: usize = 4;

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
    pieces: SyncSender<Piece>,
    /// One that the thread had no room for.
    refused: Option<Piece>,
}

/// What the thread is given.
enum Piece {
    /// To be written.
    Text(Vec<u8>),
    /// That was all.
    End,
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
        let (pieces, waiting) = sync_channel(WAITING);
        let (path, waker) = (self.path.clone(), self.waker.clone());
        let writer = thread::Builder::new().name("rendezvous".to_string());
        match writer.spawn(move || write_and_report(&path, waiting, &waker)) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => return log::error!("{}: {error}", self.path.display()),
        }
        let dump = Dump::new(self.started, self.with_vertices);
        self.dumping = Some(Dumping { dump, pieces, refused: None });
    }

    /// Whether the next piece can be put together.
    pub fn is_busy(&self) -> bool {
        self.dumping.as_ref().is_some_and(|dumping| dumping.refused.is_none())
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
        let piece = self.refused.take().unwrap_or_else(|| self.next_piece(scheduler, now));
        let is_last = matches!(piece, Piece::End);
        match self.pieces.try_send(piece) {
            Ok(()) => is_last,
            Err(TrySendError::Full(piece)) => {
                self.refused = Some(piece);
                false
            }
            // The thread has failed, and has said why.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }

    fn next_piece(&mut self, scheduler: &Scheduler, now: Timestamp) -> Piece {
        if self.dump.is_over() {
            return Piece::End;
        }
        let mut text = Vec::with_capacity(PIECE);
        self.dump.write(scheduler, now, &mut text, PIECE);
        Piece::Text(text)
    }
}

fn write_and_report(path: &Path, pieces: Receiver<Piece>, waker: &Waker) {
    match write(path, &pieces, waker) {
        Ok(()) => log::info!("{}: state written", path.display()),
        Err(error) => log::error!("{}: the state cannot be written: {error}", path.display()),
    }
    drop(pieces);
    wake(waker);
}

fn write(path: &Path, pieces: &Receiver<Piece>, waker: &Waker) -> io::Result<()> {
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
    loop {
        let piece = pieces.recv();
        wake(waker);
        match piece {
            Ok(Piece::Text(text)) => file.write_all(&text)?,
            Ok(Piece::End) => break,
            Err(_) => return Err(io::Error::new(ErrorKind::Interrupted, "the scheduler ends")),
        }
    }
    let a_second_ago = SystemTime::now() - Duration::from_secs(1);
    file.set_times(FileTimes::new().set_accessed(a_second_ago).set_modified(a_second_ago))
}

fn wake(waker: &Waker) {
    // It fails only if the loop is gone, and then nobody needs to know.
    drop(waker.wake());
}
