//! How fast recipients of a job end: over the last minute, not over its whole life.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;
use zsched_format::time::Timestamp;

/// Minimum time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of samples: those of a minute.
const MAX_SAMPLES: usize = 13;
/// Minimum time for which a rate is counted.
const MIN_TIME: Duration = Duration::from_secs(5);
/// Time after which the samples of an earlier time are too old to say anything.
const MAX_AGE: Duration = Duration::from_secs(75);

/// Samples of the number of recipients that were delivered or have failed.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Progress {
    samples: VecDeque<(Timestamp, u32)>,
}

impl Progress {
    /// Takes a sample, unless the last one is recent.
    pub fn record(&mut self, now: Timestamp, ended: u32) {
        // After a step of the clock, all begins again.
        if self.samples.back().is_some_and(|(last, _)| now < *last) {
            self.samples.clear();
        }
        let last = self.samples.back().map(|(last, _)| *last);
        if last.is_none_or(|last| now.since(last) >= SAMPLE_INTERVAL) {
            self.samples.push_back((now, ended));
            if self.samples.len() > MAX_SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// Recipients in a second; `None` if it is too early to say.
    pub fn rate(&self, now: Timestamp, ended: u32) -> Option<f64> {
        let is_recent = |(time, _): &&(Timestamp, u32)| *time <= now && now.since(*time) <= MAX_AGE;
        let (since, before) = self.samples.iter().find(is_recent)?;
        let time = now.since(*since);
        (time >= MIN_TIME).then(|| f64::from(ended.saturating_sub(*before)) / time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_000_000 + seconds)
    }

    #[test]
    fn rate_is_that_of_the_last_minute() {
        let mut progress = Progress::default();
        assert_eq!(progress.rate(at(0), 0), None);
        // A hundred a second for ten minutes, then ten.
        let ended = |second: i64| match second {
            0..=600 => second as u32 * 100,
            _ => 60_000 + (second as u32 - 600) * 10,
        };
        (0..=700).for_each(|second| progress.record(at(second), ended(second)));
        assert_eq!(progress.rate(at(700), ended(700)), Some(10.0));
        // Nothing ends any more.
        assert!(progress.rate(at(730), ended(700)).is_some_and(|rate| rate < 10.0));
        assert_eq!(progress.rate(at(900), ended(700)), None);
        progress.record(at(-50), 7);
        assert_eq!(progress.rate(at(-40), 107), Some(10.0));
    }
}
