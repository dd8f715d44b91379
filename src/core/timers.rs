//! Timers of the core.

use crate::action::NoteTicket;
use crate::dispatch::AgentId;
use crate::dispatch::window::WindowId;
use crate::queue::{MessageId, Queue, RingId, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zsched_bulk::JobId;
use zsched_format::time::{ClockStep, Timestamp};

/// What a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Timer {
    /// A thread: its wake-up, or the expiry of one of its vertices.
    Thread(ThreadId),
    /// An agent that is idle, silent or ending for too long.
    Agent(AgentId),
    /// Rings that wait for the fork rate of the next second.
    ForkRate,
    /// A ring whose agents could not be started: one is tried again.
    Ring(RingId),
    /// A note that could not be written.
    Note(NoteTicket),
    /// State that the previous process left, which is no longer needed.
    Unclaimed,
    /// A message that owes a report.
    Report(MessageId),
    /// A message that could not be removed from the spool.
    Removal(MessageId),
    /// Limit overrides with an end.
    Limits,
    /// Overrides that could not be stored.
    StoreOverrides,
    /// A message whose control file could not be read again.
    ReadAgain(MessageId),
    /// A bulk job whose time has come.
    Bulk(JobId),
    /// A window in which the next delivery may start.
    Window(WindowId),
}

/// The earlier of two times, or the one that there is.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// All timers, the soonest first.
#[derive(Default, Serialize, Deserialize)]
pub struct Timers {
    threads: BTreeSet<(Timestamp, ThreadId)>,
    /// Timers of threads without the last clock step.
    ///
    /// Their times are those before the step.
    unshifted_threads: BTreeSet<(Timestamp, ThreadId)>,
    /// The last clock step.
    step: Option<ClockStep>,
    others: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    /// Adds a timer, except for a thread; see [`change_thread`](Timers::change_thread).
    pub fn add(&mut self, time: Timestamp, timer: Timer) {
        self.others.insert((time, timer));
    }

    pub fn cancel(&mut self, time: Timestamp, timer: Timer) {
        self.others.remove(&(time, timer));
    }

    /// Changes the timer of a thread.
    ///
    /// `is_shifted` is true if the times are after the last clock step, and false if they are
    /// before it.
    pub fn change_thread(
        &mut self,
        thread: ThreadId,
        is_shifted: bool,
        [former, wanted]: [Option<Timestamp>; 2],
    ) {
        let timers = if is_shifted { &mut self.threads } else { &mut self.unshifted_threads };
        if let Some(former) = former {
            timers.remove(&(former, thread));
        }
        timers.extend(wanted.map(|wanted| (wanted, thread)));
    }

    /// Panics if a thread has no timer, or another one than it knows of.
    pub fn check(&self, queue: &Queue) {
        let has_step = self.unshifted_threads.is_empty() || self.step.is_some();
        assert!(has_step, "timers before a clock step that never was");
        let mut timers = 0;
        for (id, thread) in queue.threads().iter() {
            if let Some(timer) = thread.timer {
                let is_set = self.has_thread(id, queue.is_shifted(id), timer);
                assert!(is_set, "{}: no timer", thread.destination);
                timers += 1;
            }
        }
        let all = self.threads.len() + self.unshifted_threads.len();
        assert_eq!(all, timers, "timers of threads");
    }

    /// Returns true if the timer of a thread is set to a time.
    ///
    /// The time is in the thread's own clock.
    fn has_thread(&self, thread: ThreadId, is_shifted: bool, time: Timestamp) -> bool {
        let timers = if is_shifted { &self.threads } else { &self.unshifted_threads };
        timers.contains(&(time, thread))
    }

    pub fn next(&self) -> Option<Timestamp> {
        let [threads, unshifted, others] = self.firsts();
        earlier(earlier(threads, unshifted), others)
    }

    /// The soonest timer of each set.
    fn firsts(&self) -> [Option<Timestamp>; 3] {
        let before = self.unshifted_threads.first().zip(self.step);
        [
            self.threads.first().map(|(time, _)| *time),
            before.map(|((time, _), step)| *time + step),
            self.others.first().map(|(time, _)| *time),
        ]
    }

    /// Removes and returns the soonest timer that has expired.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        let next = self.next().filter(|next| *next <= now);
        match self.firsts().iter().position(|first| next.is_some() && *first == next)? {
            0 => self.threads.pop_first().map(|(_, thread)| Timer::Thread(thread)),
            1 => self.unshifted_threads.pop_first().map(|(_, thread)| Timer::Thread(thread)),
            _ => self.others.pop_first().map(|(_, timer)| timer),
        }
    }

    /// Moves all timers, because the clock was set.
    ///
    /// Timers of threads keep their times until the step is applied to their thread. The former
    /// step must be applied to all threads.
    pub fn shift(&mut self, step: ClockStep) {
        debug_assert!(self.unshifted_threads.is_empty(), "two steps of the clock at once");
        let others = std::mem::take(&mut self.others).into_iter();
        self.others = others.map(|(time, timer)| (time + step, timer)).collect();
        self.unshifted_threads = std::mem::take(&mut self.threads);
        self.step = Some(step);
    }

    /// Returns true if a timer is set to any time.
    pub fn has(&self, timer: Timer) -> bool {
        self.others.iter().any(|(_, other)| *other == timer)
    }

    pub fn contains(&self, time: Timestamp, timer: Timer) -> bool {
        self.others.contains(&(time, timer))
    }
}
