//! Limiter for log lines that outside events could repeat at any rate.

use crate::time::{ClockStep, Timestamp};
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Limit of a [`LogLimiter`] by default: one line in this time.
const DEFAULT_PERIOD: Duration = Duration::from_secs(10);

/// A time of a clock: of the operating system, or of the core.
pub trait Moment: Copy {
    /// Time since an earlier moment; zero if that one is later.
    fn passed_since(self, earlier: Self) -> Duration;
}

impl Moment for Instant {
    fn passed_since(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl Moment for Timestamp {
    fn passed_since(self, earlier: Timestamp) -> Duration {
        self.since(earlier)
    }
}

/// Limiter for lines of one kind. Counts the lines left out.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct LogLimiter<M = Instant> {
    max_lines: u32,
    period: Duration,
    /// Start of the current period.
    began: Option<M>,
    /// Number of lines logged in it.
    lines: u32,
    /// Number of lines left out and not reported yet.
    suppressed: u64,
}

/// Number of lines left out before a line; its text is a suffix of that line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suppressed(u64);

impl fmt::Display for Suppressed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(f, "; {count} similar messages suppressed"),
        }
    }
}

/// One line in ten seconds.
impl Default for LogLimiter {
    fn default() -> LogLimiter {
        LogLimiter::new(1, DEFAULT_PERIOD)
    }
}

impl<M: Moment> LogLimiter<M> {
    /// Allows `max_lines` lines in each period.
    pub fn new(max_lines: u32, period: Duration) -> LogLimiter<M> {
        LogLimiter { max_lines, period, began: None, lines: 0, suppressed: 0 }
    }

    /// Returns the suffix of a line to log now, `None` to leave it out.
    pub fn permit(&mut self, now: M) -> Option<Suppressed> {
        if self.began.is_none_or(|began| now.passed_since(began) >= self.period) {
            (self.began, self.lines) = (Some(now), 0);
        }
        if self.lines >= self.max_lines {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(Suppressed(std::mem::take(&mut self.suppressed)))
    }

    /// Counts lines that are left out.
    pub fn suppress(&mut self, Suppressed(lines): Suppressed, now: M) {
        if lines > 0 {
            self.began.get_or_insert(now);
            self.suppressed += lines;
        }
    }

    /// Number of lines left out and not reported yet.
    pub fn suppressed(&self) -> Suppressed {
        Suppressed(self.suppressed)
    }

    /// Ends the period if it is over.
    ///
    /// Returns the number of lines left out, if any were, and the time since it began. The caller
    /// logs a line about them, so that no other line is allowed in the next period.
    pub fn end_period(&mut self, now: M) -> Option<(u64, Duration)> {
        let passed = now.passed_since(self.began?);
        if passed < self.period {
            return None;
        }
        if self.suppressed == 0 {
            self.began = None;
            return None;
        }
        (self.began, self.lines) = (Some(now), self.max_lines);
        Some((std::mem::take(&mut self.suppressed), passed))
    }

    /// Time until [`end_period`](LogLimiter::end_period) has lines to report.
    pub fn until_report(&self, now: M) -> Option<Duration> {
        let began = self.began.filter(|_| self.suppressed > 0)?;
        Some(self.period.saturating_sub(now.passed_since(began)))
    }
}

impl LogLimiter<Timestamp> {
    /// Moves the period, because the clock was set.
    pub fn shift(&mut self, step: ClockStep) {
        self.began = self.began.map(|began| began + step);
    }
}

/// Limiters for lines of several kinds, of which there are few.
pub struct LogLimiters<K> {
    max_lines: u32,
    period: Duration,
    of_kinds: HashMap<K, LogLimiter>,
}

impl<K: Eq + Hash> LogLimiters<K> {
    /// Allows `max_lines` lines of each kind in each period.
    pub fn new(max_lines: u32, period: Duration) -> LogLimiters<K> {
        LogLimiters { max_lines, period, of_kinds: HashMap::new() }
    }

    /// Returns the suffix of a line to log now, `None` to leave it out.
    pub fn permit(&mut self, kind: K) -> Option<Suppressed> {
        let new = || LogLimiter::new(self.max_lines, self.period);
        self.of_kinds.entry(kind).or_insert_with(new).permit(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Timestamp, second: u64) -> Timestamp {
        start + Duration::from_secs(second)
    }

    #[test]
    fn log_lines_repeated_are_limited_and_counted() {
        let start = Timestamp::from_seconds(1_795_259_643);
        let mut limiter = LogLimiter::new(1, DEFAULT_PERIOD);
        let logged = (0..25).filter_map(|second| limiter.permit(at(start, second)));
        let logged: Vec<String> = logged.map(|more| more.to_string()).collect();
        assert_eq!(
            logged,
            ["", "; 9 similar messages suppressed", "; 9 similar messages suppressed"]
        );
    }

    #[test]
    fn lines_left_out_are_reported_once_after_the_period() {
        let start = Timestamp::from_seconds(1_795_259_643);
        let mut limiter = LogLimiter::new(2, Duration::from_secs(60));
        let logged = (0..5).filter(|second| limiter.permit(at(start, *second)).is_some());
        assert_eq!(logged.count(), 2);
        limiter.suppress(Suppressed(4), at(start, 5));
        assert_eq!(limiter.until_report(at(start, 50)), Some(Duration::from_secs(10)));
        assert_eq!(limiter.end_period(at(start, 59)), None);
        assert_eq!(limiter.end_period(at(start, 60)), Some((7, Duration::from_secs(60))));
        assert_eq!(limiter.permit(at(start, 61)), None, "the report was the line of this period");
        assert_eq!(limiter.end_period(at(start, 120)), Some((1, Duration::from_secs(60))));
        assert_eq!(
            (limiter.end_period(at(start, 180)), limiter.suppressed()),
            (None, Suppressed(0))
        );
        assert!(limiter.permit(at(start, 181)).is_some(), "a new period");
    }
}
