//! Finds logs that were renamed or replaced.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use zsched_sys as sys;

/// Detects that the path of an open file names another file.
#[derive(Default)]
pub(crate) struct RotationDetector {
    /// True if the last check found no file at the path.
    was_missing: bool,
}

impl RotationDetector {
    /// Returns true if the open file is no longer the one at `path`.
    pub(crate) fn is_renamed(&mut self, path: &Path, open: &File) -> bool {
        let leads_there = sys::leads_to(path, open);
        let is_missing = matches!(&leads_there, Err(error) if error.kind() == ErrorKind::NotFound);
        // A rotation may be about to create the file, with its own choice of owner and mode.
        let is_still_missing = std::mem::replace(&mut self.was_missing, is_missing) && is_missing;
        is_still_missing || leads_there.is_ok_and(|leads_there| !leads_there)
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
        let mut rotation = RotationDetector::default();
        assert!(!rotation.is_renamed(&path, &file));
        fs::rename(&path, &aside).expect("renamed");
        assert!(!rotation.is_renamed(&path, &file), "a new one may be about to come");
        assert!(rotation.is_renamed(&path, &file), "none has come");
        File::create(&path).expect("made");
        assert!(rotation.is_renamed(&path, &file));
        fs::rename(&aside, &path).expect("renamed back");
        assert!(!rotation.is_renamed(&path, &file));
        assert!(!rotation.is_renamed(&path.join("x"), &file), "not a name at all");
    }
}
