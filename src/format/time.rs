//! Points in time and durations.
//!
//! A [`Timestamp`] is wall-clock time, because control files, spool ids and expiry are compared
//! with modification times on disk. Only [`Timestamp::now`] reads a clock, and only the shell may
//! call that. The core receives the time with each event.

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::Metadata;
use std::ops::{Add, AddAssign, Sub};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A point in wall-clock time: nanoseconds since 1970-01-01 00:00:00 UTC.
///
/// Covers the years 1678 to 2262; arithmetic saturates at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01 00:00:00 UTC.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// Present time, from the system's clock.
    pub fn now() -> Timestamp {
        Timestamp::from(SystemTime::now())
    }

    /// The point `seconds` after the epoch.
    pub const fn from_seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// The point `seconds` and `nanoseconds` after the epoch, as `stat(2)` gives them.
    pub const fn from_parts(seconds: i64, nanoseconds: i64) -> Timestamp {
        Timestamp(seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(nanoseconds))
    }

    /// The last change of a file's contents.
    pub fn modified(file: &Metadata) -> Timestamp {
        Timestamp::from_parts(file.mtime(), file.mtime_nsec())
    }

    /// The last change of a file's inode.
    pub fn changed(file: &Metadata) -> Timestamp {
        Timestamp::from_parts(file.ctime(), file.ctime_nsec())
    }

    /// Whole seconds since the epoch, rounded towards the past.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(NANOS_PER_SECOND)
    }

    /// Nanoseconds within the second, 0 to 999,999,999.
    pub const fn subsec_nanoseconds(self) -> u32 {
        self.0.rem_euclid(NANOS_PER_SECOND) as u32
    }

    /// Nanoseconds since the epoch.
    pub const fn nanoseconds(self) -> i64 {
        self.0
    }

    /// The point `nanoseconds` after the epoch.
    pub const fn from_nanoseconds(nanoseconds: i64) -> Timestamp {
        Timestamp(nanoseconds)
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0).max(0) as u64)
    }

    /// Whole seconds from `other` to `self`, negative where `other` is later.
    ///
    /// As in ZMailer, this is the difference of the whole seconds of both points.
    pub const fn seconds_since(self, other: Timestamp) -> i64 {
        self.seconds() - other.seconds()
    }
}

/// Formats a time in UTC, with milliseconds: `2026-11-21T10:04:09.852Z`.
pub fn format_time(time: Timestamp) -> String {
    let nanoseconds = time.subsec_nanoseconds() as i32;
    let instant = jiff::Timestamp::new(time.seconds(), nanoseconds).unwrap_or_default();
    instant.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// Length and direction of a step of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum ClockStep {
    /// The clock was set to a later time.
    Forward(Duration),
    /// The clock was set to an earlier time.
    Back(Duration),
}

impl ClockStep {
    /// Step from the expected time to the time shown.
    pub fn between(expected: Timestamp, shown: Timestamp) -> ClockStep {
        match expected <= shown {
            true => ClockStep::Forward(shown.since(expected)),
            false => ClockStep::Back(expected.since(shown)),
        }
    }

    /// Length of the step.
    pub fn length(self) -> Duration {
        match self {
            ClockStep::Forward(by) | ClockStep::Back(by) => by,
        }
    }
}

impl Add<ClockStep> for Timestamp {
    type Output = Timestamp;

    fn add(self, step: ClockStep) -> Timestamp {
        match step {
            ClockStep::Forward(by) => self + by,
            ClockStep::Back(by) => self - by,
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        let nanoseconds = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Timestamp(nanoseconds(after)),
            Err(before) => Timestamp(-nanoseconds(before.duration())),
        }
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl AddAssign<Duration> for Timestamp {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.seconds(), self.subsec_nanoseconds())
    }
}

/// Duration in the short form of MAILQ: `0s`, `1h1m1s`, `1d2h`, `-5m`.
///
/// The largest parts come first. Minutes and seconds are left out once both days and hours were
/// printed (ZMailer `saytime()`).
pub struct ShortDuration(pub i64);

impl fmt::Display for ShortDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        f.write_str(sign)?;
        let parts = parts(self.0).into_iter().zip(["d", "h", "m", "s"]);
        parts.filter(|(amount, _)| *amount > 0).try_for_each(|(n, unit)| write!(f, "{n}{unit}"))
    }
}

/// Duration in the long form: `3 days`, `1 day 2 hours`, `0 sec`.
pub struct LongDuration(pub i64);

impl fmt::Display for LongDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0 sec");
        }
        let mut before = if self.0 < 0 { "-" } else { "" };
        let parts = parts(self.0).into_iter().zip(["day", "hour", "min", "sec"]);
        for (amount, unit) in parts.filter(|(amount, _)| *amount > 0) {
            let plural = if amount == 1 { "" } else { "s" };
            write!(f, "{before}{amount} {unit}{plural}")?;
            before = " ";
        }
        Ok(())
    }
}

/// Days, hours, minutes and seconds. The last two are 0 if there are both days and hours.
fn parts(seconds: i64) -> [u64; 4] {
    let total = seconds.unsigned_abs();
    let (days, hours) = (total / 86_400, total / 3_600 % 24);
    let rest = if days > 0 && hours > 0 { 0 } else { total };
    [days, hours, rest / 60 % 60, rest % 60]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_durations_match_zmailer() {
        for (seconds, text) in [
            (0, "0s"),
            (60, "1m"),
            (3661, "1h1m1s"),
            (7384, "2h3m4s"),
            (-300, "-5m"),
            (40288, "11h11m28s"),
            (86400, "1d"),
            (88282, "1d31m22s"),
            (93784, "1d2h"),
            (151259, "1d18h"),
        ] {
            assert_eq!(ShortDuration(seconds).to_string(), text, "{seconds}");
        }
    }

    #[test]
    fn long_durations_match_zmailer() {
        for (seconds, text) in [
            (0, "0 sec"),
            (26, "26 secs"),
            (301, "5 mins 1 sec"),
            (259200, "3 days"),
            (93784, "1 day 2 hours"),
            (86464, "1 day 1 min 4 secs"),
        ] {
            assert_eq!(LongDuration(seconds).to_string(), text, "{seconds}");
        }
    }

    #[test]
    fn seconds_before_epoch_round_down() {
        let before_epoch = Timestamp::EPOCH - Duration::from_millis(1);
        assert_eq!(before_epoch.seconds(), -1);
        assert_eq!(before_epoch.subsec_nanoseconds(), 999_000_000);
    }
}
