//! Reopens logs that were renamed.

use super::Daemon;
use std::time::{Duration, Instant};

/// Interval of checks for renamed logs.
///
/// A log that is renamed without a new one in its place is noticed at the second check.
pub(crate) const LOG_CHECK_INTERVAL: Duration = Duration::from_secs(10);

impl Daemon {
    /// Reopens logs that were renamed, if a check is due.
    pub(super) fn check_log_rotation(&mut self) {
        if !self.until_log_check().is_zero() {
            return;
        }
        self.next_log_check = Instant::now() + LOG_CHECK_INTERVAL;
        match self.log_file.as_mut().map(|log| log.reopen_if_renamed()) {
            Some(Err(error)) => log::error!("the log cannot be reopened: {error}"),
            Some(Ok(true)) => log::info!("the log was renamed and reopened"),
            Some(Ok(false)) | None => {}
        }
        if let Some(statistics) = &mut self.statistics {
            match statistics.reopen_if_renamed() {
                Err(error) => {
                    let path = statistics.path().display();
                    log::error!("{path}: the statistics log cannot be reopened: {error}");
                }
                Ok(true) => {
                    log::info!("{}: was renamed and reopened", statistics.path().display())
                }
                Ok(false) => {}
            }
        }
        self.spool_io.check_status_log_rotation();
    }

    /// Time until the next check of the logs.
    pub(super) fn until_log_check(&self) -> Duration {
        self.next_log_check.saturating_duration_since(Instant::now())
    }
}
