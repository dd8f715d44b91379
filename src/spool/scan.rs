//! Scans the spool's folders for control files.

use super::{HashFolder, Spool, SpoolName};
use std::fs::{self, ReadDir};
use std::io;
use std::os::unix::ffi::OsStrExt;
use zsched_format::printable;

/// The result of a scan.
#[derive(Debug, Default)]
pub struct ScanEnd {
    /// Folders that could not be read.
    pub errors: Vec<io::Error>,
    /// Invalid paths that resemble a control file or folder.
    ///
    /// Limited in number.
    pub invalid_names: Vec<String>,
}

/// Maximum number of invalid names that are reported.
const MAX_INVALID_NAMES: usize = 100;

/// Maximum number of names in one call of `portion`.
const MAX_NAMES_PER_BATCH: usize = 1000;

/// Lists the control files below `transport/`, folder by folder.
///
/// `portion` is called with some names at a time. It returns false to end the scan.
pub fn scan(spool: &Spool, mut portion: impl FnMut(Vec<SpoolName>) -> bool) -> ScanEnd {
    let mut end = ScanEnd::default();
    let mut folders = vec![HashFolder::TOP];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(spool.transport().join(folder.to_string())) {
            Ok(entries) => entries,
            Err(error) => {
                end.errors.push(error);
                continue;
            }
        };
        let mut entries = Entries { entries, folder, below: Vec::new(), end: &mut end };
        loop {
            let names: Vec<SpoolName> = entries.by_ref().take(MAX_NAMES_PER_BATCH).collect();
            if names.is_empty() {
                break;
            }
            if !portion(names) {
                return end;
            }
        }
        folders.append(&mut entries.below);
    }
    end
}

/// The control files in one folder. Collects the folders below it.
struct Entries<'e> {
    entries: ReadDir,
    folder: HashFolder,
    below: Vec<HashFolder>,
    end: &'e mut ScanEnd,
}

impl Entries<'_> {
    /// Records a skipped name if it was probably meant to be valid.
    fn record_invalid(&mut self, name: &[u8], is_folder: bool) {
        let is_meant = match (name, is_folder) {
            ([b'A'..=b'Z'], is_folder) => is_folder,
            ([b'0'..=b'9', ..], is_folder) => !is_folder,
            _ => false,
        };
        if is_meant && self.end.invalid_names.len() < MAX_INVALID_NAMES {
            self.end.invalid_names.push(format!("{}{}", self.folder, printable::line(name)));
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = SpoolName;

    fn next(&mut self) -> Option<SpoolName> {
        loop {
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => {
                    self.end.errors.push(error);
                    return None;
                }
            };
            let name = entry.file_name();
            if let Some(name) = SpoolName::new(self.folder, name.as_bytes()) {
                return Some(name);
            }
            // The type of the entry itself, not that of a symbolic link's target.
            let is_folder = match entry.file_type() {
                Ok(kind) => kind.is_dir(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.end.errors.push(error);
                    continue;
                }
            };
            match self.folder.below(name.as_bytes()) {
                Some(below) if is_folder => self.below.push(below),
                _ => self.record_invalid(name.as_bytes(), is_folder),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool_with(files: &[&str]) -> (tempfile::TempDir, Spool) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        for file in files {
            let path = spool.transport().join(file);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, "").expect("a file");
        }
        (folder, spool)
    }

    fn found(spool: &Spool) -> Vec<String> {
        let mut all = Vec::new();
        let end = scan(spool, |names| {
            all.extend(names.iter().map(SpoolName::path));
            true
        });
        assert!(end.errors.is_empty(), "{:?}", end.errors);
        all.sort();
        all
    }

    #[test]
    fn scan_finds_control_files_at_all_levels_only() {
        let files =
            ["4711", "F/4712", "Z/F/4713", ".4714", "x4715", "A/B/C/4716", "a/4717", "AB/1"];
        let (_folder, spool) = spool_with(&files);
        std::os::unix::fs::symlink("F", spool.transport().join("G")).expect("a link");
        assert_eq!(found(&spool), ["4711", "F/4712", "Z/F/4713"]);
    }

    #[test]
    fn scan_reports_invalid_names() {
        let long = format!("1{}", "x".repeat(48));
        let files = ["4711", "47 11", "99999999999999999999", &long, "A/B/C/4716", ".12", "x12"];
        let (_folder, spool) = spool_with(&files);
        let mut end = scan(&spool, |_| true);
        end.invalid_names.sort();
        assert_eq!(end.invalid_names, [&long, "47 11", "99999999999999999999", "A/B/C"]);
        for number in 0..2 * MAX_INVALID_NAMES {
            fs::write(spool.transport().join(format!("{number}\n")), "").expect("a file");
        }
        let end = scan(&spool, |_| true);
        assert_eq!(end.invalid_names.len(), MAX_INVALID_NAMES);
    }

    #[test]
    fn scan_ends_when_told() {
        let files: Vec<String> = (1..=2500).map(|number| number.to_string()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let (_folder, spool) = spool_with(&files);
        let mut count = 0;
        scan(&spool, |names| {
            count += names.len();
            count < 1500
        });
        assert_eq!(count, 2000, "two portions");
    }

    #[test]
    fn scan_reports_missing_folder() {
        let spool = Spool::new("/nonexistent");
        let end = scan(&spool, |_| true);
        assert_eq!(end.errors.len(), 1);
    }
}
