//! The rendezvous file: a dump of the queue for those who cannot connect, made on SIGUSR2.
//!
//! The dump is put together on the loop, some at a time, and written by a thread of its own, which
//! may have to wait for the reader of a pipe. When it is complete, the file's modification time is
//! set one second back: a client that finds it before the change time knows that it has everything.

use crate::mailq::v1::Dump;
use crate::scheduler::Scheduler;
use crate::time::Timestamp;
use std::fs::{FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// How much is put together in one turn of the loop, in bytes.
const SHARE_OF_TURN: usize = 256 * 1024;

/// The rendezvous file, and a dump that is on its way to it.
pub struct Rendezvous {
    path: PathBuf,
    started: Timestamp,
    with_vertices: bool,
    dump: Option<(Dump, Vec<u8>)>,
    writer: Option<JoinHandle<()>>,
}

impl Rendezvous {
    /// Nothing is written yet.
    pub fn new(path: PathBuf, started: Timestamp, with_vertices: bool) -> Rendezvous {
        Rendezvous { path, started, with_vertices, dump: None, writer: None }
    }

    /// Begins a dump, unless one is under way.
    pub fn begin(&mut self) {
        let is_busy = self.writer.as_ref().is_some_and(|writer| !writer.is_finished());
        if is_busy || self.dump.is_some() {
            log::warn!("{}: the former dump is still being written", self.path.display());
            return;
        }
        self.dump = Some((Dump::new(self.started, self.with_vertices), Vec::new()));
    }

    /// Whether a dump is being put together.
    pub fn is_busy(&self) -> bool {
        self.dump.is_some()
    }

    /// Goes on with the dump, if there is one.
    pub fn write_on(&mut self, scheduler: &Scheduler, now: Timestamp) {
        let Some((dump, text)) = &mut self.dump else {
            return;
        };
        let enough = text.len() + SHARE_OF_TURN;
        dump.write(scheduler, now, text, enough);
        if !dump.is_over() {
            return;
        }
        let (path, text) = (self.path.clone(), std::mem::take(text));
        self.dump = None;
        let writer = thread::Builder::new().name("rendezvous".to_string());
        match writer.spawn(move || write_and_report(&path, &text)) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => log::error!("{}: {error}", self.path.display()),
        }
    }
}

fn write_and_report(path: &Path, text: &[u8]) {
    match write(path, text) {
        Ok(()) => log::info!("{}: state written", path.display()),
        Err(error) => log::error!("{}: the state cannot be written: {error}", path.display()),
    }
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    // Not through a symbolic link: the default is in a folder that anybody may write to. A pipe that
    // nobody reads is refused at once.
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    file.write_all(text)?;
    let a_second_ago = SystemTime::now() - Duration::from_secs(1);
    file.set_times(FileTimes::new().set_accessed(a_second_ago).set_modified(a_second_ago))
}
