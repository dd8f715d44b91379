//! Logs whose lines a worker writes, so that nothing else waits for their disk.
//!
//! Lines that wait are limited. Those beyond the limit, and those that cannot be written, are lost;
//! the log itself says how many, where it continues.

use crate::worker;
use memchr::memchr_iter;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum size of waiting lines, in bytes.
const MAX_WAITING_BYTES: usize = 32 << 20;
/// Memory for waiting lines that is kept when they are written, in bytes.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

/// Time for which the worker waits for more lines before it writes the first ones.
///
/// Otherwise it would wake up and write for almost every line.
const GATHER_TIME: Duration = Duration::from_millis(5);

/// Composes the line that takes the place of lost lines, given their number.
pub type GapLine = dyn Fn(u64) -> Vec<u8> + Send;

/// Where the lines of a log go.
pub trait LogOutput: Send + 'static {
    /// Name of the log in messages.
    fn what(&self) -> &'static str;
    /// Opens it again, or only if it was renamed.
    fn reopen(&mut self, only_renamed: bool);
    /// Appends whole lines. `gap` composes the line in the place of lost lines.
    fn append(&mut self, lines: &[u8], gap: &GapLine);
    /// Number of lines that are lost, and that no line reports as lost.
    fn lost(&mut self) -> &mut u64;
}

/// A log that a worker writes.
#[derive(Clone)]
pub struct BackgroundLog {
    what: &'static str,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Something waits, or nothing waits any longer.
    changed: Condvar,
}

/// What waits for the worker.
#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Size of the lines that are being written.
    being_written: usize,
    /// Number of lines for which there was no room.
    lost: u64,
    /// True if the file is to be reopened under its name.
    reopen: bool,
    /// True if the file is to be checked for a rename.
    check_rotation: bool,
    /// True until the worker has written everything, and the number of lost lines.
    flush: bool,
}

impl BackgroundLog {
    /// Starts the worker.
    pub fn start(
        output: impl LogOutput,
        gap: impl Fn(u64) -> Vec<u8> + Send + 'static,
    ) -> io::Result<BackgroundLog> {
        let (shared, gap) = (Arc::new(Shared::default()), Box::new(gap));
        let log = BackgroundLog { what: output.what(), shared: shared.clone() };
        worker::start_in_background(log.what, move || Appender { output, gap, shared }.run())?;
        Ok(log)
    }

    /// Name of the log in messages.
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Adds whole lines. If too much waits, they are lost and counted.
    pub fn push(&self, lines: &[u8]) {
        let mut waiting = self.shared.lock();
        let was_idle = waiting.is_idle();
        let size = waiting.lines.len() + waiting.being_written + lines.len();
        if size > MAX_WAITING_BYTES {
            waiting.lost += memchr_iter(b'\n', lines).count() as u64;
        } else {
            waiting.lines.extend_from_slice(lines);
        }
        drop(waiting);
        // Otherwise the worker is awake, and a wake-up is a system call in any case.
        if was_idle {
            self.shared.changed.notify_all();
        }
    }

    /// Counts lines that could not be composed.
    pub fn add_lost(&self, lines: u64) {
        self.shared.lock().lost += lines;
    }

    /// Reopens the file under its name, or only if it was renamed, before more is written.
    pub fn reopen(&self, only_renamed: bool) {
        let mut waiting = self.shared.lock();
        waiting.check_rotation |= only_renamed;
        waiting.reopen |= !only_renamed;
        drop(waiting);
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written. Returns false if that takes longer than `max_wait`.
    pub fn flush(&self, max_wait: Duration) -> bool {
        let mut waiting = self.shared.lock();
        waiting.flush = true;
        self.shared.changed.notify_all();
        let waited = self.shared.changed.wait_timeout_while(waiting, max_wait, |waiting| {
            waiting.flush || waiting.being_written > 0 || !waiting.lines.is_empty()
        });
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// The lines of the logger: each write is a whole line.
impl Write for BackgroundLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// A panic leaves nothing half done here.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && !self.reopen && !self.check_rotation && !self.flush
    }
}

/// State of the worker.
struct Appender<O> {
    output: O,
    gap: Box<GapLine>,
    shared: Arc<Shared>,
}

impl<O: LogOutput> Appender<O> {
    /// Appends lines as they come. The worker ends with the process.
    fn run(&mut self) {
        let mut lines = Vec::new();
        loop {
            self.append_next(&mut lines);
        }
    }

    /// Waits for lines and appends them. `lines` is empty memory for them.
    fn append_next(&mut self, lines: &mut Vec<u8>) {
        let waiting = self.shared.lock();
        let waiting = self.shared.changed.wait_while(waiting, |waiting| waiting.is_idle());
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let more = self
            .shared
            .changed
            .wait_timeout_while(waiting, GATHER_TIME, |waiting| !waiting.flush && !waiting.reopen);
        let mut waiting = more.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::swap(lines, &mut waiting.lines);
        waiting.being_written = lines.len();
        *self.output.lost() += std::mem::take(&mut waiting.lost);
        let flush = waiting.flush;
        let reopen = std::mem::take(&mut waiting.reopen);
        let check_rotation = std::mem::take(&mut waiting.check_rotation);
        drop(waiting);
        if reopen || check_rotation {
            self.output.reopen(!reopen);
        }
        if !lines.is_empty() || (flush && *self.output.lost() > 0) {
            self.output.append(lines, &self.gap);
        }
        lines.clear();
        lines.shrink_to(MAX_KEPT_CAPACITY);
        let mut waiting = self.shared.lock();
        waiting.being_written = 0;
        waiting.flush &= !flush;
        drop(waiting);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AppendedFile;
    use std::path::Path;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    fn log(path: &Path) -> BackgroundLog {
        let file = AppendedFile::open(path, "test log", 0o600).expect("opened");
        BackgroundLog::start(file, |lost| format!("{lost} lost\n").into_bytes()).expect("a worker")
    }

    /// A log that no worker writes.
    fn unwritten() -> BackgroundLog {
        BackgroundLog { what: "test log", shared: Arc::default() }
    }

    #[test]
    fn lines_lost_are_reported_in_a_gap_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let log = log(&path);
        log.push(b"a\n");
        log.push(b"b\n");
        assert!(log.flush(LONG));
        log.add_lost(7);
        log.push(b"c\n");
        assert!(log.flush(LONG));
        log.add_lost(2);
        assert!(log.flush(LONG), "also at the end");
        let written = std::fs::read_to_string(&path).expect("written");
        assert_eq!(written, "a\nb\n7 lost\nc\n2 lost\n");
    }

    #[test]
    fn line_after_idle_time_is_written_without_flush() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        let log = log(&path);
        let mut expected = String::new();
        for line in ["a\n", "b\n", "c\n"] {
            log.push(line.as_bytes());
            expected.push_str(line);
            let end = Instant::now() + LONG;
            while std::fs::read_to_string(&path).expect("a log") != expected {
                assert!(Instant::now() < end, "{line:?} is not written");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn lines_beyond_limit_are_lost_and_counted() {
        let log = unwritten();
        let lines = [b'\n'; 1 << 20];
        for _ in 0..(MAX_WAITING_BYTES >> 20) + 2 {
            log.push(&lines);
        }
        let waiting = log.shared.lock();
        assert_eq!((waiting.lines.len(), waiting.lost), (MAX_WAITING_BYTES, 2 << 20));
    }

    #[test]
    fn flush_of_log_that_nobody_writes_gives_up() {
        let log = unwritten();
        log.push(b"a\n");
        assert!(!log.flush(Duration::from_millis(1)));
    }

    #[test]
    fn full_disk_loses_lines_and_is_no_end() {
        let log = log(Path::new("/dev/full"));
        log.push(b"a\n");
        assert!(log.flush(LONG));
        log.push(b"b\n");
        assert!(log.flush(LONG));
    }
}
