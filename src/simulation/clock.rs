//! Virtual time: a monotonic clock, and a wall clock that can be set.

use zsched_format::time::{ClockStep, Timestamp};

/// Both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: Timestamp,
    wall: Timestamp,
}

impl Clock {
    /// Creates both clocks at `start`.
    pub(crate) fn new(start: Timestamp) -> Clock {
        Clock { now: start, wall: start }
    }

    /// The monotonic time, which hosts, agents and disks use.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// The wall clock, which the scheduler and file times use.
    pub(crate) fn wall(&self) -> Timestamp {
        self.wall
    }

    /// The monotonic time at which the wall clock will show `wall`, but not before now.
    pub(crate) fn monotonic_time_of(&self, wall: Timestamp) -> Timestamp {
        self.now + wall.since(self.wall)
    }

    /// Advances the time.
    pub(crate) fn advance_to(&mut self, now: Timestamp) {
        self.wall += now.since(self.now);
        self.now = self.now.max(now);
    }

    /// Sets the wall clock.
    pub(crate) fn set(&mut self, step: ClockStep) {
        self.wall = self.wall + step;
    }
}
