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

use super::pieces::{PIECE, Pieces, ToWrite};
use mio::Waker;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zsched_core::Scheduler;
use zsched_core::learned::{Learned, LearnedExport, PagedOutSource};
use zsched_spool::atomic_write::write_atomically;

/// Version of the format.
const FORMAT: u64 = 1;
/// Number of lines that add a second to the interval between two writes.
const LINES_PER_SECOND: u64 = 10_000;
/// Maximum number of threads or messages exported per step.
const ASKED_AT_A_TIME: usize = 200;
/// Maximum length of a line, in bytes.
const LONGEST_LINE: u64 = 64 * 1024;

/// File of learned state, and its schedule of writes.
pub struct LearnedFile {
    path: PathBuf,
    /// Minimum time between two writes.
    interval: Duration,
    waker: Arc<Waker>,
    writing: Option<Writing>,
    writer: Option<JoinHandle<()>>,
    /// True if the last write failed and must be repeated even without new state.
    has_failed: Arc<AtomicBool>,
    next: Instant,
    /// Value of [`Scheduler::learned_revision`] at the last write.
    written: u64,
}

/// Export under way.
struct Writing {
    lessons: LearnedExport,
    pieces: Pieces,
    lines: u64,
    is_ended: bool,
}

impl LearnedFile {
    /// Creates the state without writing.
    ///
    /// `interval` is the minimum time between two writes. `waker` wakes the loop.
    pub fn new(path: PathBuf, interval: Duration, waker: Arc<Waker>) -> LearnedFile {
        let next = Instant::now() + interval;
        LearnedFile {
            path,
            interval,
            waker,
            writing: None,
            writer: None,
            has_failed: Arc::default(),
            next,
            written: 0,
        }
    }

    /// Reads the state of the former scheduler. Unusable lines are skipped, counted and logged.
    pub fn read(&self, tell: impl FnMut(Learned)) {
        match read(&self.path, tell) {
            Ok(0) => {}
            Ok(damaged) => log::warn!("{}: {damaged} lines cannot be used", self.path.display()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => log::warn!("{}: {error}", self.path.display()),
        }
    }

    /// Returns true if the export can continue at once.
    pub fn is_busy(&self) -> bool {
        self.writing.as_ref().is_some_and(|writing| writing.pieces.have_room())
    }

    /// Time until the next write may be due.
    pub fn until_next(&self, core: &Scheduler) -> Option<Duration> {
        let has_news =
            core.learned_revision() != self.written || self.has_failed.load(Ordering::Acquire);
        let is_due = self.writing.is_none() && has_news;
        is_due.then(|| self.next.saturating_duration_since(Instant::now()))
    }

    /// Starts a write if one is due, and continues it.
    pub fn write_on(&mut self, core: &Scheduler, resting: &dyn PagedOutSource) {
        if self.until_next(core).is_some_and(|left| left.is_zero()) {
            self.begin(core);
        }
        if let Some(writing) = &mut self.writing
            && writing.write_on(core, resting)
        {
            let more = Duration::from_secs(writing.lines / LINES_PER_SECOND);
            self.next = Instant::now() + self.interval + more;
            self.writing = None;
        }
    }

    fn begin(&mut self, core: &Scheduler) {
        self.next = Instant::now() + self.interval;
        if self.writer.as_ref().is_some_and(|writer| !writer.is_finished()) {
            return;
        }
        let path = self.path.clone();
        let has_failed = self.has_failed.clone();
        let write = move |to_write: ToWrite| {
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
        match Pieces::start("learned", self.waker.clone(), write) {
            Ok((pieces, writer)) => {
                self.writer = Some(writer);
                self.written = core.learned_revision();
                self.has_failed.store(false, Ordering::Release);
                let lessons = LearnedExport::default();
                self.writing = Some(Writing { lessons, pieces, lines: 0, is_ended: false });
            }
            Err(error) => log::error!("{}: {error}", self.path.display()),
        }
    }

    /// Writes the whole file at the end of the scheduler.
    pub fn finish(&mut self, core: &Scheduler, resting: &dyn PagedOutSource) {
        self.writing = None;
        if let Some(writer) = self.writer.take() {
            // The worker has logged any error.
            drop(writer.join());
        }
        if core.learned_revision() == 0 && self.path.try_exists().is_ok_and(|there| !there) {
            return;
        }
        let written = write_atomically(&self.path, |out| {
            let (mut lessons, mut lines) = (LearnedExport::default(), 0);
            let mut text = begin_text();
            while !lessons.is_done() {
                lines += add_lines(core, resting, &mut lessons, &mut text);
                out.write_all(&text)?;
                text.clear();
            }
            out.write_all(&end_text(lines))
        });
        if let Err(error) = written {
            log::error!("{}: cannot be written: {error}", self.path.display());
        }
    }
}

impl Writing {
    /// Passes more text to the worker. Returns true once all is passed.
    fn write_on(&mut self, core: &Scheduler, resting: &dyn PagedOutSource) -> bool {
        let Writing { lessons, pieces, lines, is_ended } = self;
        pieces.give(|| {
            if *is_ended {
                return None;
            }
            let mut text = if *lines == 0 { begin_text() } else { Vec::with_capacity(PIECE) };
            while text.len() < PIECE && !lessons.is_done() {
                *lines += add_lines(core, resting, lessons, &mut text);
            }
            if lessons.is_done() {
                text.extend_from_slice(&end_text(*lines));
                *is_ended = true;
            }
            Some(text)
        })
    }
}

fn begin_text() -> Vec<u8> {
    format!("{}\n", json!({ "zsched-learned": FORMAT })).into_bytes()
}

fn end_text(lines: u64) -> Vec<u8> {
    format!("{}\n", json!({ "end": lines })).into_bytes()
}

/// Adds lines about more threads or messages. Returns their number.
fn add_lines(
    core: &Scheduler,
    resting: &dyn PagedOutSource,
    lessons: &mut LearnedExport,
    text: &mut Vec<u8>,
) -> u64 {
    let mut lines = 0;
    lessons.tell(core, resting, ASKED_AT_A_TIME, |learned| {
        // Strings and numbers can always be serialized.
        if let Ok(line) = serde_json::to_string(&learned) {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
            lines += 1;
        }
    });
    lines
}

/// Reads a file. Returns the number of unusable lines.
fn read(path: &Path, mut tell: impl FnMut(Learned)) -> io::Result<u64> {
    let mut input = BufReader::new(File::open(path)?);
    let mut damaged = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = io::Read::take(&mut input, LONGEST_LINE).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(damaged);
        }
        match serde_json::from_slice::<Learned>(&line) {
            Ok(learned) => tell(learned),
            Err(_) if is_frame(&line) => {}
            Err(_) => damaged += 1,
        }
    }
}

/// Returns true for the first and the last line.
fn is_frame(line: &[u8]) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    value.is_some_and(|value| value["zsched-learned"] == FORMAT || value["end"].is_u64())
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
