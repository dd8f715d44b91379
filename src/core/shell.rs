//! What the core exchanges with its shell: the daemon, or a test.

use crate::action::Action;
use crate::timers::Timers;
use log::Level;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use zsched_format::time::Timestamp;

/// The time and random numbers that decisions depend on, and what follows from decisions.
#[derive(Serialize, Deserialize)]
pub struct Shell {
    /// When the core must be called again.
    pub timers: Timers,
    #[serde(with = "crate::checkpoint::random")]
    pub random: fastrand::Rng,
    pub counters: Counters,
    /// Time of the present event, or of the last one.
    pub now: Timestamp,
    /// Actions in the order in which they were decided.
    // Empty whenever a checkpoint is written.
    #[serde(skip)]
    pub actions: VecDeque<Action>,
}

/// Totals since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Control files that were loaded.
    pub messages_in: u64,
    /// Messages that left the spool.
    pub messages_out: u64,
    /// Recipients that were loaded.
    pub recipients_in: u64,
    /// Recipients that were finished.
    pub recipients_out: u64,
    /// Agents started.
    pub agents_started: u64,
}

impl Shell {
    pub fn new(seed: u64) -> Shell {
        Shell {
            timers: Timers::default(),
            random: fastrand::Rng::with_seed(seed),
            counters: Counters::default(),
            now: Timestamp::EPOCH,
            actions: VecDeque::new(),
        }
    }

    pub fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub fn log(&mut self, level: Level, text: String) {
        self.act(Action::Log(level, text));
    }
}
