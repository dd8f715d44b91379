//! The priority of mail in getting agents. It is unrelated to process priority.

use crate::time::Timestamp;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The head start in time that one step of priority gives.
///
/// Mail is overtaken by mail of the next priority only if that came at most this time later.
pub const PRIORITY_STEP: Duration = Duration::from_secs(60);
/// The default priority of mail.
pub const DEFAULT_PRIORITY: u8 = 5;
/// The lowest priority, which is served last.
pub const LOWEST_PRIORITY: u8 = 9;

/// The mail priority of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum MailPriority {
    /// 0 goes first, 9 last.
    Level(u8),
    /// Held until an operator releases it (`z`).
    Held,
}

impl MailPriority {
    /// The numeric priority. Held mail has the lowest.
    pub fn level(self) -> u8 {
        match self {
            MailPriority::Level(level) => level.min(LOWEST_PRIORITY),
            MailPriority::Held => LOWEST_PRIORITY,
        }
    }
}

/// The sort key of mail: its arrival time, shifted by its priority.
///
/// Mail of the default priority that arrives at the returned time has the same turn. So mail is
/// overtaken only by mail that arrives later by at most [`PRIORITY_STEP`] for each priority between
/// them.
pub fn sort_key(came: Timestamp, level: u8) -> Timestamp {
    sort_key_with_step(came, level, PRIORITY_STEP)
}

/// The same with another length of a step.
pub fn sort_key_with_step(came: Timestamp, level: u8, step: Duration) -> Timestamp {
    let level = level.min(LOWEST_PRIORITY);
    match level < DEFAULT_PRIORITY {
        true => came - step * u32::from(DEFAULT_PRIORITY - level),
        false => came + step * u32::from(level - DEFAULT_PRIORITY),
    }
}

impl Default for MailPriority {
    fn default() -> MailPriority {
        MailPriority::Level(DEFAULT_PRIORITY)
    }
}

impl fmt::Display for MailPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MailPriority::Level(level) => write!(f, "{level}"),
            MailPriority::Held => f.write_str("z"),
        }
    }
}
