//! What clients get of a turn of the loop, and how many long answers are written at a time.
//!
//! Short answers, logins and the control socket come first, then the long answers of those who have logged in,
//! then the dumps of those who need not. Each has a share, so that the others cost it nothing.

use super::{MORE_FOR_CONTROL, MOST_CLIENTS};
use std::time::Duration;

/// How much memory the long answers that are being written may take together, in bytes.
const MEMORY: usize = 64 * 1024 * 1024;
/// The part of it that is for dumps without a login.
const ANONYMOUS_PART: usize = 4;
/// So many long answers are written at a time, whatever they take.
const FEWEST: usize = 4;
/// So many of them may be dumps without a login.
const FEWEST_ANONYMOUS: usize = 2;

/// How urgent a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Short answers, logins, orders, and everything over the control socket.
    Prompt,
    /// A long answer for a client that has logged in.
    Long,
    /// A dump for one that has not.
    Anonymous,
}

/// What a class may use of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub bytes: usize,
    pub time: Duration,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Class; 3] = [Class::Prompt, Class::Long, Class::Anonymous];

    /// Its share of a turn: 256 KiB and 10 ms are for all.
    pub fn share(self) -> Share {
        let (kilobytes, milliseconds) = match self {
            Class::Prompt => (112, 5),
            Class::Long => (112, 4),
            Class::Anonymous => (32, 1),
        };
        Share { bytes: kilobytes * 1024, time: Duration::from_millis(milliseconds) }
    }
}

/// Long answers by kind: those that are under way, or how many more may be begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Over the control socket. They have as much memory as all others together.
    pub control: usize,
    /// For clients that have logged in.
    pub long: usize,
    /// Dumps, for others.
    pub anonymous: usize,
}

impl Slots {
    /// How many may be written at a time if each takes so much memory. The dumps are part of the long answers.
    pub fn of_memory(memory: usize) -> Slots {
        let most = |part: usize, fewest: usize| {
            (MEMORY / part / memory).clamp(fewest, MOST_CLIENTS + MORE_FOR_CONTROL)
        };
        let all = most(1, FEWEST);
        Slots { control: all, long: all, anonymous: most(ANONYMOUS_PART, FEWEST_ANONYMOUS) }
    }

    /// How many more may be begun, while these are under way.
    pub fn left(self, under_way: Slots) -> Slots {
        let long = self.long.saturating_sub(under_way.long + under_way.anonymous);
        Slots {
            control: self.control.saturating_sub(under_way.control),
            long,
            anonymous: self.anonymous.saturating_sub(under_way.anonymous).min(long),
        }
    }

    /// Those of a kind.
    pub fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Control => &mut self.control,
            Kind::Long => &mut self.long,
            Kind::Anonymous => &mut self.anonymous,
        }
    }
}

/// A kind of long answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Over the control socket.
    Control,
    /// For a client that has logged in.
    Long,
    /// A dump, for a client that has not.
    Anonymous,
}
