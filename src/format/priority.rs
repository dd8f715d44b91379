//! The priority of mail in getting agents. It is unrelated to process priority.

use crate::time::Timestamp;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The head start in time that one step of priority gives, unless the clause has another.
///
/// Mail is overtaken by mail of the next priority only if that came at most this time later.
pub const PRIORITY_STEP: Duration = Duration::from_secs(60);
/// The default priority of mail.
pub const DEFAULT_PRIORITY: u8 = 5;
/// The lowest priority, which is served last.
pub const LOWEST_PRIORITY: u8 = 9;

/// The priority `z`: mail that is kept, and not delivered.
pub const KEPT_PRIORITY: u8 = 10;

/// Parses the priority of a message: a digit, or `z`.
pub fn parse(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [digit @ b'0'..=b'9'] => Some(digit - b'0'),
        b"z" | b"Z" => Some(KEPT_PRIORITY),
        _ => None,
    }
}

/// The priority of a message as it is written: a digit, or `z`.
pub fn letter(priority: u8) -> char {
    match priority {
        0..=LOWEST_PRIORITY => char::from(b'0' + priority),
        _ => 'z',
    }
}

/// The priority of a value of MT-PRIORITY (RFC 6710).
///
/// Values are from -9 to 9; the highest is the most urgent.
pub fn of_transfer_priority(value: i8) -> u8 {
    let value = i32::from(value.clamp(-9, 9));
    // 5 is the usual one: nine values above it share five priorities, and nine below it four.
    let steps = if value > 0 { (value * 5 + 8) / 9 } else { (value * 4 - 8) / 9 };
    (i32::from(DEFAULT_PRIORITY) - steps) as u8
}

/// The value of MT-PRIORITY nearest to 0 that has a priority.
pub fn to_transfer_priority(priority: u8) -> i8 {
    let values = (0..=9).flat_map(|value| [value, -value]);
    let mut found = values.filter(|value| of_transfer_priority(*value) == priority);
    found.next().unwrap_or(-9)
}

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
/// overtaken only by mail that arrives later by at most `step` for each priority between them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_priorities_keep_their_order() {
        let all: Vec<u8> = (-9..=9).map(of_transfer_priority).collect();
        assert!((0..=9).all(|level| of_transfer_priority(to_transfer_priority(level)) == level));
        assert_eq!(all, [9, 9, 9, 8, 8, 7, 7, 6, 6, 5, 4, 3, 3, 2, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn priorities_are_digits_or_z() {
        for text in ["0", "5", "9", "z"] {
            assert_eq!(parse(text).map(letter), text.chars().next());
        }
        for text in ["", "10", "-1", "x", "5 "] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
