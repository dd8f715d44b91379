//! The priority of mail: which is worked off first. Nothing to do with that of processes.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What a step of the scale of priorities is worth, in time: mail of the next priority goes first
/// unless it came so much later.
pub const STEP: Duration = Duration::from_secs(60);
/// The priority of mail that has none of its own.
pub const USUAL: u8 = 5;
/// The last of all priorities.
pub const LOWEST: u8 = 9;

/// The priority of the mail of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailPriority {
    /// 0 goes first, 9 last.
    Level(u8),
    /// Nothing goes until somebody says otherwise (`z`).
    Kept,
}

impl MailPriority {
    /// How urgent it is; what is kept is not at all.
    pub fn level(self) -> u8 {
        match self {
            MailPriority::Level(level) => level.min(LOWEST),
            MailPriority::Kept => LOWEST,
        }
    }
}

/// When something of a priority would have to come, were it of the usual one, to have its turn when it
/// has. So nothing is overtaken by what comes later than it by more than [`STEP`] for each priority that
/// lies between them.
pub fn turn(came: Timestamp, level: u8) -> Timestamp {
    turn_in_steps(came, level, STEP)
}

/// The same with steps of another length.
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
