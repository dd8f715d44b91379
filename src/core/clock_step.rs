//! Steps of the clock.
//!
//! A step changes no durations: agents do not seem silent for hours because of it, and nothing
//! waits for hours. Only expiry and the times that senders have set follow the clock.
//!
//! With a million threads, moving all their times at once would stop delivery. So
//! [`Queue::apply_clock_step`] moves the times of a thread before anything else changes in it.
//! [`crate::sweep`] moves those of the others.

use crate::Scheduler;
#[cfg(doc)]
use crate::queue::Queue;
use crate::queue::ThreadId;
use crate::sweep::SweptChange;
use crate::timers::Timer;
use zsched_format::time::ClockStep;

impl Scheduler {
    pub(super) fn clock_set(&mut self, step: ClockStep) {
        // Rarely needed: it means that the last step was a few turns ago.
        if self.sweep.applies(SweptChange::Clock) {
            let threads: Vec<ThreadId> =
                self.queue.threads().iter().map(|(thread, _)| thread).collect();
            threads
                .into_iter()
                .for_each(|thread| self.queue.apply_clock_step(&mut self.cx, thread));
        }
        self.cx.timers.shift(step);
        self.queue.clock_set(step);
        self.cx.recent.shift(step);
        self.dispatch.shift(step);
        self.notes.shift(step);
        self.admission.shift_paging(step);
        self.admission.shift_partials(step);
        self.start_sweep(SweptChange::Clock);
        // The end of a limit is a time of the clock.
        self.cx.timers.add(self.cx.now, Timer::Limits);
        let ends = self.overrides.limits.iter().filter_map(|set| set.until);
        ends.collect::<Vec<_>>().into_iter().for_each(|end| self.cx.timers.add(end, Timer::Limits));
        self.bulk.shift(step);
        self.bulk.reconsider(&self.cx);
    }
}
