//! Waits for conditions, with a deadline.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Default factor for the timeouts of tested schedulers.
///
/// The environment variable `ZSCHED_TIMEOUTS_SCALE` overrides it.
const TIMEOUTS_SCALE: f64 = 0.1;

/// Returns the factor for the timeouts of tested schedulers: the value of `--timeouts-scale`.
pub fn timeouts_scale() -> f64 {
    static SCALE: OnceLock<f64> = OnceLock::new();
    *SCALE.get_or_init(|| match std::env::var("ZSCHED_TIMEOUTS_SCALE") {
        Ok(text) => text.parse().expect("ZSCHED_TIMEOUTS_SCALE is a number"),
        Err(_) => TIMEOUTS_SCALE,
    })
}

/// Returns the timeout of a tested scheduler for one of `seconds` in normal operation.
pub fn timeout(seconds: u64) -> Duration {
    Duration::from_secs(seconds).mul_f64(timeouts_scale())
}

/// Time after which a test gives up. A busy disk may stall for tens of seconds.
pub const DEADLINE: Duration = Duration::from_secs(120);
/// Time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(4);

/// Waits until `condition` holds.
#[track_caller]
pub fn until(what: &str, condition: impl FnMut() -> bool) {
    until_within(DEADLINE, what, condition);
}

/// Waits until `condition` holds, for at most `limit`. Returns how long that took.
#[track_caller]
pub fn until_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    assert!(holds_within(limit, &mut condition), "waited {limit:?} until {what}");
    started.elapsed()
}

/// Waits until `condition` holds. Returns true if it did before the deadline.
///
/// It is for callers with a better message than that of [`until`].
pub fn holds_before_deadline(condition: impl FnMut() -> bool) -> bool {
    holds_within(DEADLINE, condition)
}

fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Waits until `find` returns a value, and returns that.
#[track_caller]
pub fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = find();
        found.is_some()
    });
    found.expect("until has waited for it")
}

/// Fails unless `condition` holds for the whole `time`.
///
/// It is for things that must not happen; an event that proves the same is better.
#[track_caller]
pub fn hold_for(time: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while started.elapsed() < time {
        assert!(condition(), "after {:?} it is no longer so that {what}", started.elapsed());
        std::thread::sleep(POLL_INTERVAL);
    }
}
