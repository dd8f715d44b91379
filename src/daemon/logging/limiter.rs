//! Limiter for log lines that outside events could repeat at any rate.

use std::time::{Duration, Instant};

/// Minimum time between two lines of a kind.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

/// Limiter for lines of one kind. Counts the lines left out.
#[derive(Default)]
pub struct LogLimiter {
    last: Option<Instant>,
    suppressed: usize,
}

impl LogLimiter {
    /// Returns the suffix of a line to log now, `None` to skip it.
    ///
    /// The suffix has the number of lines skipped before.
    pub fn permit(&mut self, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < MIN_INTERVAL) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        match std::mem::take(&mut self.suppressed) {
            0 => Some(String::new()),
            count => Some(format!("; {count} similar messages suppressed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_repeated_are_limited_and_counted() {
        let start = Instant::now();
        let mut lines = LogLimiter::default();
        let mut said = Vec::new();
        for second in 0..25 {
            said.extend(lines.permit(start + Duration::from_secs(second)));
        }
        assert_eq!(
            said,
            ["", "; 9 similar messages suppressed", "; 9 similar messages suppressed"]
        );
    }
}
