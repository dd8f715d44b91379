//! A log of what happened, to debug a failing seed, and its checksum, to compare two runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use zsched_format::time::Timestamp;
use zsched_simulation::observer::SimTime;

/// Maximum number of lines that are kept.
const MAX_LINES: usize = 60;

/// The last lines of the log.
pub struct Trace {
    start: Timestamp,
    is_kept: bool,
    lines: RefCell<VecDeque<String>>,
    sum: Cell<u64>,
    at: Cell<Option<SimTime>>,
}

impl Trace {
    /// Creates an empty log. Unless `is_kept`, it records only the time of the last entry.
    pub fn new(start: Timestamp, is_kept: bool) -> Trace {
        let lines = RefCell::new(VecDeque::new());
        Trace { start, is_kept, lines, sum: Cell::new(0), at: Cell::new(None) }
    }

    /// Adds an entry.
    pub fn add(&self, at: SimTime, text: impl FnOnce() -> String) {
        self.at.set(Some(at));
        if !self.is_kept {
            return;
        }
        let line = format!("{} {}", self.when(at), text());
        let mut hasher = DefaultHasher::new();
        (self.sum.get(), &line).hash(&mut hasher);
        self.sum.set(hasher.finish());
        let mut lines = self.lines.borrow_mut();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn when(&self, at: SimTime) -> String {
        let now = at.now.since(self.start).as_secs_f64();
        let wall = at.wall.seconds_since(at.now);
        format!("step {} at {now:.6} s (wall {wall:+} s)", at.step)
    }

    /// Returns the time of the last entry.
    pub fn last(&self) -> String {
        self.at.get().map_or("the start".to_string(), |at| self.when(at))
    }

    /// Returns the last entries, one line each.
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().iter().cloned().collect()
    }

    /// Returns a checksum of all entries.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }
}
