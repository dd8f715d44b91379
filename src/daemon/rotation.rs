//! Rotation of logs without a signal: finds logs that were renamed or replaced.

use super::Daemon;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};
use zsched_sys as sys;

/// Interval of checks for renamed logs.
///
/// A log that is renamed without a new one in its place is noticed at the second check.
pub const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Detects that the path of an open file names another file.
#[derive(Default)]
pub struct Rotation {
    /// True if the last check found no file at the path.
    was_missing: bool,
}

impl Rotation {
    /// Returns true if the open file is no longer the one at `path`.
    pub fn has_happened(&mut self, path: &Path, open: &File) -> bool {
        let leads_there = sys::leads_to(path, open);
        let is_missing = matches!(&leads_there, Err(error) if error.kind() == ErrorKind::NotFound);
        // A rotation may be about to create the file, with its own choice of owner and mode.
        let is_still_missing = std::mem::replace(&mut self.was_missing, is_missing) && is_missing;
        is_still_missing || leads_there.is_ok_and(|leads_there| !leads_there)
    }
}

impl Daemon {
    /// Reopens logs that were renamed, if a check is due.
    pub(super) fn look_at_logs(&mut self) {
        if !self.until_look().is_zero() {
            return;
        }
        self.look_at_logs = Instant::now() + LOOK_AGAIN;
        match self.log_file.as_mut().map(|log| log.follow_name()) {
            Some(Err(error)) => log::error!("the log cannot be reopened: {error}"),
            Some(Ok(true)) => log::info!("the former log was moved away; this one was opened"),
            Some(Ok(false)) | None => {}
        }
        if let Some(statistics) = &mut self.statistics {
            match statistics.follow_name() {
                Err(error) => {
                    let path = statistics.path().display();
                    log::error!("{path}: the statistics log cannot be reopened: {error}");
                }
                Ok(true) => {
                    log::info!("{}: was moved away and reopened", statistics.path().display())
                }
                Ok(false) => {}
            }
        }
        self.files.look_at_status_log();
    }

    /// Time until the next check of the logs.
    pub(super) fn until_look(&self) -> Duration {
        self.look_at_logs.saturating_duration_since(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn log_renamed_or_replaced_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, aside) = (folder.path().join("log"), folder.path().join("log.0"));
        let file = File::create(&path).expect("made");
        let mut rotation = Rotation::default();
        assert!(!rotation.has_happened(&path, &file));
        fs::rename(&path, &aside).expect("renamed");
        assert!(!rotation.has_happened(&path, &file), "a new one may be about to come");
        assert!(rotation.has_happened(&path, &file), "none has come");
        File::create(&path).expect("made");
        assert!(rotation.has_happened(&path, &file));
        fs::rename(&aside, &path).expect("renamed back");
        assert!(!rotation.has_happened(&path, &file));
        assert!(!rotation.has_happened(&path.join("x"), &file), "not a name at all");
    }
}
