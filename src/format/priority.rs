//! The priority of mail in getting agents. It is unrelated to process priority.

use crate::time::Timestamp;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The head start in time that one step of priority gives.
///
/// Mail is overtaken by mail of the next priority only if that came at most this time later.
pub const STEP: Duration = Duration::from_secs(60);
/// The default priority of mail.
pub const USUAL: u8 = 5;
/// The lowest priority, which is served last.
pub const LOWEST: u8 = 9;

/// The mail priority of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub enum MailPriority {
    /// 0 goes first, 9 last.
    Level(u8),
    /// Held until an operator releases it (`z`).
    Kept,
}

impl MailPriority {
    /// The numeric priority. Held mail has the lowest.
    pub fn level(self) -> u8 {
        match self {
            MailPriority::Level(level) => level.min(LOWEST),
            MailPriority::Kept => LOWEST,
        }
    }
}

/// The sort key of mail: its arrival time, shifted by its priority.
///
/// Mail of the default priority that arrives at the returned time has the same turn. So mail is
/// overtaken only by mail that arrives later by at most [`STEP`] for each priority between them.
pub fn turn(came: Timestamp, level: u8) -> Timestamp {
    turn_in_steps(came, level, STEP)
}

/// The same with another length of a step.
pub fn turn_in_steps(came: Timestamp, level: u8, step: Duration) -> Timestamp {
    let level = level.min(LOWEST);
    match level < USUAL {
        true => came - step * u32::from(USUAL - level),
        false => came + step * u32::from(level - USUAL),
    }
}

impl Default for MailPriority {
    fn default() -> MailPriority {
        MailPriority::Level(USUAL)
    }
}

impl fmt::Display for MailPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MailPriority::Level(level) => write!(f, "{level}"),
            MailPriority::Kept => f.write_str("z"),
        }
    }
}
