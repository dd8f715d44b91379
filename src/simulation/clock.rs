//! Virtual time. There are two clocks: one that only goes on, and the wall clock, which people set.

use std::time::Duration;
use zsched_format::time::Timestamp;

/// Both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now: Timestamp,
    /// How far the wall clock has been set forward, and back.
    forward: Duration,
    back: Duration,
}

impl Clock {
    /// Both clocks show `start`.
    pub fn new(start: Timestamp) -> Clock {
        Clock { now: start, forward: Duration::ZERO, back: Duration::ZERO }
    }

    /// The time that only goes on: what hosts, agents and disks live by.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What the wall clock shows: what the scheduler and file times go by.
    pub fn wall(&self) -> Timestamp {
        self.now + self.forward - self.back
    }

    /// When it will be `wall` by the wall clock, unless somebody sets it; now, if it is later already.
    pub fn when(&self, wall: Timestamp) -> Timestamp {
        (wall + self.back - self.forward).max(self.now)
    }

    /// Time goes on.
    pub fn go_on_to(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// Somebody sets the wall clock forward.
    pub fn set_forward(&mut self, by: Duration) {
        self.forward += by;
    }

    /// Somebody sets the wall clock back.
    pub fn set_back(&mut self, by: Duration) {
        self.back += by;
    }
}
