//! Writes the status log (`--status-log`; for its contents see [`crate::logging::status_log`]).
//!
//! ```text
//!  loop: StatusLog ──records, in order with other writes──► writer: Composer ──lines──► appender
//! ```
//!
//! The addresses are in the control file. So the worker that removes control files composes the
//! lines, too: the order of its requests ensures that the file is still there. The log may be on
//! another disk than the spool. A separate worker appends to it, so that no removal waits for
//! that disk.
//!
//! The status log delays nothing. What waits to be written is limited; lines beyond the limit are
//! lost and counted.

mod appender;
mod compose;
mod control_files;

pub(crate) use compose::{Composer, delivery_status, word};

use crate::logging::appended_file::AppendedFile;
use crate::worker;
use appender::Appender;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zsched_core::StatusRecord;

/// Maximum size of waiting records, and of waiting lines, in bytes.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// The loop's end of the status log.
pub(crate) struct StatusLog {
    shared: Arc<StatusLogState>,
    lines: Sender<Vec<u8>>,
    appender: JoinHandle<()>,
    /// Maximum time to wait at the end for a disk that does not answer.
    max_end_wait: Duration,
}

/// State shared by the loop, the writer and the appender.
#[derive(Default)]
struct StatusLogState {
    /// Number of lost lines that the appender does not know of yet.
    lost: AtomicU64,
    /// Size of records waiting for the writer, in bytes.
    requested: AtomicUsize,
    /// Size of lines waiting for the appender, in bytes.
    composed: AtomicUsize,
    /// True if the file is to be reopened under its name.
    reopen: AtomicBool,
    /// True if the file is to be checked for a rename.
    check_rotation: AtomicBool,
}

/// Memory that a record takes, in bytes.
pub(crate) fn size(record: &StatusRecord) -> usize {
    let texts = [record.destination.as_bytes(), &record.notary, &record.text];
    let texts: usize = texts.iter().map(|text| text.len()).sum();
    size_of::<StatusRecord>() + texts + size_of_val(&record.offsets[..])
}

impl StatusLog {
    /// Starts the appender on an open file.
    ///
    /// `max_end_wait` is the maximum time to wait at the end for a disk that does not answer.
    pub(crate) fn start(file: AppendedFile, max_end_wait: Duration) -> io::Result<StatusLog> {
        let (lines, receiver) = channel();
        let shared = Arc::new(StatusLogState::default());
        let mut appender = Appender { file, shared: shared.clone() };
        let appender = worker::start("status log", move || appender.run(&receiver))?;
        Ok(StatusLog { shared, lines, appender, max_end_wait })
    }

    /// Creates the composer for the writer.
    pub(crate) fn composer(&self) -> Composer {
        Composer::new(self.shared.clone(), self.lines.clone())
    }

    /// Returns true if there is room for a record, which must go to the writer then.
    ///
    /// Otherwise its lines are counted as lost.
    pub(crate) fn admits(&self, record: &StatusRecord) -> bool {
        let size = size(record);
        let has_room = self.shared.requested.load(Ordering::Relaxed) + size <= MAX_WAITING_BYTES;
        if has_room {
            self.shared.requested.fetch_add(size, Ordering::Relaxed);
        } else {
            self.shared.lost.fetch_add(record.offsets.len() as u64, Ordering::Relaxed);
        }
        has_room
    }

    /// Reopens the file under its name, or only if it was renamed.
    ///
    /// Comes before further lines are written.
    pub(crate) fn reopen(&self, only_renamed: bool) {
        let StatusLogState { reopen, check_rotation, .. } = &*self.shared;
        let request = if only_renamed { check_rotation } else { reopen };
        request.store(true, Ordering::Release);
        // An empty portion wakes the appender.
        drop(self.lines.send(Vec::new()));
    }

    /// Waits until everything is written. The composer must have been dropped.
    pub(crate) fn finish(self) {
        let StatusLog { lines, appender, max_end_wait, .. } = self;
        drop(lines);
        let end = Instant::now() + max_end_wait;
        while !appender.is_finished() {
            if Instant::now() > end {
                return log::error!(
                    "the last lines of the status log are lost: its disk does not answer"
                );
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Opens a status log for appending. A new one is not readable by all: it has addresses.
pub(crate) fn open(path: &Path) -> io::Result<AppendedFile> {
    AppendedFile::open(path, "status log", 0o640)
}
