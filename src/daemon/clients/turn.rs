//! Shares of clients in a turn, and limits of long answers at a time.
//!
//! Short answers, logins and the control socket come first. Long answers after a login come next,
//! then dumps without a login. Each class has its own share, so that the others do not reduce it.

use super::{MORE_FOR_CONTROL, MOST_CLIENTS};
use std::time::Duration;

/// Maximum memory of all long answers that are being composed, in bytes.
const MEMORY: usize = 64 * 1024 * 1024;
/// Divisor of that memory for dumps without a login.
const ANONYMOUS_PART: usize = 4;
/// Minimum number of long answers at a time, whatever memory they take.
const FEWEST: usize = 4;
/// Minimum number of dumps without a login among these.
const FEWEST_ANONYMOUS: usize = 2;

/// Scheduling class of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Short answers, logins, orders, and everything over the control socket.
    Prompt,
    /// Long answer for a client with a login.
    Long,
    /// Dump for a client without a login.
    Anonymous,
}

/// Share of a class in a turn.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub bytes: usize,
    pub time: Duration,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Class; 3] = [Class::Prompt, Class::Long, Class::Anonymous];

    /// Share of the class in a turn. All classes together have 256 KiB and 10 ms.
    pub fn share(self) -> Share {
        let (kilobytes, milliseconds) = match self {
            Class::Prompt => (112, 5),
            Class::Long => (112, 4),
            Class::Anonymous => (32, 1),
        };
        Share { bytes: kilobytes * 1024, time: Duration::from_millis(milliseconds) }
    }
}

/// Numbers of long answers by kind: those under way, or those that may still be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Over the control socket. They have as much memory as all others together.
    pub control: usize,
    /// For clients with a login.
    pub long: usize,
    /// Dumps for clients without a login.
    pub anonymous: usize,
}

impl Slots {
    /// Maximum numbers if each long answer takes `memory` bytes. The dumps are part of `long`.
    pub fn of_memory(memory: usize) -> Slots {
        let most = |part: usize, fewest: usize| {
            (MEMORY / part / memory).clamp(fewest, MOST_CLIENTS + MORE_FOR_CONTROL)
        };
        let all = most(1, FEWEST);
        Slots { control: all, long: all, anonymous: most(ANONYMOUS_PART, FEWEST_ANONYMOUS) }
    }

    /// Numbers that may still be started while these are under way.
    pub fn left(self, under_way: Slots) -> Slots {
        let long = self.long.saturating_sub(under_way.long + under_way.anonymous);
        Slots {
            control: self.control.saturating_sub(under_way.control),
            long,
            anonymous: self.anonymous.saturating_sub(under_way.anonymous).min(long),
        }
    }

    /// The number of a kind.
    pub fn of(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Control => &mut self.control,
            Kind::Long => &mut self.long,
            Kind::Anonymous => &mut self.anonymous,
        }
    }
}

/// Kind of long answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Over the control socket.
    Control,
    /// For a client with a login.
    Long,
    /// Dump for a client without a login.
    Anonymous,
}
