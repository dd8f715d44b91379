//! The status log, as the daemon writes it (`--status-log`; what is in it: [`zsched_format::status_log`]).
//!
//! ```text
//!  loop: StatusLog ──requests, in order with all else──► writer: Composer ──lines──► appender
//! ```
//!
//! The addresses are in the control file, so whoever removes that composes the lines, too: the order of
//! its requests sees to it that a message is still there. The file itself may be on another disk than the
//! spool; a thread of its own writes it, so that no removal waits for that disk. Nothing is held up for
//! the status log, and what waits to be written is bounded: beyond that, lines are lost, and counted.

mod appender;
mod compose;
mod control_files;

pub use compose::Composer;

use super::worker;
use appender::Appender;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zsched_core::{Attempt, StatusRecord, Verdict};
use zsched_format::agent_protocol::Status;
use zsched_format::time::Timestamp;
use zsched_spool::SpoolName;

/// So many bytes of requests may wait for the writer, and so many bytes of lines for the appender.
const MOST_WAITING: usize = 32 << 20;
/// At the end, a disk that does not answer is waited for this long.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// The status log, as the loop sees it.
pub struct StatusLog {
    shared: Arc<Shared>,
    lines: Option<Sender<Lines>>,
    appender: Option<JoinHandle<()>>,
}

/// What all three threads know.
#[derive(Default)]
struct Shared {
    /// Lines that are lost, and not told of yet.
    lost: AtomicU64,
    /// Bytes of requests that the writer has not come to.
    requested: AtomicUsize,
    /// Bytes of lines that the appender has not come to.
    composed: AtomicUsize,
    /// The file is to be opened anew under its name.
    reopen: AtomicBool,
    /// The name is to be looked at.
    look: AtomicBool,
}

/// Lines for the appender, whole ones.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    count: u64,
}

/// The parts of a [`StatusRecord`] that may travel between OS threads.
pub struct StatusRequest {
    time: Timestamp,
    name: SpoolName,
    modified: Timestamp,
    created: Timestamp,
    channel: Box<[u8]>,
    host: Box<[u8]>,
    offsets: Vec<u32>,
    verdict: Verdict,
    attempt: Option<Attempt>,
    others: u32,
    notary: Box<[u8]>,
    text: Box<[u8]>,
}

impl From<StatusRecord> for StatusRequest {
    fn from(record: StatusRecord) -> StatusRequest {
        StatusRequest {
            time: record.time,
            name: record.name,
            modified: record.modified,
            created: record.created,
            channel: record.destination.channel().into(),
            host: record.destination.host().into(),
            offsets: record.offsets,
            verdict: record.verdict,
            attempt: record.attempt,
            others: record.others,
            notary: record.notary,
            text: record.text,
        }
    }
}

impl StatusRequest {
    /// How much memory it takes, in bytes.
    pub fn size(&self) -> usize {
        let texts = [&self.channel, &self.host, &self.notary, &self.text];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        size_of::<StatusRequest>() + texts + self.offsets.len() * size_of::<u32>()
    }

    /// The agent has left the notary data in the control file.
    fn has_note_on_disk(&self) -> bool {
        let by_agent = matches!(self.verdict, Verdict::Report(Status::Ok2 | Status::Error2));
        by_agent && self.notary.is_empty()
    }
}

impl StatusLog {
    /// Begins to write to an open file.
    pub fn start(path: PathBuf, file: File) -> io::Result<StatusLog> {
        let (sender, lines) = channel();
        let shared = Arc::new(Shared::default());
        let appender = Appender::new(path, file, shared.clone());
        let thread = worker::start("status log", move || appender.run(&lines))?;
        Ok(StatusLog { shared, lines: Some(sender), appender: Some(thread) })
    }

    /// What composes the lines.
    pub fn composer(&self) -> Composer {
        let lines = self.lines.clone().expect("it has one until the end");
        Composer::new(self.shared.clone(), lines)
    }

    /// A request for the writer, if there is room for it.
    pub fn request(&self, record: StatusRecord) -> Option<StatusRequest> {
        let request = StatusRequest::from(record);
        let size = request.size();
        if self.shared.requested.load(Ordering::Relaxed) + size > MOST_WAITING {
            self.shared.lost.fetch_add(request.offsets.len() as u64, Ordering::Relaxed);
            return None;
        }
        self.shared.requested.fetch_add(size, Ordering::Relaxed);
        Some(request)
    }

    /// Opens the file anew under its name, before anything else is written.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        // Nothing to write, but something to do.
        if let Some(lines) = &self.lines {
            drop(lines.send(Lines::default()));
        }
    }

    /// Opens the file anew if its name leads elsewhere.
    pub fn look(&self) {
        self.shared.look.store(true, Ordering::Release);
        if let Some(lines) = &self.lines {
            drop(lines.send(Lines::default()));
        }
    }

    /// Waits until everything is written. The composer must be gone.
    pub fn finish(mut self) {
        self.lines = None;
        let Some(appender) = self.appender.take() else {
            return;
        };
        let end = Instant::now() + TIME_TO_END;
        while !appender.is_finished() {
            if Instant::now() > end {
                return log::error!("the end of the status log is lost: its disk does not answer");
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Opens a status log for appending. There are addresses in it, so a new one is not for everybody.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}
