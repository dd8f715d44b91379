//! Limiter for log lines that outside events could repeat at any rate.

use std::time::{Duration, Instant};

/// Minimum time between two lines of a kind.
const BETWEEN: Duration = Duration::from_secs(10);

/// Limiter for lines of one kind. Counts the lines left out.
#[derive(Default)]
pub struct Seldom {
    last: Option<Instant>,
    left_out: usize,
}

impl Seldom {
    /// Returns the suffix of a line to log now, `None` to skip it.
    ///
    /// The suffix has the number of lines skipped before.
    pub fn occasion(&mut self, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < BETWEEN) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.left_out) {
            0 => Some(String::new()),
            count => Some(format!("; and {count} times since this was last said")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_repeated_are_limited_and_counted() {
        let start = Instant::now();
        let mut lines = Seldom::default();
        let mut said = Vec::new();
        for second in 0..25 {
            said.extend(lines.occasion(start + Duration::from_secs(second)));
        }
        assert_eq!(
            said,
            [
                "",
                "; and 9 times since this was last said",
                "; and 9 times since this was last said"
            ]
        );
    }
}
