//! Reopens logs, on SIGHUP and when they were renamed.

use super::Daemon;
use std::time::{Duration, Instant};

/// Interval of checks for renamed logs.
///
/// A log that is renamed without a new one in its place is noticed at the second check.
pub(crate) const LOG_CHECK_INTERVAL: Duration = Duration::from_secs(10);

impl Daemon {
    /// Reopens logs that were renamed, if a check is due.
    pub(super) fn check_log_rotation(&mut self) {
        if self.until_log_check().is_zero() {
            self.next_log_check = Instant::now() + LOG_CHECK_INTERVAL;
            self.reopen_logs(true);
        }
    }

    /// Reopens all logs under their names, or only those that were renamed.
    pub(super) fn reopen_logs(&mut self, only_renamed: bool) {
        let logs = self.other_logs.iter().chain([&self.log]);
        logs.for_each(|log| log.reopen(only_renamed));
    }

    /// Time until the next check of the logs.
    pub(super) fn until_log_check(&self) -> Duration {
        self.next_log_check.saturating_duration_since(Instant::now())
    }
}
