//! What is wrong with an answer that could be shown all the same.

use super::failure::Failure;
use super::screen::complain;

/// How many are printed; the rest is only counted.
const SHOWN: usize = 10;

/// What is wrong, line by line.
#[derive(Debug, Default)]
pub struct Complaints {
    shown: Vec<String>,
    count: u64,
}

impl Complaints {
    /// Adds one. What it says is only put together if it will be read.
    pub fn add(&mut self, message: impl FnOnce() -> String) {
        if self.shown.len() < SHOWN {
            self.shown.push(message());
        }
        self.count += 1;
    }

    /// Prints them on standard error.
    pub fn print(&self) {
        for message in &self.shown {
            complain(message);
        }
        let rest = self.count - self.shown.len() as u64;
        if rest > 0 {
            complain(format_args!("and {rest} more like these"));
        }
    }

    /// Whether the answer was good.
    pub fn verdict(&self) -> Result<(), Failure> {
        if self.count == 0 { Ok(()) } else { Err(Failure::Damage) }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }
}
