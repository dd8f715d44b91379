//! Steps of the clock.
//!
//! A step changes no durations: agents do not seem silent for hours because of it, and nothing
//! waits for hours. Only expiry and the times that senders have set follow the clock.
//!
//! With a million threads, moving all their times at once would stop delivery. So
//! [`Queue::apply_clock_step`] moves the times of a thread before anything else changes in it.
//! [`crate::sweep`] moves those of the others.

use crate::Scheduler;
use crate::context::Context;
use crate::queue::{Queue, Thread, ThreadId};
use crate::sweep::SweptChange;
use crate::timers::Timer;
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

impl Scheduler {
    pub(super) fn clock_set(&mut self, step: ClockStep) {
        // Rarely needed: it means that the last step was a few turns ago.
        if self.sweep.applies(SweptChange::Clock) {
            let threads: Vec<ThreadId> =
                self.queue.threads.iter().map(|(thread, _)| thread).collect();
            threads
                .into_iter()
                .for_each(|thread| self.queue.apply_clock_step(&mut self.cx, thread));
        }
        self.queue.clock.number = self.queue.clock.number.wrapping_add(1);
        self.queue.clock.step = Some(step);
        self.cx.timers.shift(step);
        self.queue.messages.schedules.check_all();
        self.cx.recent.shift(step);
        self.dispatch.agents.shift(step);
        self.notes.failure_log.shift(step);
        self.admission.shift_paged_threads(step);
        self.admission.shift_partials(step);
        for window in self.dispatch.windows.iter_mut() {
            window.pace.shift(step);
            window.resume = window.resume.map(|time| time + step);
        }
        self.dispatch.shift_waitlists(step);
        for deferral in self.queue.deferrals.values_mut() {
            deferral.until = deferral.until.map(|until| until + step);
        }
        self.start_sweep(SweptChange::Clock);
        // The end of a limit is a time of the clock.
        self.cx.timers.add(self.cx.now, Timer::Limits);
        let ends = self.overrides.limits.iter().filter_map(|set| set.until);
        ends.collect::<Vec<_>>().into_iter().for_each(|end| self.cx.timers.add(end, Timer::Limits));
        self.dispatch.waitlists.has_news = true;
        self.reconsider_jobs();
    }
}

impl Queue {
    /// Applies the last step to a thread, if not done yet.
    ///
    /// Moves its times, and schedules a check for expiry. It must be called before any other time
    /// of the thread is set.
    pub(super) fn apply_clock_step(&mut self, cx: &mut Context, thread: ThreadId) {
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
