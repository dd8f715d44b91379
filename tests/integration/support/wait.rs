//! Waiting for something to happen, with a deadline.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Factor for the timeouts of the schedulers that are tested. The environment variable
/// `ZSCHED_TIMEOUTS_SCALE` overrides it.
const TIMEOUTS_SCALE: f64 = 0.1;

/// Factor for the timeouts of the schedulers that are tested: the value of `--timeouts-scale`.
pub fn timeouts_scale() -> f64 {
    static SCALE: OnceLock<f64> = OnceLock::new();
    *SCALE.get_or_init(|| match std::env::var("ZSCHED_TIMEOUTS_SCALE") {
        Ok(text) => text.parse().expect("ZSCHED_TIMEOUTS_SCALE is a number"),
        Err(_) => TIMEOUTS_SCALE,
    })
}

/// The timeout of a tested scheduler that is so many seconds in normal operation.
pub fn timeout(seconds: u64) -> Duration {
    Duration::from_secs(seconds).mul_f64(timeouts_scale())
}

/// How long anything may take before a test gives up. Four may share a slow machine.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// How often a condition is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(4);

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

/// Waits until `condition` holds, and tells whether it came to that. For who has more to say about it.
pub fn holds_in_time(condition: impl FnMut() -> bool) -> bool {
    holds_within(DEADLINE, condition)
}

fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    true
}

/// Waits until there is something to find.
#[track_caller]
pub fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until(what, || {
        found = find();
        found.is_some()
    });
    found.expect("until has waited for it")
}

/// Looks on for a while: `condition` must hold all the time. For what must not happen; wherever an
/// event can tell that it has not, that is better.
#[track_caller]
pub fn hold_for(time: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while started.elapsed() < time {
        assert!(condition(), "after {:?} it is no longer so that {what}", started.elapsed());
        std::thread::sleep(LOOK_AGAIN);
    }
}
