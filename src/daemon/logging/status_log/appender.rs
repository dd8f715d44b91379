//! Worker that appends lines to the status log.

use super::StatusLogState;
use crate::logging::appended_file::AppendedFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use zsched_format::status_log::LostLines;
use zsched_format::time::{Timestamp, format_time};

/// Maximum number of bytes written at a time, approximately.
const MAX_WRITE_SIZE: usize = 256 << 10;

/// State of the worker.
pub(super) struct Appender {
    pub(super) file: AppendedFile,
    pub(super) shared: Arc<StatusLogState>,
}

impl Appender {
    /// Appends lines as they come, until all senders are gone.
    pub(super) fn run(&mut self, lines: &Receiver<Vec<u8>>) {
        while let Ok(mut portion) = lines.recv() {
            while portion.len() < MAX_WRITE_SIZE
                && let Ok(more) = lines.try_recv()
            {
                portion.extend_from_slice(&more);
            }
            self.shared.composed.fetch_sub(portion.len(), Ordering::Relaxed);
            let checks_rotation = self.shared.check_rotation.swap(false, Ordering::Acquire);
            if self.shared.reopen.swap(false, Ordering::Acquire) {
                self.file.reopen(false);
            } else if checks_rotation {
                self.file.reopen(true);
            }
            self.append(&portion);
        }
        // Reports lines lost last.
        self.append(&[]);
    }

    /// Appends a portion, preceded by a line about lost lines if there are any.
    fn append(&mut self, portion: &[u8]) {
        self.file.lost += self.shared.lost.swap(0, Ordering::Relaxed);
        if self.file.lost == 0 && portion.is_empty() {
            return;
        }
        self.file.append(portion, |lost| {
            let gap = LostLines { time: format_time(Timestamp::now()).into(), lost };
            let mut line = serde_json::to_vec(&gap).expect("a number and a text are JSON");
            line.push(b'\n');
            line
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_WAITING_BYTES, StatusLog, open};
    use super::*;
    use std::sync::mpsc::channel;

    fn line(text: &str) -> Vec<u8> {
        format!("{text}\n").into_bytes()
    }

    /// Appends portions to a file. Returns the unreported number of lost lines.
    fn append(path: &std::path::Path, portions: Vec<Vec<u8>>, lost: u64) -> u64 {
        let shared = Arc::new(StatusLogState::default());
        shared.lost.store(lost, Ordering::Relaxed);
        let (sender, receiver) = channel();
        for portion in portions {
            shared.composed.fetch_add(portion.len(), Ordering::Relaxed);
            sender.send(portion).expect("it is heard");
        }
        drop(sender);
        let file = open(path).expect("opened");
        let mut appender = Appender { file, shared: shared.clone() };
        appender.run(&receiver);
        assert_eq!(shared.composed.load(Ordering::Relaxed), 0);
        assert_eq!(shared.lost.load(Ordering::Relaxed), 0);
        appender.file.lost
    }

    #[test]
    fn status_lines_lost_are_reported_in_a_gap_line() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log");
        assert_eq!(append(&path, vec![line("a"), line("b")], 0), 0);
        assert_eq!(append(&path, vec![line("c")], 7), 0);
        assert_eq!(append(&path, vec![], 2), 0, "also at the end");
        let written = std::fs::read_to_string(&path).expect("written");
        let lines: Vec<&str> = written.lines().collect();
        assert_eq!((&lines[..2], lines[3]), (&["a", "b"][..], "c"));
        for (line, lost) in [(lines[2], 7), (lines[4], 2)] {
            let gap: LostLines<'_> = serde_json::from_str(line).expect("a line about a gap");
            assert_eq!(gap.lost, lost);
        }
    }

    #[test]
    fn status_lines_lost_on_full_disk_are_counted() {
        let full = std::path::Path::new("/dev/full");
        assert_eq!(append(full, vec![line("a"), line("b")], 3), 5);
    }

    #[test]
    fn status_requests_beyond_limit_are_lost_and_counted() {
        let shared = Arc::new(StatusLogState::default());
        shared.requested.store(MAX_WAITING_BYTES, Ordering::Relaxed);
        let log = StatusLog {
            shared: shared.clone(),
            lines: channel().0,
            appender: std::thread::spawn(|| ()),
            max_end_wait: Default::default(),
        };
        let record = super::super::compose::tests::record(&[100, 200]);
        assert!(!log.admits(&record));
        assert_eq!(shared.lost.load(Ordering::Relaxed), 2);
        shared.requested.store(0, Ordering::Relaxed);
        assert!(log.admits(&record));
    }
}
