//! Outcomes of a recording. Agents repeat them, attempt by attempt, instead of asking a host.

use std::collections::HashMap;
use std::time::Duration;
use zsched_core::AgentEnd;

/// An attempt for a recipient.
#[derive(Clone, Debug)]
pub struct RecordedAttempt {
    /// The outcome.
    pub outcome: RecordedOutcome,
    /// The duration.
    pub took: Duration,
}

/// The outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedOutcome {
    /// The agent reported this: notary data, status word and text.
    Report(Box<[u8]>),
    /// The agent died during the attempt.
    Death(AgentEnd),
}

/// All attempts of a recording, and how long agents took.
#[derive(Clone, Debug, Default)]
pub struct RecordedAttempts {
    /// By recipient: the number of its message, and the number that is its address.
    of_recipients: HashMap<(u64, u32), RecipientAttempts>,
    /// Time from the start of an agent to its first `#hungry`.
    pub start: Mean,
    /// Duration of an attempt, for those that are not in the recording.
    pub duration: Mean,
    /// Time from an agent's last report on a job to its `#hungry`.
    pub after_job: Mean,
    /// Number of attempts so far whose outcome is not in the recording.
    pub made_up: u64,
}

/// The attempts for one recipient.
#[derive(Clone, Debug, Default)]
struct RecipientAttempts {
    recorded: Vec<RecordedAttempt>,
    /// Number of attempts that an agent has made so far.
    made: usize,
}

impl RecordedAttempts {
    /// Adds the next recorded attempt for a recipient.
    pub fn add(&mut self, message: u64, address: u32, attempt: RecordedAttempt) {
        self.of_recipients.entry((message, address)).or_default().recorded.push(attempt);
    }

    /// Returns the next attempt for a recipient. After the last recorded one, that is repeated.
    pub(crate) fn next(&mut self, message: u64, address: Option<u32>) -> RecordedAttempt {
        let found = address.and_then(|address| self.of_recipients.get_mut(&(message, address)));
        let Some(attempts) = found else {
            self.made_up += 1;
            let outcome = RecordedOutcome::Report(b"\tok3 not in the recording"[..].into());
            return RecordedAttempt { outcome, took: self.duration.value() };
        };
        attempts.made += 1;
        let last = attempts.recorded.len();
        self.made_up += u64::from(attempts.made > last);
        attempts.recorded[attempts.made.min(last) - 1].clone()
    }
}

/// A mean duration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mean {
    sum: Duration,
    count: u32,
}

impl Mean {
    /// Adds a value.
    pub fn add(&mut self, time: Duration) {
        self.sum += time;
        self.count += 1;
    }

    /// Returns the mean; zero if there are no values.
    pub fn value(self) -> Duration {
        self.sum.checked_div(self.count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_attempt_is_repeated_as_made_up() {
        let mut attempts = RecordedAttempts::default();
        for seconds in [1, 2] {
            let outcome = RecordedOutcome::Report(b"\tdeferred"[..].into());
            attempts.add(7, 100, RecordedAttempt { outcome, took: Duration::from_secs(seconds) });
        }
        let mut next = || (attempts.next(7, Some(100)).took.as_secs(), attempts.made_up);
        assert_eq!([next(), next(), next()], [(1, 0), (2, 0), (2, 1)]);
        assert_eq!(attempts.next(7, None).took, Duration::ZERO);
        assert_eq!(attempts.made_up, 2);
    }
}
