//! Time of the core.
//!
//! The system's clock may be wrong for a moment: a step of 400 days would expire the queue. So it
//! is compared with the time since boot (`CLOCK_BOOTTIME`), which cannot be set. Small differences
//! are followed at once. A large step is believed only after it has lasted; until then time goes on
//! as if the clock had not been set. The core is notified only of steps that are believed.
//!
//! The lock file of the spool holds the time of boot as the former scheduler believed it. So a new
//! scheduler doubts a large step, too. After a reboot there is no such time, and the clock is
//! believed at once.

use std::time::Duration;
use zsched_format::time::{ClockStep, Timestamp};
use zsched_mailq_server::v2::NoticedStep;
use zsched_sys as sys;

/// Minimum length of a step. A smaller change between two readings is an adjustment.
const MIN_STEP: Duration = Duration::from_secs(2);
/// Minimum length of a step that is doubted.
const MIN_DOUBTED_STEP: Duration = Duration::from_secs(300);
/// Time for which a step must last to be believed.
const CONFIRMATION_TIME: Duration = Duration::from_secs(600);
/// Time for which clients see a warning about a step that is accepted.
const NOTICE_TIME: Duration = Duration::from_secs(3600);

/// Clock that doubts large steps.
pub(crate) struct Clock {
    /// Believed clock time of boot.
    pub started: Timestamp,
    doubt: Option<DoubtedStep>,
    /// The last step, and the time since boot at which it was noticed or believed.
    noticed: Option<(NoticedStep, Duration)>,
}

/// Step that is not believed yet.
#[derive(Clone, Copy)]
struct DoubtedStep {
    /// Clock time of boot if the step is right.
    started: Timestamp,
    /// Time since boot at which the step was noticed.
    since: Duration,
}

/// Change of the clock to be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockChange {
    /// A step was noticed and is not believed.
    Doubted(ClockStep),
    /// The clock is as it was before the doubted step.
    Reverted,
    /// A step is believed.
    Believed(ClockStep),
}

impl Clock {
    /// Creates the clock. `former` is the clock time of boot that a former scheduler believed.
    pub(crate) fn new(former: Option<Timestamp>) -> Clock {
        let (shown, running) = (Timestamp::now(), sys::time_since_boot());
        Clock { started: former.unwrap_or(shown - running), doubt: None, noticed: None }
    }

    /// Returns the time, and a step that is believed from now on. Logs what it notices.
    pub(crate) fn now(&mut self) -> (Timestamp, Option<ClockStep>) {
        let running = sys::time_since_boot();
        let (now, change) = self.tell(Timestamp::now(), running);
        let notice = |step, is_believed| Some((NoticedStep { step, is_believed }, running));
        let minutes = CONFIRMATION_TIME.as_secs() / 60;
        match change {
            None => {}
            Some(ClockChange::Doubted(step)) => {
                self.noticed = notice(step, false);
                log::warn!(
                    "the clock was set: {step:?}; ignored unless it lasts for {minutes} minutes"
                );
            }
            Some(ClockChange::Reverted) => {
                self.noticed = None;
                log::warn!("the clock is back at the former time; the step was ignored");
            }
            Some(ClockChange::Believed(step)) => {
                self.noticed = notice(step, true);
                log::warn!("the clock was set: {step:?}");
                return (now, Some(step));
            }
        }
        (now, None)
    }

    /// A step that is not believed yet, or is believed since less than an hour.
    pub(crate) fn noticed_step(&self) -> Option<NoticedStep> {
        let (step, at) = self.noticed?;
        (!step.is_believed || sys::time_since_boot() < at + NOTICE_TIME).then_some(step)
    }

    /// Returns the time as last believed, without looking for steps.
    pub(crate) fn estimate(&self) -> Timestamp {
        self.started + sys::time_since_boot()
    }

    fn tell(&mut self, shown: Timestamp, running: Duration) -> (Timestamp, Option<ClockChange>) {
        let started = shown - running;
        let step = ClockStep::between(self.started, started);
        if step.length() < MIN_DOUBTED_STEP {
            self.started = started;
            let was_doubted = self.doubt.take().is_some();
            let change = match step.length() >= MIN_STEP {
                true => Some(ClockChange::Believed(step)),
                false => was_doubted.then_some(ClockChange::Reverted),
            };
            return (shown, change);
        }
        let is_another = |doubt: DoubtedStep| {
            ClockStep::between(doubt.started, started).length() >= MIN_DOUBTED_STEP
        };
        match self.doubt {
            Some(doubt) if !is_another(doubt) => {
                if running.saturating_sub(doubt.since) < CONFIRMATION_TIME {
                    return (self.started + running, None);
                }
                (self.started, self.doubt) = (started, None);
                (shown, Some(ClockChange::Believed(step)))
            }
            _ => {
                self.doubt = Some(DoubtedStep { started, since: running });
                (self.started + running, Some(ClockChange::Doubted(step)))
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
        Clock { started: BOOT, doubt: None, noticed: None }
    }

    #[test]
    fn clock_step_small_is_followed_at_once() {
        let mut clock = clock();
        assert_eq!(clock.tell(BOOT + 100 * SECOND, 100 * SECOND), (BOOT + 100 * SECOND, None));
        assert_eq!(clock.tell(BOOT + 102 * SECOND, 101 * SECOND), (BOOT + 102 * SECOND, None));
        let step = ClockChange::Believed(ClockStep::Forward(60 * SECOND));
        let shown = BOOT + 163 * SECOND;
        assert_eq!(clock.tell(shown, 102 * SECOND), (shown, Some(step)));
        let step = ClockChange::Believed(ClockStep::Back(61 * SECOND));
        let shown = BOOT + 103 * SECOND;
        assert_eq!(clock.tell(shown, 103 * SECOND), (shown, Some(step)));
        assert_eq!(clock.started, BOOT);
    }

    #[test]
    fn clock_step_large_and_short_lived_is_not_believed() {
        let mut clock = clock();
        for (step, told) in
            [(ClockStep::Forward(400 * DAY), "forward"), (ClockStep::Back(400 * DAY), "back")]
        {
            let doubted = ClockChange::Doubted(step);
            assert_eq!(clock.tell(BOOT + 10 * SECOND, 10 * SECOND).1, None, "{told}");
            let wrong = |second: u32| (BOOT + second * SECOND + step, second * SECOND);
            let (shown, running) = wrong(20);
            assert_eq!(clock.tell(shown, running), (BOOT + 20 * SECOND, Some(doubted)));
            let (shown, running) = wrong(600);
            assert_eq!(clock.tell(shown, running), (BOOT + 600 * SECOND, None));
            let right = (BOOT + 605 * SECOND, Some(ClockChange::Reverted));
            assert_eq!(clock.tell(BOOT + 605 * SECOND, 605 * SECOND), right);
        }
    }

    #[test]
    fn clock_step_large_and_lasting_is_believed() {
        let mut clock = clock();
        let step = ClockStep::Forward(400 * DAY);
        let wrong = |second: u32| BOOT + second * SECOND + 400 * DAY;
        assert_eq!(clock.tell(wrong(20), 20 * SECOND).1, Some(ClockChange::Doubted(step)));
        assert_eq!(clock.tell(wrong(619), 619 * SECOND), (BOOT + 619 * SECOND, None));
        let believed = (wrong(620), Some(ClockChange::Believed(step)));
        assert_eq!(clock.tell(wrong(620), 620 * SECOND), believed);
        assert_eq!(clock.tell(wrong(621), 621 * SECOND), (wrong(621), None));
        let back = ClockChange::Doubted(ClockStep::Back(400 * DAY));
        assert_eq!(clock.tell(BOOT + 622 * SECOND, 622 * SECOND), (wrong(622), Some(back)));
    }

    #[test]
    fn clock_step_different_from_doubted_one_is_doubted_anew() {
        let mut clock = clock();
        let forward = |days: u32, second: u32| BOOT + days * DAY + second * SECOND;
        assert!(clock.tell(forward(400, 20), 20 * SECOND).1.is_some());
        let doubted = Some(ClockChange::Doubted(ClockStep::Forward(500 * DAY)));
        assert_eq!(clock.tell(forward(500, 600), 600 * SECOND), (forward(0, 600), doubted));
        assert_eq!(clock.tell(forward(500, 1100), 1100 * SECOND), (forward(0, 1100), None));
        let believed = Some(ClockChange::Believed(ClockStep::Forward(500 * DAY)));
        assert_eq!(clock.tell(forward(500, 1200), 1200 * SECOND), (forward(500, 1200), believed));
    }

    #[test]
    fn clock_far_off_at_start_is_doubted() {
        let mut clock = Clock::new(Some(Timestamp::now() - sys::time_since_boot() - 400 * DAY));
        let now = Timestamp::now();
        assert!(clock.now().0 < now - 399 * DAY && clock.estimate() < now - 399 * DAY);
        let mut clock = Clock::new(None);
        assert!(clock.now().0 >= now);
    }
}
