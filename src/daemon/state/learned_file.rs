//! File of learned state: `.scheduler.learned` in POSTOFFICE, one JSON object per line.
//!
//! ```text
//! {"zsched-learned":1}
//! {"thread":{"channel":"smtp","host":"mx.test","index":2,"wakeup":1795259643000000000,...}}
//! {"vertex":{"number":4711,"modified":1795255200123456789,...,"attempts":3,"text":"..."}}
//! {"text":{"number":7,"text":"..."}}
//! {"rest":{"number":4712,"modified":1795255200123456789,"vertices":[...]}}
//! {"end":2}
//! ```
//!
//! The file is written as a whole under another name, synced and renamed. So there is a complete
//! file at any time. Damaged lines are skipped all the same.

use crate::chunked_writer::{CHUNK_SIZE, ChunkReceiver, ChunkedWriter};
use crate::state::json_lines::{number_in, number_line, write_line};
use mio::Waker;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zsched_core::Scheduler;
use zsched_core::learned::{Learned, LearnedExport, PagedOutSource};
use zsched_spool::atomic_write::write_atomically;

/// Name in the first line.
const NAME: &str = "zsched-learned";
/// Name in the last line, which has the number of lines before it.
const END: &str = "end";
/// Version of the format.
const FORMAT: u64 = 1;
/// Number of lines that add a second to the interval between two writes.
const LINES_PER_SECOND: u64 = 10_000;
/// Maximum number of threads or messages exported per step.
const MAX_EXPORTED_PER_STEP: usize = 200;
/// Maximum length of a line, in bytes.
const MAX_LINE_LEN: u64 = 64 * 1024;

/// File of learned state, and its schedule of writes.
pub(crate) struct LearnedFile {
    path: PathBuf,
    /// Minimum time between two writes.
    interval: Duration,
    writer: ChunkedWriter<LearnedText>,
    /// True if the last write failed and must be repeated even without new state.
    has_failed: Arc<AtomicBool>,
    next: Instant,
    /// Value of the core's `learned_revision` at the last write.
    written_revision: u64,
}

/// Text of the file, composed in pieces.
#[derive(Default)]
struct LearnedText {
    export: LearnedExport,
    lines: u64,
    is_ended: bool,
}

impl LearnedFile {
    /// Creates the state without export.
    ///
    /// `interval` is the minimum time between two writes. `waker` wakes the loop.
    pub(crate) fn new(path: PathBuf, interval: Duration, waker: Arc<Waker>) -> LearnedFile {
        let next = Instant::now() + interval;
        LearnedFile {
            path,
            interval,
            writer: ChunkedWriter::new("learned", waker),
            has_failed: Arc::default(),
            next,
            written_revision: 0,
        }
    }

    /// Reads the state of the former scheduler. Unusable lines are skipped, counted and logged.
    pub(crate) fn read(&self, tell: impl FnMut(Learned)) {
        match read(&self.path, tell) {
            Ok(0) => {}
            Ok(damaged) => log::warn!("{}: {damaged} lines cannot be used", self.path.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => log::warn!("{}: {error}", self.path.display()),
        }
    }

    /// Returns true if the export can continue at once.
    pub(crate) fn is_busy(&self) -> bool {
        self.writer.is_busy()
    }

    /// Time until the next write may be due.
    pub(crate) fn until_next(&self, core: &Scheduler) -> Option<Duration> {
        let has_news = core.view().learned_revision() != self.written_revision
            || self.has_failed.load(Ordering::Acquire);
        let is_due = !self.writer.is_composing() && has_news;
        is_due.then(|| self.next.saturating_duration_since(Instant::now()))
    }

    /// Starts a write if one is due, and continues it.
    pub(crate) fn advance(&mut self, core: &Scheduler, paged_out: &dyn PagedOutSource) {
        if self.until_next(core).is_some_and(|left| left.is_zero()) {
            self.begin(core);
        }
        if let Some(text) = self.writer.advance(|text| text.next_piece(core, paged_out)) {
            let more = Duration::from_secs(text.lines / LINES_PER_SECOND);
            self.next = Instant::now() + self.interval + more;
        }
    }

    fn begin(&mut self, core: &Scheduler) {
        self.next = Instant::now() + self.interval;
        let path = self.path.clone();
        let has_failed = self.has_failed.clone();
        let write = move |to_write: ChunkReceiver| {
            match write_atomically(&path, |out| to_write.write_all(out)) {
                Ok(()) => {}
                // The scheduler is ending and writes the file itself.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    log::error!("{}: cannot be written: {error}", path.display());
                    has_failed.store(true, Ordering::Release);
                }
            }
        };
        match self.writer.begin(LearnedText::default(), write) {
            Ok(true) => {
                self.written_revision = core.view().learned_revision();
                self.has_failed.store(false, Ordering::Release);
            }
            // The former text is still being written.
            Ok(false) => {}
            Err(error) => log::error!("{}: {error}", self.path.display()),
        }
    }

    /// Writes the whole file at the end of the scheduler.
    pub(crate) fn finish(&mut self, core: &Scheduler, paged_out: &dyn PagedOutSource) {
        self.writer.stop();
        if core.view().learned_revision() == 0 && self.path.try_exists().is_ok_and(|there| !there) {
            return;
        }
        let written = write_atomically(&self.path, |out| {
            let mut text = LearnedText::default();
            while let Some(piece) = text.next_piece(core, paged_out) {
                out.write_all(&piece)?;
            }
            Ok(())
        });
        if let Err(error) = written {
            log::error!("{}: cannot be written: {error}", self.path.display());
        }
    }
}

impl LearnedText {
    /// Composes the next piece; `None` after the last one.
    fn next_piece(&mut self, core: &Scheduler, paged_out: &dyn PagedOutSource) -> Option<Vec<u8>> {
        if self.is_ended {
            return None;
        }
        let mut text = Vec::with_capacity(CHUNK_SIZE);
        if self.lines == 0 {
            text.extend(format!("{}\n", number_line(NAME, FORMAT)).bytes());
        }
        while text.len() < CHUNK_SIZE && !self.export.is_done() {
            self.export.export(core, paged_out, MAX_EXPORTED_PER_STEP, |learned| {
                // Strings and numbers can always be serialized.
                self.lines += u64::from(write_line(&mut text, &learned).is_ok());
            });
        }
        if self.export.is_done() {
            text.extend(format!("{}\n", number_line(END, self.lines)).bytes());
            self.is_ended = true;
        }
        Some(text)
    }
}

/// Reads a file. Returns the number of unusable lines.
fn read(path: &Path, mut tell: impl FnMut(Learned)) -> io::Result<u64> {
    let mut input = BufReader::new(File::open(path)?);
    let mut damaged = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = io::Read::take(&mut input, MAX_LINE_LEN).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(damaged);
        }
        match serde_json::from_slice::<Learned>(&line) {
            Ok(learned) => tell(learned),
            Err(_) if number_in(&line, NAME) == Some(FORMAT) || number_in(&line, END).is_some() => {
            }
            Err(_) => damaged += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const GOOD: &str = concat!(
        r#"{"thread":{"channel":"c","host":"h","index":2,"wakeup":1795259643000000000,"block":null,"answered":false}}"#,
        "\n",
        r#"{"vertex":{"number":1,"modified":5,"channel":"c","host":"h","attempts":3,"text":"busy"}}"#,
        "\n",
    );

    fn told(text: &[u8]) -> (usize, u64) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), text).expect("written");
        let mut told = 0;
        let damaged = read(file.path(), |_| told += 1).expect("it can be read");
        (told, damaged)
    }

    #[test]
    fn learned_file_with_damaged_lines_is_read_without_them() {
        let whole = format!("{{\"zsched-learned\":1}}\n{GOOD}{{\"end\":2}}\n");
        assert_eq!(told(whole.as_bytes()), (2, 0));
        for cut in 0..whole.len() {
            assert!(told(&whole.as_bytes()[..cut]).1 <= 1, "{cut}");
        }
        assert_eq!(told(b"{\"zsched-learned\":2}\n\xff\n{}\n[1]\nnull"), (0, 5));
        assert_eq!(told(&[vec![b'x'; 1_000_000], GOOD.into()].concat()).0, 1, "an endless line");
        assert_eq!(told(b""), (0, 0));
    }
}
