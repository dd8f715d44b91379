//! Settings that are fixed when the scheduler starts.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use zsched_format::selection::Selection;

/// Settings from the command line and limits of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Load and show the queue, but start no agent (`-F`).
    pub frozen: bool,
    /// Start no agent before everything found at start is loaded (`-S`).
    pub wait_for_initial_scan: bool,
    /// Start agents for this destination only (`-p`).
    pub selection: Option<Selection>,
    /// Agents that may be started in one second (`-R`, default 30).
    pub fork_rate: u32,
    /// Agents that the process has descriptors for.
    ///
    /// The default and the upper bound of `maxta`.
    pub max_agents: usize,
    /// Log the ends of messages.
    pub log_finished_messages: bool,
    /// Produce a record of each attempt, for lines about mail in the logs.
    pub record_attempts: bool,
    /// Maximum number of threads processed in one turn.
    ///
    /// It applies where all or many of them must be.
    ///
    /// This is so for a new configuration, for wake-ups, and for a destination that threads share.
    /// A thousand take a few milliseconds.
    pub reload_step: usize,
    /// Wait after a failed write of a note, removal or order.
    pub failed_write: Duration,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Settings {
    /// Maximum number of threads processed in one turn, at least one.
    pub fn step(&self) -> usize {
        self.reload_step.max(1)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            frozen: false,
            wait_for_initial_scan: false,
            selection: None,
            fork_rate: 30,
            max_agents: 1000,
            log_finished_messages: false,
            record_attempts: false,
            reload_step: 1000,
            failed_write: Duration::from_secs(30),
            seed: 0,
        }
    }
}
