//! Scans the spool's folders for control files.

use super::{HashFolder, Spool, SpoolName};
use std::fs::{self, ReadDir};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};
use zsched_format::printable;

/// Limits of one scan (`-E`).
#[derive(Clone, Copy, Debug)]
pub struct ScanLimits {
    /// Maximum number of new names in a folder. If it is exceeded, the scan leaves the folder.
    pub new_names: usize,
    /// Maximum time spent on new names.
    ///
    /// The time spent on known names does not count. Otherwise a scan could find nothing but known
    /// names each time.
    pub time: Duration,
}

impl ScanLimits {
    /// No limits: find all files.
    pub const NONE: ScanLimits = ScanLimits { new_names: usize::MAX, time: Duration::MAX };
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct ScanEnd {
    /// True if a limit was reached, so there may be more files.
    pub truncated: bool,
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
/// `portion` is called with some names at a time. It returns how many of them were new, or `None`
/// to end the scan.
pub fn scan(
    spool: &Spool,
    limits: ScanLimits,
    mut portion: impl FnMut(Vec<SpoolName>) -> Option<usize>,
) -> ScanEnd {
    let mut end = ScanEnd::default();
    let mut spent = Duration::ZERO;
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
        let mut new_names = 0;
        loop {
            let started = Instant::now();
            let names: Vec<SpoolName> = entries.by_ref().take(MAX_NAMES_PER_BATCH).collect();
            if names.is_empty() {
                break;
            }
            match portion(names) {
                Some(0) => continue,
                Some(new) => new_names += new,
                None => return end,
            }
            spent = spent.saturating_add(started.elapsed());
            if new_names > limits.new_names || spent > limits.time {
                entries.end.truncated = true;
                break;
            }
        }
        folders.append(&mut entries.below);
        if spent > limits.time {
            return end;
        }
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

    fn found(spool: &Spool, limits: ScanLimits) -> (Vec<String>, bool) {
        let mut all = Vec::new();
        let end = scan(spool, limits, |names| {
            all.extend(names.iter().map(SpoolName::path));
            Some(names.len())
        });
        assert!(end.errors.is_empty(), "{:?}", end.errors);
        all.sort();
        (all, end.truncated)
    }

    #[test]
    fn scan_finds_control_files_at_all_levels_only() {
        let files =
            ["4711", "F/4712", "Z/F/4713", ".4714", "x4715", "A/B/C/4716", "a/4717", "AB/1"];
        let (_folder, spool) = spool_with(&files);
        std::os::unix::fs::symlink("F", spool.transport().join("G")).expect("a link");
        let (names, truncated) = found(&spool, ScanLimits::NONE);
        assert_eq!(names, ["4711", "F/4712", "Z/F/4713"]);
        assert!(!truncated);
    }

    #[test]
    fn scan_reports_invalid_names() {
        let long = format!("1{}", "x".repeat(48));
        let files = ["4711", "47 11", "99999999999999999999", &long, "A/B/C/4716", ".12", "x12"];
        let (_folder, spool) = spool_with(&files);
        let mut end = scan(&spool, ScanLimits::NONE, |names| Some(names.len()));
        end.invalid_names.sort();
        assert_eq!(end.invalid_names, [&long, "47 11", "99999999999999999999", "A/B/C"]);
        for number in 0..2 * MAX_INVALID_NAMES {
            fs::write(spool.transport().join(format!("{number}\n")), "").expect("a file");
        }
        let end = scan(&spool, ScanLimits::NONE, |names| Some(names.len()));
        assert_eq!(end.invalid_names.len(), MAX_INVALID_NAMES);
    }

    #[test]
    fn scan_stops_at_limit() {
        let files: Vec<String> = (1..=2500).map(|number| number.to_string()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let (_folder, spool) = spool_with(&files);
        let limits = ScanLimits { new_names: 1500, ..ScanLimits::NONE };
        let (names, truncated) = found(&spool, limits);
        assert!(truncated);
        assert_eq!(names.len(), 2000);
    }

    #[test]
    fn scan_time_limit_excludes_known_names() {
        let files: Vec<String> = (1..=4500).map(|number| number.to_string()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let (_folder, spool) = spool_with(&files);
        let limits = ScanLimits { time: Duration::ZERO, ..ScanLimits::NONE };
        let mut known = std::collections::HashSet::new();
        let mut scans = 0;
        while known.len() < files.len() {
            let end = scan(&spool, limits, |names| {
                Some(names.iter().filter(|name| known.insert(name.number())).count())
            });
            assert!(end.truncated, "there was something new");
            scans += 1;
        }
        assert_eq!(scans, 5, "a portion each");
        assert!(!scan(&spool, limits, |_| Some(0)).truncated);
    }

    #[test]
    fn scan_reports_missing_folder() {
        let spool = Spool::new("/nonexistent");
        let end = scan(&spool, ScanLimits::NONE, |names| Some(names.len()));
        assert_eq!(end.errors.len(), 1);
    }
}
