//! Warnings about an answer that is damaged, but shown all the same.

use crate::failure::Failure;
use crate::screen::warn;

/// Maximum number of warnings that are printed. Further ones are only counted.
const MAX_PRINTED_WARNINGS: usize = 10;

/// Warnings, the first of them with their texts.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    shown: Vec<String>,
    count: u64,
}

impl Warnings {
    /// Adds a warning. The text is only built if it will be printed.
    pub(crate) fn add(&mut self, message: impl FnOnce() -> String) {
        if self.shown.len() < MAX_PRINTED_WARNINGS {
            self.shown.push(message());
        }
        self.count += 1;
    }

    /// Prints the warnings on standard error.
    pub(crate) fn print(&self) {
        for message in &self.shown {
            warn(message);
        }
        let rest = self.count - self.shown.len() as u64;
        if rest > 0 {
            warn(format_args!("and {rest} more like these"));
        }
    }

    /// Returns [`Failure::Damaged`] if there is any warning.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        if self.count == 0 { Ok(()) } else { Err(Failure::Damaged) }
    }

    /// Number of warnings.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
