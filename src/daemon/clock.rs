//! The time, as the core is told it.
//!
//! The system's clock may be wrong for a moment: by 400 days, which would expire the queue. So it is compared with
//! the time since the machine was started (`CLOCK_BOOTTIME`), which nobody can set. Small differences are followed at
//! once. A large one is believed only after it has lasted; until then time goes on as if the clock had not been set.
//! The core only hears of steps that are believed.
//!
//! What the clock showed when the machine was started, as far as the former scheduler believed it, is in the lock
//! file of the spool. So a new scheduler doubts a large step, too. Nothing is known about the time before the machine
//! was started: then the clock is believed at once.

use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_sys as sys;

/// A clock that goes wrong by less between two questions is only being adjusted.
const MIN_STEP: Duration = Duration::from_secs(2);
/// Minimum length of a step that is doubted.
const MIN_DOUBTED: Duration = Duration::from_secs(300);
/// How long a step is doubted.
const TIME_OF_DOUBT: Duration = Duration::from_secs(600);

/// Tells the time.
pub struct Clock {
    /// What the clock showed when the machine was started, as far as it is believed.
    started: Timestamp,
    doubt: Option<Doubt>,
}

/// A step that is not believed yet.
#[derive(Clone, Copy)]
struct Doubt {
    /// What the clock showed when the machine was started, if it is right.
    started: Timestamp,
    /// When it was noticed, as time since the machine was started.
    since: Duration,
}

/// What is to be said about the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remark {
    /// A step was noticed, and is not believed.
    Doubted(ClockStep),
    /// The clock is again as it was before.
    Unfounded,
    /// A step is believed.
    Believed(ClockStep),
}

impl Clock {
    /// Begins to watch the clock. `former` is what it showed when the machine was started, as a former scheduler has
    /// believed it.
    pub fn new(former: Option<Timestamp>) -> Clock {
        let (shown, running) = (Timestamp::now(), sys::time_since_boot());
        Clock { started: former.unwrap_or(shown - running), doubt: None }
    }

    /// The time now; and the step that is believed from now on, if there is one. What was noticed is logged.
    pub fn now(&mut self) -> (Timestamp, Option<ClockStep>) {
        let (now, remark) = self.tell(Timestamp::now(), sys::time_since_boot());
        let minutes = TIME_OF_DOUBT.as_secs() / 60;
        match remark {
            None => (now, None),
            Some(Remark::Doubted(step)) => {
                log::warn!(
                    "the clock was set: {step:?}; believed only if that lasts for {minutes} minutes"
                );
                (now, None)
            }
            Some(Remark::Unfounded) => {
                log::warn!("the clock is right again; the step was not believed");
                (now, None)
            }
            Some(Remark::Believed(step)) => {
                log::warn!("the clock was set: {step:?}");
                (now, Some(step))
            }
        }
    }

    /// The time now, as it was last believed to be. Nothing is noticed.
    pub fn estimate(&self) -> Timestamp {
        self.started + sys::time_since_boot()
    }

    /// What the clock showed when the machine was started, as far as it is believed.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    fn tell(&mut self, shown: Timestamp, running: Duration) -> (Timestamp, Option<Remark>) {
        let started = shown - running;
        let step = ClockStep::between(self.started, started);
        if step.length() < MIN_DOUBTED {
            self.started = started;
            let was_doubted = self.doubt.take().is_some();
            let remark = match step.length() >= MIN_STEP {
                true => Some(Remark::Believed(step)),
                false => was_doubted.then_some(Remark::Unfounded),
            };
            return (shown, remark);
        }
        let is_another =
            |doubt: Doubt| ClockStep::between(doubt.started, started).length() >= MIN_DOUBTED;
        match self.doubt {
            Some(doubt) if !is_another(doubt) => {
                if running.saturating_sub(doubt.since) < TIME_OF_DOUBT {
                    return (self.started + running, None);
                }
                *self = Clock { started, doubt: None };
                (shown, Some(Remark::Believed(step)))
            }
            _ => {
                self.doubt = Some(Doubt { started, since: running });
                (self.started + running, Some(Remark::Doubted(step)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);
    const BOOT: Timestamp = Timestamp::from_seconds(1_795_255_200);

    fn clock() -> Clock {
        Clock { started: BOOT, doubt: None }
    }

    #[test]
    fn a_small_step_is_followed_at_once() {
        let mut clock = clock();
        assert_eq!(clock.tell(BOOT + 100 * SECOND, 100 * SECOND), (BOOT + 100 * SECOND, None));
        assert_eq!(clock.tell(BOOT + 102 * SECOND, 101 * SECOND), (BOOT + 102 * SECOND, None));
        let step = Remark::Believed(ClockStep::Forward(60 * SECOND));
        let shown = BOOT + 163 * SECOND;
        assert_eq!(clock.tell(shown, 102 * SECOND), (shown, Some(step)));
        let step = Remark::Believed(ClockStep::Back(61 * SECOND));
        let shown = BOOT + 103 * SECOND;
        assert_eq!(clock.tell(shown, 103 * SECOND), (shown, Some(step)));
        assert_eq!(clock.started(), BOOT);
    }

    #[test]
    fn a_large_step_that_does_not_last_is_never_told() {
        let mut clock = clock();
        for (step, told) in
            [(ClockStep::Forward(400 * DAY), "forward"), (ClockStep::Back(400 * DAY), "back")]
        {
            let doubted = Remark::Doubted(step);
            assert_eq!(clock.tell(BOOT + 10 * SECOND, 10 * SECOND).1, None, "{told}");
            let wrong = |second: u32| (BOOT + second * SECOND + step, second * SECOND);
            let (shown, running) = wrong(20);
            assert_eq!(clock.tell(shown, running), (BOOT + 20 * SECOND, Some(doubted)));
            let (shown, running) = wrong(600);
            assert_eq!(clock.tell(shown, running), (BOOT + 600 * SECOND, None));
            let right = (BOOT + 605 * SECOND, Some(Remark::Unfounded));
            assert_eq!(clock.tell(BOOT + 605 * SECOND, 605 * SECOND), right);
        }
    }

    #[test]
    fn a_large_step_that_lasts_is_believed() {
        let mut clock = clock();
        let step = ClockStep::Forward(400 * DAY);
        let wrong = |second: u32| BOOT + second * SECOND + 400 * DAY;
        assert_eq!(clock.tell(wrong(20), 20 * SECOND).1, Some(Remark::Doubted(step)));
        assert_eq!(clock.tell(wrong(619), 619 * SECOND), (BOOT + 619 * SECOND, None));
        let believed = (wrong(620), Some(Remark::Believed(step)));
        assert_eq!(clock.tell(wrong(620), 620 * SECOND), believed);
        assert_eq!(clock.tell(wrong(621), 621 * SECOND), (wrong(621), None));
        let back = Remark::Doubted(ClockStep::Back(400 * DAY));
        assert_eq!(clock.tell(BOOT + 622 * SECOND, 622 * SECOND), (wrong(622), Some(back)));
    }

    #[test]
    fn another_large_step_is_doubted_anew() {
        let mut clock = clock();
        let forward = |days: u32, second: u32| BOOT + days * DAY + second * SECOND;
        assert!(clock.tell(forward(400, 20), 20 * SECOND).1.is_some());
        let doubted = Some(Remark::Doubted(ClockStep::Forward(500 * DAY)));
        assert_eq!(clock.tell(forward(500, 600), 600 * SECOND), (forward(0, 600), doubted));
        assert_eq!(clock.tell(forward(500, 1100), 1100 * SECOND), (forward(0, 1100), None));
        let believed = Some(Remark::Believed(ClockStep::Forward(500 * DAY)));
        assert_eq!(clock.tell(forward(500, 1200), 1200 * SECOND), (forward(500, 1200), believed));
    }

    #[test]
    fn a_start_with_a_clock_far_off_doubts_it() {
        let mut clock = Clock::new(Some(Timestamp::now() - sys::time_since_boot() - 400 * DAY));
        let now = Timestamp::now();
        assert!(clock.now().0 < now - 399 * DAY && clock.estimate() < now - 399 * DAY);
        let mut clock = Clock::new(None);
        assert!(clock.now().0 >= now);
    }
}
