//! Virtual time: a monotonic clock, and a wall clock that can be set.

use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};

/// Both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: Timestamp,
    /// Total time by which the wall clock was set forward, and back.
    forward: Duration,
    back: Duration,
}

impl Clock {
    /// Creates both clocks at `start`.
    pub(crate) fn new(start: Timestamp) -> Clock {
        Clock { now: start, forward: Duration::ZERO, back: Duration::ZERO }
    }

    /// The monotonic time, which hosts, agents and disks use.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The wall clock, which the scheduler and file times use.
    pub(crate) fn wall(&self) -> Timestamp {
        self.now + self.forward - self.back
    }

    /// The monotonic time at which the wall clock will show `wall`, but not before now.
    pub(crate) fn monotonic_time_of(&self, wall: Timestamp) -> Timestamp {
        (wall + self.back - self.forward).max(self.now)
    }

    /// Advances the time.
    pub(crate) fn advance_to(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// Sets the wall clock.
    pub(crate) fn set(&mut self, step: ClockStep) {
        match step {
            ClockStep::Forward(by) => self.forward += by,
            ClockStep::Back(by) => self.back += by,
        }
    }
}
