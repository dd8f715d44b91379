//! The time, and whether somebody has set the clock.

use crate::time::{ClockStep, Timestamp};
use std::time::{Duration, Instant};

/// A clock that goes wrong by less in one turn of the loop is only being adjusted.
const SHORTEST_STEP: Duration = Duration::from_secs(2);

/// Tells the time, and remembers what it told.
pub struct Clock {
    told: Timestamp,
    at: Instant,
}

impl Clock {
    /// Begins to watch the clock.
    pub fn new() -> Clock {
        Clock { told: Timestamp::now(), at: Instant::now() }
    }

    /// The time now; and how far the clock was set since the last question, if it was.
    pub fn now(&mut self) -> (Timestamp, Option<ClockStep>) {
        self.tell(Timestamp::now(), Instant::now())
    }

    fn tell(&mut self, shown: Timestamp, at: Instant) -> (Timestamp, Option<ClockStep>) {
        let expected = self.told + at.saturating_duration_since(self.at);
        *self = Clock { told: shown, at };
        let step = ClockStep::between(expected, shown);
        (shown, (step.length() >= SHORTEST_STEP).then_some(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_time_does_not_explain_is_a_step() {
        let second = Duration::from_secs(1);
        let (start, began) = (Timestamp::from_seconds(1_795_255_200), Instant::now());
        let mut clock = Clock { told: start, at: began };
        assert_eq!(clock.tell(start + 100 * second, began + 100 * second).1, None);
        assert_eq!(clock.tell(start + 102 * second, began + 101 * second).1, None);
        let (_, step) = clock.tell(start + 3702 * second, began + 101 * second);
        assert_eq!(step, Some(ClockStep::Forward(3600 * second)));
        let (_, step) = clock.tell(start, began + 102 * second);
        assert_eq!(step, Some(ClockStep::Back(3703 * second)));
    }
}
