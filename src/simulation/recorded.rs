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

/// All attempts of a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordedAttempts {
    /// By recipient: the number of its message, and the number that is its address.
    of_recipients: HashMap<(u64, u32), RecipientAttempts>,
    /// Duration of attempts that are not in the recording.
    pub usual_duration: Duration,
    /// Time from an agent's last report on a job to its `#hungry`.
    pub after_job: Duration,
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
            return RecordedAttempt { outcome, took: self.usual_duration };
        };
        attempts.made += 1;
        let last = attempts.recorded.len();
        self.made_up += u64::from(attempts.made > last);
        attempts.recorded[attempts.made.min(last) - 1].clone()
    }
}
