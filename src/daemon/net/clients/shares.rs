//! Shares of clients in a turn, and limits of long answers at a time.
//!
//! Short answers, logins and the control socket come first. Long answers after a login come next,
//! then dumps without a login. Each class has its own share, so that the others do not reduce it.

use super::{MAX_CLIENTS, MAX_EXTRA_CONTROL_CLIENTS};
use std::time::Duration;

/// Maximum memory of all long answers that are being composed, in bytes.
const MAX_LONG_ANSWER_MEMORY: usize = 64 * 1024 * 1024;
/// Divisor of that memory for dumps without a login.
const ANONYMOUS_MEMORY_DIVISOR: usize = 4;
/// Minimum number of long answers at a time, whatever memory they take.
const MIN_LONG_ANSWERS: usize = 4;
/// Minimum number of dumps without a login among these.
const MIN_ANONYMOUS_DUMPS: usize = 2;

/// Scheduling class of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceClass {
    /// Short answers, logins, orders, and everything over the control socket.
    Prompt,
    /// Long answer for a client with a login.
    Long,
    /// Dump for a client without a login.
    Anonymous,
}

/// Share of a class in a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnShare {
    pub bytes: usize,
    pub time: Duration,
}

impl ServiceClass {
    /// All classes, the most urgent first.
    pub(super) const ALL: [ServiceClass; 3] =
        [ServiceClass::Prompt, ServiceClass::Long, ServiceClass::Anonymous];

    /// Share of the class in a turn. All classes together have 256 KiB and 10 ms.
    pub(super) fn share(self) -> TurnShare {
        let (kilobytes, milliseconds) = match self {
            ServiceClass::Prompt => (112, 5),
            ServiceClass::Long => (112, 4),
            ServiceClass::Anonymous => (32, 1),
        };
        TurnShare { bytes: kilobytes * 1024, time: Duration::from_millis(milliseconds) }
    }
}

/// Numbers of long answers by kind: those under way, or those that may still be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerSlots {
    /// Over the control socket. They have as much memory as all others together.
    pub control: usize,
    /// For clients with a login.
    pub long: usize,
    /// Dumps for clients without a login.
    pub anonymous: usize,
}

impl AnswerSlots {
    /// Maximum numbers if each long answer takes `memory` bytes. The dumps are part of `long`.
    pub(super) fn of_memory(memory: usize) -> AnswerSlots {
        let slots = |part: usize, min: usize| {
            (MAX_LONG_ANSWER_MEMORY / part / memory)
                .clamp(min, MAX_CLIENTS + MAX_EXTRA_CONTROL_CLIENTS)
        };
        let all = slots(1, MIN_LONG_ANSWERS);
        AnswerSlots {
            control: all,
            long: all,
            anonymous: slots(ANONYMOUS_MEMORY_DIVISOR, MIN_ANONYMOUS_DUMPS),
        }
    }

    /// Numbers that may still be started while these are under way.
    pub(super) fn left(self, under_way: AnswerSlots) -> AnswerSlots {
        let long = self.long.saturating_sub(under_way.long + under_way.anonymous);
        AnswerSlots {
            control: self.control.saturating_sub(under_way.control),
            long,
            anonymous: self.anonymous.saturating_sub(under_way.anonymous).min(long),
        }
    }
}
