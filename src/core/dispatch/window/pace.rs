//! Spacing of deliveries in a window (`rate`, `delivery-delay`).

use crate::context::Context;
use crate::dispatch::window::WindowId;
use crate::dispatch::{AgentId, Dispatch};
use crate::queue::{Queue, ThreadId};
use crate::timers::Timer;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_config::Flow;
use zsched_format::time::{ClockStep, Timestamp};

/// Time at which the next delivery may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Planned time of the next delivery.
    ///
    /// `None` before the first one with a rate.
    slot: Option<Timestamp>,
    pause: Pause,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Pause {
    /// No pause: the next delivery may start.
    #[default]
    None,
    /// Pause until a delivery has ended.
    Delivery,
    /// Pause until a time, for which a timer is set.
    Until(Timestamp),
}

impl Pace {
    /// Returns true if no delivery may start now.
    pub fn is_paused(self) -> bool {
        self.pause != Pause::None
    }

    /// Time of the next delivery for which a timer is set.
    pub fn timer(self) -> Option<Timestamp> {
        match self.pause {
            Pause::Until(time) => Some(time),
            Pause::None | Pause::Delivery => None,
        }
    }

    /// Plans the delivery after one that starts now, and returns its time.
    ///
    /// The times have even distances, even if a delivery starts late.
    fn next_slot(&mut self, now: Timestamp, spacing: Duration) -> Timestamp {
        let on_time = self.slot.filter(|slot| *slot <= now && now.since(*slot) < spacing);
        let next = on_time.unwrap_or(now) + spacing;
        self.slot = Some(next);
        next
    }

    /// Ends a pause until the end of a delivery.
    ///
    /// The delivery no longer belongs to this window.
    pub fn forget_delivery(&mut self) {
        if self.pause == Pause::Delivery {
            self.pause = Pause::None;
        }
    }

    pub fn shift(&mut self, step: ClockStep) {
        self.slot = self.slot.map(|slot| slot + step);
        if let Pause::Until(time) = &mut self.pause {
            *time = *time + step;
        }
    }
}

impl Dispatch {
    /// Starts a delivery of a thread, if its window allows it.
    ///
    /// Returns true if it does.
    pub(super) fn try_start_delivery(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        thread: ThreadId,
    ) -> bool {
        let Some(window) = queue.thread(thread).window else {
            return true;
        };
        if self.windows[window].pace.is_paused() {
            return false;
        }
        let Flow { rate, delay, .. } = queue.clause(thread).flow;
        if delay.is_some() {
            self.set_pause(cx, window, Pause::Delivery);
        } else if let Some(rate) = rate {
            let next = self.windows[window].pace.next_slot(cx.now, rate.spacing());
            self.set_pause(cx, window, Pause::Until(next));
        }
        true
    }

    /// Returns true if an agent may get another job of a thread.
    pub(crate) fn may_start_delivery(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        agent: AgentId,
        thread: ThreadId,
    ) -> bool {
        let agent = &mut self.agents[agent];
        std::mem::take(&mut agent.has_delivery_permit) || self.try_start_delivery(queue, cx, thread)
    }

    /// Starts the pause after a delivery of a thread.
    ///
    /// The delivery has ended or was not made.
    pub(crate) fn pause_after_delivery(
        &mut self,
        queue: &Queue,
        cx: &mut Context,
        thread: ThreadId,
    ) {
        let delay = queue.clause(thread).flow.delay;
        if let Some(window) = queue.thread(thread).window
            && self.windows[window].pace.pause == Pause::Delivery
        {
            self.set_pause(cx, window, Pause::Until(cx.now + delay.unwrap_or_default()));
        }
    }

    /// Gives back the start of a delivery that was not made.
    pub(super) fn cancel_start(&mut self, cx: &mut Context, window: WindowId) {
        self.set_pause(cx, window, Pause::None);
    }

    fn set_pause(&mut self, cx: &mut Context, window: WindowId, pause: Pause) {
        let former = std::mem::replace(&mut self.windows[window].pace.pause, pause);
        if let Pause::Until(former) = former {
            cx.timers.cancel(former, Timer::Window(window));
        }
        if let Pause::Until(time) = pause {
            cx.timers.add(time, Timer::Window(window));
        }
    }

    /// Ends the pause of a window.
    pub(crate) fn window_timer(&mut self, window: WindowId) {
        self.windows[window].pace.pause = Pause::None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_delivery_keeps_even_spacing_of_slots() {
        let spacing = Duration::from_millis(600);
        let start = Timestamp::from_seconds(1_000_000);
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert_eq!(pace.next_slot(start, spacing), at(600));
        assert_eq!(pace.next_slot(at(610), spacing), at(1200));
        assert_eq!(pace.next_slot(at(1799), spacing), at(1800));
        // Unused slots are not made up for.
        assert_eq!(pace.next_slot(at(10_000), spacing), at(10_600));
    }
}
