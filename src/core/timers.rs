//! What is to be looked at when, if nothing happens before.

use super::action::NoteTicket;
use super::agent::AgentId;
use super::message::MessageId;
use super::ring::RingId;
use super::thread::ThreadId;
use super::window::WindowId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zsched_format::time::{ClockStep, Timestamp};

/// Whom a timer wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Timer {
    /// A thread: its wake-up, or the expiry of one of its vertices.
    Thread(ThreadId),
    /// An agent: idle, silent or slow to end for too long.
    Agent(AgentId),
    /// Rings that wait for the next second in which agents may be started.
    ForkRate,
    /// A ring whose agents could not be started: one is tried again.
    Ring(RingId),
    /// A note that could not be written.
    Note(NoteTicket),
    /// What the former scheduler has left is not needed any more.
    Memory,
    /// A message that could not be taken out of the spool.
    Removal(MessageId),
    /// Limits that operators have set for a while.
    Limits,
    /// Orders in force that could not be stored.
    KeepOrders,
    /// Threads that a new configuration is still to be applied to.
    Sweep,
    /// Threads that are still to be compared with the orders in force.
    Review,
    /// Messages that can be unloaded, while others wait for room.
    Rest,
    /// Large messages of which more can be read.
    Batches,
    /// Windows to all of whose members something is being done.
    Members,
    /// Threads that are still to be told that the clock was set.
    Clock,
    /// Vertices that are still to be looked at for expiry.
    Expiry,
    /// Vertices that are still to be put off.
    PutOff,
    /// A window in which the next delivery may start.
    Window(WindowId),
}

/// All timers, soonest first.
#[derive(Default, Serialize, Deserialize)]
pub struct Timers {
    threads: BTreeSet<(Timestamp, ThreadId)>,
    /// Those of threads that do not know yet that the clock was set: by the times of the clock as it was.
    threads_before: BTreeSet<(Timestamp, ThreadId)>,
    /// How the clock was set.
    step: Option<ClockStep>,
    others: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    /// Adds a timer of anything but a thread; see [`change_thread`](Timers::change_thread).
    pub fn add(&mut self, time: Timestamp, timer: Timer) {
        self.others.insert((time, timer));
    }

    pub fn cancel(&mut self, time: Timestamp, timer: Timer) {
        self.others.remove(&(time, timer));
    }

    /// Changes the timer of a thread, which knows of the last step of the clock or has the times from before it.
    pub fn change_thread(
        &mut self,
        thread: ThreadId,
        knows_step: bool,
        [former, wanted]: [Option<Timestamp>; 2],
    ) {
        let timers = if knows_step { &mut self.threads } else { &mut self.threads_before };
        if let Some(former) = former {
            timers.remove(&(former, thread));
        }
        timers.extend(wanted.map(|wanted| (wanted, thread)));
    }

    /// Whether the timer of a thread is set to a time, by the clock that the thread knows.
    pub fn has_thread(&self, thread: ThreadId, knows_step: bool, time: Timestamp) -> bool {
        let timers = if knows_step { &self.threads } else { &self.threads_before };
        timers.contains(&(time, thread))
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.firsts().into_iter().flatten().min()
    }

    /// The soonest timer of each set.
    fn firsts(&self) -> [Option<Timestamp>; 3] {
        let before = self.threads_before.first().zip(self.step);
        [
            self.threads.first().map(|(time, _)| *time),
            before.map(|((time, _), step)| *time + step),
            self.others.first().map(|(time, _)| *time),
        ]
    }

    /// Takes out the soonest timer whose time has come.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        let next = self.next().filter(|next| *next <= now);
        match self.firsts().iter().position(|first| next.is_some() && *first == next)? {
            0 => self.threads.pop_first().map(|(_, thread)| Timer::Thread(thread)),
            1 => self.threads_before.pop_first().map(|(_, thread)| Timer::Thread(thread)),
            _ => self.others.pop_first().map(|(_, timer)| timer),
        }
    }

    /// Moves all timers, because the clock was set. Those of threads keep their times until their thread is told;
    /// all threads must know of the last step.
    pub fn shift(&mut self, step: ClockStep) {
        debug_assert!(self.threads_before.is_empty(), "two steps of the clock at once");
        let others = std::mem::take(&mut self.others).into_iter();
        self.others = others.map(|(time, timer)| (time + step, timer)).collect();
        self.threads_before = std::mem::take(&mut self.threads);
        self.step = Some(step);
    }

    pub fn contains(&self, time: Timestamp, timer: Timer) -> bool {
        self.others.contains(&(time, timer))
    }
}
