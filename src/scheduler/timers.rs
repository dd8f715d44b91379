//! What is to be looked at when, if nothing happens before.

use super::action::NoteTicket;
use super::agent::AgentId;
use super::message::MessageId;
use super::ring::RingId;
use super::thread::ThreadId;
use super::window::WindowId;
use crate::time::{ClockStep, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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
    /// Vertices that are still to be put off.
    PutOff,
    /// A window in which the next delivery may start.
    Window(WindowId),
}

/// All timers, soonest first.
#[derive(Default, Serialize, Deserialize)]
pub struct Timers {
    set: BTreeSet<(Timestamp, Timer)>,
}

impl Timers {
    pub fn add(&mut self, time: Timestamp, timer: Timer) {
        self.set.insert((time, timer));
    }

    pub fn cancel(&mut self, time: Timestamp, timer: Timer) {
        self.set.remove(&(time, timer));
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.set.first().map(|(time, _)| *time)
    }

    /// Takes out the soonest timer whose time has come.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.set.pop_first().map(|(_, timer)| timer)
    }

    /// Moves all timers, because the clock was set; those of threads are given anew. The set is built at once,
    /// which takes a tenth of the time that single changes would.
    pub fn shift(&mut self, step: ClockStep, threads: Vec<(Timestamp, ThreadId)>) {
        let others = std::mem::take(&mut self.set).into_iter();
        let others = others.filter(|(_, timer)| !matches!(timer, Timer::Thread(_)));
        let others = others.map(|(time, timer)| (time + step, timer));
        let threads = threads.into_iter().map(|(time, thread)| (time, Timer::Thread(thread)));
        self.set = others.chain(threads).collect();
    }

    pub fn contains(&self, time: Timestamp, timer: Timer) -> bool {
        self.set.contains(&(time, timer))
    }
}
