//! List of possible duplicate deliveries, for the log and for a file in POSTOFFICE.
//!
//! The file has one JSON object per line, for each recipient that a dead process left locked:
//!
//! ```text
//! {"time":"2027-01-01T09:27:23Z","spool_id":"S4711AbmKULOD","offset":107,"address":"u@a.test",
//!  "channel":"smtp","host":"a.test","pid":23456}
//! ```
//!
//! An entry is on disk before the lock is cleared. A full file is renamed to `….1`, and a new one
//! is begun.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zsched_spool::{PossibleDuplicate, PossibleDuplicates};

/// Maximum size of the file, in bytes.
const LARGEST: u64 = 10_000_000;
/// Maximum number of log lines about possible duplicates in a minute.
const LINES_A_MINUTE: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);

/// List of possible duplicates, shared by the helper workers.
pub struct Duplicates {
    path: PathBuf,
    /// Counts since the start. They are atomic since the loop reads them and must not wait for a
    /// disk.
    messages: AtomicU64,
    recipients: AtomicU64,
    log: Mutex<Budget>,
}

/// Limiter of log lines.
#[derive(Default)]
struct Budget {
    /// Start of the current minute, with the lines logged and the lines left out.
    minute: Option<Instant>,
    lines: u32,
    left_out: u32,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Messages; one whose locks were cleared twice counts twice.
    pub messages: u64,
    /// Recipients of these messages.
    pub recipients: u64,
}

/// Line of the file.
#[derive(Serialize)]
struct Line<'d> {
    time: String,
    spool_id: String,
    offset: u32,
    address: String,
    channel: String,
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: &'d Option<u32>,
}

impl Duplicates {
    /// Creates the list, kept in a file at `path`.
    pub fn new(path: PathBuf) -> Duplicates {
        let (messages, recipients) = (AtomicU64::new(0), AtomicU64::new(0));
        Duplicates { path, messages, recipients, log: Mutex::default() }
    }

    /// Counts since the start.
    pub fn count(&self) -> Count {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Count { messages: of(&self.messages), recipients: of(&self.recipients) }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records recipients that may get a message twice.
    pub fn tell(&self, doubt: &PossibleDuplicates) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.recipients.fetch_add(doubt.recipients.len() as u64, Ordering::Relaxed);
        // Counters stay valid after a panic elsewhere. The lock also keeps lines of the file apart.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = append(&self.path, &lines(doubt), LARGEST) {
            log.say(|| format!("{}: {error}", self.path.display()));
        }
        for (destination, (count, pid)) in by_destination(doubt) {
            let id = doubt.spool_id;
            log.say(|| {
                format!(
                    "{id}: {count} recipients for {destination} were left locked by process {pid}, \
                     which is gone: they are tried again, and may be delivered twice"
                )
            });
        }
    }
}

impl Budget {
    /// Logs a line, unless the limit of the minute is reached.
    fn say(&mut self, line: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.minute.is_none_or(|minute| now.saturating_duration_since(minute) >= MINUTE) {
            (self.minute, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        if self.lines > LINES_A_MINUTE {
            self.left_out += 1;
            return;
        }
        match std::mem::take(&mut self.left_out) {
            0 => log::warn!("{}", line()),
            count => log::warn!("{}; {count} more lines of the kind were left out", line()),
        }
    }
}

/// Number of recipients of each destination, and the process of the first.
fn by_destination(doubt: &PossibleDuplicates) -> BTreeMap<String, (usize, String)> {
    let mut all = BTreeMap::new();
    for PossibleDuplicate { channel, host, pid, .. } in &doubt.recipients {
        let destination = format!("{}/{}", text(channel), text(host));
        let pid = || pid.map_or("?".to_string(), |pid| pid.to_string());
        all.entry(destination).or_insert_with(|| (0, pid())).0 += 1;
    }
    all
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(doubt: &PossibleDuplicates) -> Vec<u8> {
    let now = jiff::Timestamp::now();
    // Cuts off fractions of a second.
    let now = jiff::Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut lines = Vec::new();
    for PossibleDuplicate { offset, channel, host, address, pid } in &doubt.recipients {
        let line = Line {
            time: now.to_string(),
            spool_id: doubt.spool_id.to_string(),
            offset: *offset,
            address: text(address),
            channel: text(channel),
            host: text(host),
            pid,
        };
        // Writing to a Vec cannot fail, and every field is valid JSON.
        serde_json::to_writer(&mut lines, &line).expect("plain values");
        lines.push(b'\n');
    }
    lines
}

/// Appends lines to the file and waits until they are on disk.
///
/// A file that would become too large is renamed first. A line written in part is removed.
fn append(path: &Path, lines: &[u8], largest: u64) -> io::Result<()> {
    let mut file = open(path)?;
    let mut size = file.metadata()?.len();
    if size > 0 && size + lines.len() as u64 > largest {
        fs::rename(path, former(path))?;
        (file, size) = (open(path)?, 0);
    }
    let written = file.write_all(lines).and_then(|()| file.sync_data());
    if written.is_err() {
        file.set_len(size)?;
    }
    written
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "this is no regular file")),
    }
}

fn former(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf().into_os_string();
    path.push(".1");
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsched_format::time::Timestamp;
    use zsched_spool::SpoolId;

    fn doubt(address: &[u8]) -> PossibleDuplicates {
        let doubtful = |offset, pid| PossibleDuplicate {
            offset,
            channel: b"smtp".to_vec(),
            host: b"a.test".to_vec(),
            address: address.to_vec(),
            pid,
        };
        let recipients = vec![doubtful(107, Some(23456)), doubtful(140, None)];
        let modified = Timestamp::from_seconds(1_795_259_643);
        PossibleDuplicates { spool_id: SpoolId { number: 4711, modified }, recipients }
    }

    #[test]
    fn duplicates_file_has_json_line_per_recipient() {
        let folder = tempfile::tempdir().expect("a folder");
        let duplicates = Duplicates::new(folder.path().join("list"));
        duplicates.tell(&doubt(b"u\"\xff@a.test"));
        let written = fs::read_to_string(duplicates.path()).expect("written");
        let values = written.lines().map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert!(value["time"].as_str().is_some_and(|time| time.ends_with('Z')));
            let of = |name: &str| value[name].to_string();
            ["spool_id", "offset", "address", "channel", "host", "pid"].map(of).join(" ")
        });
        let expected = r#""smtp" "a.test""#;
        assert_eq!(
            values.collect::<Vec<_>>(),
            [
                format!("\"S4711AbmKULOD\" 107 \"u\\\"\u{fffd}@a.test\" {expected} 23456"),
                format!("\"S4711AbmKULOD\" 140 \"u\\\"\u{fffd}@a.test\" {expected} null"),
            ]
        );
        assert_eq!(duplicates.count(), Count { messages: 1, recipients: 2 });
    }

    #[test]
    fn duplicates_file_full_is_renamed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list");
        let lines = lines(&doubt(b"u"));
        for _ in 0..7 {
            append(&path, &lines, 3 * lines.len() as u64).expect("written");
        }
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let expected = (lines.len() as u64, 3 * lines.len() as u64);
        assert_eq!((size(&path), size(&former(&path))), expected);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 2);
    }

    #[test]
    fn duplicates_file_symlink_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("list"), folder.path().join("other"));
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        assert!(append(&path, b"x\n", LARGEST).is_err());
        assert!(!other.exists());
    }
}
