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
        self.timers.shift(step);
        self.agents.values_mut().for_each(|agent| agent.shift(step));
        let threads: Vec<ThreadId> = self.threads.iter().map(|(id, _)| id).collect();
        for thread in threads {
            let thread_ref = &mut self.threads[thread];
            let shift = |time: &mut Option<Timestamp>| *time = time.map(|time| time + step);
            shift(&mut thread_ref.timer);
            shift(&mut thread_ref.retry.wakeup);
            shift(&mut thread_ref.retry.planned);
            thread_ref.expiry_check = thread_ref.expiry_check.map(|_| now);
            self.set_thread_timer(thread);
        }
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
