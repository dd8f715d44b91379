//! List of possible duplicate deliveries, logged and kept in a file.
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

use crate::state::json_lines::{self, open_to_append, write_line};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use zsched_format::log_limiter::LogLimiter;
use zsched_format::printable;
use zsched_spool::{PossibleDuplicate, PossibleDuplicates};
use zsched_sys::with_suffix;

/// Maximum size of the file, in bytes.
const MAX_FILE_SIZE: u64 = 10_000_000;
/// Maximum number of log lines about possible duplicates in a minute.
const MAX_LOG_LINES_PER_MINUTE: u32 = 100;
const MINUTE: Duration = Duration::from_secs(60);

/// List of possible duplicates, shared by the helper workers.
pub(crate) struct DuplicatesFile {
    path: PathBuf,
    /// Counts since the start. They are atomic since the loop reads them and must not wait for a
    /// disk.
    messages: AtomicU64,
    recipients: AtomicU64,
    log: Mutex<LogLimiter>,
}

/// Line of the file.
#[derive(Serialize)]
struct DuplicateRecord<'d> {
    time: String,
    spool_id: String,
    offset: u32,
    address: String,
    channel: String,
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: &'d Option<u32>,
}

impl DuplicatesFile {
    /// Creates the list, kept in a file at `path`.
    pub(crate) fn new(path: PathBuf) -> DuplicatesFile {
        let (messages, recipients) = (AtomicU64::new(0), AtomicU64::new(0));
        let log = LogLimiter::new(MAX_LOG_LINES_PER_MINUTE, MINUTE);
        DuplicatesFile { path, messages, recipients, log: Mutex::new(log) }
    }

    /// Describes what was found since the start; `None` if that is nothing.
    pub(crate) fn summary(&self) -> Option<String> {
        let [messages, recipients] =
            [&self.messages, &self.recipients].map(|count| count.load(Ordering::Relaxed));
        let path = self.path.display();
        (recipients > 0).then(|| {
            format!(
                "{} of {} may be delivered twice, listed in {path}",
                printable::count(recipients, "recipient"),
                printable::count(messages, "message")
            )
        })
    }

    /// Receives recipients that may get a message twice.
    pub(crate) fn sink(&self) -> impl FnMut(&PossibleDuplicates) {
        |doubt| self.record(doubt)
    }

    /// Records recipients that may get a message twice.
    pub(crate) fn record(&self, doubt: &PossibleDuplicates) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.recipients.fetch_add(doubt.recipients.len() as u64, Ordering::Relaxed);
        // Counters stay valid after a panic elsewhere. The lock also keeps lines of the file apart.
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = append(&self.path, &lines(doubt), MAX_FILE_SIZE) {
            warn(&mut log, || format!("{}: {error}", self.path.display()));
        }
        for (destination, (count, pid)) in by_destination(doubt) {
            let id = doubt.spool_id;
            warn(&mut log, || {
                format!(
                    "{id}: {} for {destination} left locked by process {pid}, which is gone: tried \
                     again, may be delivered twice",
                    printable::count(count, "recipient")
                )
            });
        }
    }
}

/// Logs a warning as far as the limit allows.
fn warn(limiter: &mut LogLimiter, line: impl FnOnce() -> String) {
    if let Some(more) = limiter.permit(Instant::now()) {
        log::warn!("{}{more}", line());
    }
}

/// Number of recipients of each destination, and the process of the first.
fn by_destination(doubt: &PossibleDuplicates) -> BTreeMap<String, (u64, String)> {
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
        let line = DuplicateRecord {
            time: now.to_string(),
            spool_id: doubt.spool_id.to_string(),
            offset: *offset,
            address: text(address),
            channel: text(channel),
            host: text(host),
            pid,
        };
        // Writing to a Vec cannot fail, and every field is valid JSON.
        write_line(&mut lines, &line).expect("plain values");
    }
    lines
}

/// Appends lines to the file. A file that would become too large is renamed first.
fn append(path: &Path, lines: &[u8], max_size: u64) -> io::Result<()> {
    let mut file = open_to_append(path)?;
    let size = file.metadata()?.len();
    if size > 0 && size + lines.len() as u64 > max_size {
        fs::rename(path, with_suffix(path, ".1"))?;
        file = open_to_append(path)?;
    }
    json_lines::append(&file, lines)
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
        let duplicates = DuplicatesFile::new(folder.path().join("list"));
        duplicates.record(&doubt(b"u\"\xff@a.test"));
        let written = fs::read_to_string(&duplicates.path).expect("written");
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
        let summary = duplicates.summary().expect("there are some");
        assert!(summary.starts_with("2 recipients of 1 message may be delivered twice"));
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
        assert_eq!((size(&path), size(&with_suffix(&path, ".1"))), expected);
        assert_eq!(fs::read_dir(folder.path()).expect("listed").count(), 2);
    }

    #[test]
    fn duplicates_file_symlink_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("list"), folder.path().join("other"));
        std::os::unix::fs::symlink(&other, &path).expect("a link");
        assert!(append(&path, b"x\n", MAX_FILE_SIZE).is_err());
        assert!(!other.exists());
    }
}
