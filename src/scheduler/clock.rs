//! The clock was set. How long something has taken, and how long something is to wait, is not changed by
//! that: agents are not silent for hours because of it, and nothing waits for hours. Only expiry goes by
//! the clock, since the age of a message does.

use super::Scheduler;
use super::agent::{Agent, State};
use super::thread::ThreadId;
use super::timers::Timer;
use crate::time::{ClockStep, Timestamp};

impl Scheduler {
    pub(super) fn clock_set(&mut self, now: Timestamp, step: ClockStep) {
        let threads = self.shift_threads(now, step);
        self.timers.shift(step, threads);
        self.agents.values_mut().for_each(|agent| agent.shift(step));
        self.shift_rests(step);
        self.shift_batches(step);
        for window in self.windows.iter_mut() {
            window.pace.shift(step);
            window.resume = window.resume.map(|time| time + step);
        }
        self.shift_starved(step);
        // The end of a limit is a time of the clock.
        self.timers.add(now, Timer::Limits);
        let ends = self.standing.limits.iter().filter_map(|set| set.until);
        ends.collect::<Vec<_>>().into_iter().for_each(|end| self.timers.add(end, Timer::Limits));
        self.serve_starved(now);
    }

    /// Moves the wake-ups of all threads, and has them looked at for expiry. Returns their timers.
    fn shift_threads(&mut self, now: Timestamp, step: ClockStep) -> Vec<(Timestamp, ThreadId)> {
        let mut timers = Vec::with_capacity(self.threads.len());
        for place in 0..self.threads.pool().slots() {
            let Some(id) = self.threads.pool().at(place) else {
                continue;
            };
            let thread = &mut self.threads[id];
            thread.waiting.shift(step);
            thread.retry.shift(step);
            thread.expiry_check = thread.expiry_check.map(|_| now);
            thread.timer = thread.next_look();
            timers.extend(thread.timer.map(|time| (time, id)));
        }
        timers
    }
}

impl Agent {
    fn shift(&mut self, step: ClockStep) {
        for time in
            [&mut self.born, &mut self.turn_began, &mut self.hungry_at, &mut self.progress_at]
        {
            *time = *time + step;
        }
        self.fed_at = self.fed_at.map(|time| time + step);
        self.timer = self.timer.map(|time| time + step);
        if let State::Idle(since) | State::Stopping(since) = &mut self.state {
            *since = *since + step;
        }
    }
}
