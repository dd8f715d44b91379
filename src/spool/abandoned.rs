//! Removes scratch files in `public/` whose writers are gone.
//!
//! A program that was killed while it wrote a message has left one. The program had not yet
//! reported success, so its user knows that the message was not accepted.

use super::Spool;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};
use zsched_sys as sys;

/// Minimum time since the last write to an abandoned file.
const MIN_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of files that are examined. Any user can put files there.
const MAX_FILES: usize = 100_000;

/// Removes the abandoned scratch files. Returns their number.
pub fn remove_abandoned(spool: &Spool, now: SystemTime) -> io::Result<usize> {
    let mut count = 0;
    for entry in sys::if_exists(fs::read_dir(spool.public()))?.into_iter().flatten().take(MAX_FILES)
    {
        let entry = entry?;
        if is_scratch_name(entry.file_name().as_bytes()) && is_old(&entry, now) {
            count += usize::from(sys::if_exists(fs::remove_file(entry.path()))?.is_some());
        }
    }
    Ok(count)
}

fn is_old(entry: &DirEntry, now: SystemTime) -> bool {
    // Metadata of an entry are not those that a link leads to.
    let modified = entry.metadata().ok().filter(|file| file.is_file());
    let modified = modified.and_then(|file| file.modified().ok());
    modified.and_then(|time| now.duration_since(time).ok()).is_some_and(|age| age >= MIN_AGE)
}

/// Returns true for `<kind>:<pid>:<count>`, and for ZMailer's `<host>:<pid>` and `<host>:<pid>a`.
///
/// Other files in `public/` are logs that senders have requested (the `v` line of control files).
fn is_scratch_name(name: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', name) else { return false };
    let (kind, number) = (&name[..colon], &name[colon + 1..]);
    let number = match number.last() {
        Some(b'a'..=b'z') => &number[..number.len() - 1],
        _ => number,
    };
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    !kind.is_empty() && number.splitn(2, |byte| *byte == b':').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_names_are_recognized() {
        for (name, expected) in [
            ("mail.example.org:4711", true),
            ("mail.example.org:4711z", true),
            ("resubmit:4711:0", true),
            ("v_4711", false),
            ("v_1:x", false),
            (":1", false),
            ("host:", false),
            ("host:a", false),
            ("host:1:", false),
            ("host:1:2:3", false),
            ("", false),
        ] {
            assert_eq!(is_scratch_name(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn only_old_scratch_files_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let spool = Spool::new(folder.path());
        assert_eq!(remove_abandoned(&spool, SystemTime::now()).expect("no folder"), 0);
        fs::create_dir(spool.public()).expect("a folder");
        let at = |name: &str| spool.public().join(name);
        fs::create_dir(at("host:1")).expect("a folder");
        for name in ["host:2", "host:3:0", "v_1"] {
            fs::write(at(name), "").expect("written");
        }
        std::os::unix::fs::symlink("v_1", at("host:4")).expect("a link");
        let now = SystemTime::now();
        assert_eq!(remove_abandoned(&spool, now).expect("all are young"), 0);
        assert_eq!(remove_abandoned(&spool, now + MIN_AGE).expect("two are old"), 2);
        let mut left: Vec<_> = fs::read_dir(spool.public())
            .expect("a folder")
            .flatten()
            .map(|f| f.file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["host:1", "host:4", "v_1"]);
    }
}
