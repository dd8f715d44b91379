//! The clock of the queue: a step moves the times of one thread after the other.

use crate::context::Context;
use crate::queue::{Queue, Thread, ThreadId};
use serde::{Deserialize, Serialize};
use zsched_format::time::{ClockStep, Timestamp};

/// The last step of the clock.
#[derive(Default, Serialize, Deserialize)]
pub struct LastClockStep {
    /// Its number, modulo 256.
    ///
    /// A thread with another number has not applied the step yet.
    pub number: u8,
    step: Option<ClockStep>,
}

impl Queue {
    /// Begins to apply a step of the clock: what depends on no thread is moved at once.
    pub(crate) fn clock_set(&mut self, step: ClockStep) {
        self.clock.number = self.clock.number.wrapping_add(1);
        self.clock.step = Some(step);
        self.messages.schedules.check_all();
        for deferral in self.deferrals.values_mut() {
            deferral.until = deferral.until.map(|until| until + step);
        }
    }

    /// Applies the last step to a thread, if not done yet.
    ///
    /// Moves its times, and schedules a check for expiry. It must be called before any other time
    /// of the thread is set.
    pub(crate) fn apply_clock_step(&mut self, cx: &mut Context, thread: ThreadId) {
        let Some(step) = self.pending_clock_step(&self.threads[thread]) else {
            return;
        };
        let now = cx.now;
        let thread_ref = &mut self.threads[thread];
        thread_ref.last_step = self.clock.number;
        thread_ref.waiting.shift(step);
        thread_ref.retry.shift(step);
        thread_ref.expiry_check = thread_ref.expiry_check.map(|_| now);
        let former = thread_ref.timer.take();
        cx.timers.change_thread(thread, false, [former, None]);
    }

    /// The step of the clock that a thread has not applied yet.
    fn pending_clock_step(&self, thread: &Thread) -> Option<ClockStep> {
        self.clock.step.filter(|_| thread.last_step != self.clock.number)
    }

    /// Returns true if a thread has applied the last step.
    pub(crate) fn is_shifted(&self, thread: ThreadId) -> bool {
        self.threads[thread].last_step == self.clock.number
    }

    /// Converts a time of a thread to the present clock.
    pub(crate) fn to_present_clock(&self, thread: &Thread, time: Timestamp) -> Timestamp {
        self.pending_clock_step(thread).map_or(time, |step| time + step)
    }
}
