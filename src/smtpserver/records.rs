//! Writes the status log and the file with the counters, in a worker.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;
use zsched_format::status_log::LostLines;
use zsched_format::time::{Timestamp, format_time};
use zsched_sys as sys;

/// Mode of new files. They are not readable by all: they have addresses and logins.
const MODE: u32 = 0o640;
/// Maximum number of records that wait for the worker.
const MAX_WAITING: usize = 10_000;
/// Maximum number of bytes of the status log that are written at once.
const MAX_BATCH: usize = 256 << 10;

enum Record {
    /// A line of the status log.
    Line(Vec<u8>),
    /// The text of the file with the counters.
    Traffic(Vec<u8>),
}

/// Hands records to the worker. Dropping it ends the worker after the last record.
pub(crate) struct Recorder {
    sender: Option<SyncSender<Record>>,
    worker: Option<JoinHandle<()>>,
    /// Lines that the worker had no room for, and that are not reported as missing.
    lost: u64,
    has_status_log: bool,
}

impl Recorder {
    /// Starts the worker.
    pub(crate) fn start(files: RecordFiles) -> io::Result<Recorder> {
        let has_status_log = files.log.is_some();
        let (sender, records) = sync_channel(MAX_WAITING);
        let work = move || files.work(&records);
        let worker = std::thread::Builder::new().name("records".into()).spawn(work)?;
        Ok(Recorder { sender: Some(sender), worker: Some(worker), lost: 0, has_status_log })
    }

    /// True if lines are of use.
    pub(crate) fn has_status_log(&self) -> bool {
        self.has_status_log
    }

    /// Hands over a line, with its line end.
    pub(crate) fn push_line(&mut self, line: Vec<u8>) {
        if self.lost > 0 {
            let time = format_time(Timestamp::from(SystemTime::now()));
            let lost = LostLines { time: time.into(), lost: self.lost };
            if !self.send(Record::Line(json_line(&lost))) {
                self.lost += 1;
                return;
            }
            self.lost = 0;
        }
        if !self.send(Record::Line(line)) {
            self.lost += 1;
        }
    }

    /// Hands over the counters. They may be skipped: others follow.
    pub(crate) fn write_traffic(&mut self, text: Vec<u8>) {
        self.send(Record::Traffic(text));
    }

    fn send(&mut self, record: Record) -> bool {
        let Some(sender) = &self.sender else { return false };
        !matches!(sender.try_send(record), Err(TrySendError::Full(_)))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(worker) = self.worker.take() {
            worker.join().ok();
        }
    }
}

/// A line of the status log.
pub(crate) fn json_line(line: &impl serde::Serialize) -> Vec<u8> {
    // Texts and numbers can always be written.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// The open files.
pub(crate) struct RecordFiles {
    traffic: File,
    log: Option<StatusLog>,
}

impl RecordFiles {
    /// Opens the files.
    pub(crate) fn open(traffic: &Path, status_log: Option<&Path>) -> io::Result<RecordFiles> {
        let named = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(MODE);
        let file = sys::open_regular(&mut options, traffic);
        let open = |path: &Path| StatusLog::open(path).map_err(|error| named(path, error));
        Ok(RecordFiles {
            traffic: file.map_err(|error| named(traffic, error))?,
            log: status_log.map(open).transpose()?,
        })
    }

    fn work(mut self, records: &Receiver<Record>) {
        while let Ok(first) = records.recv() {
            let (mut lines, mut traffic) = (Vec::new(), None);
            let mut next = Some(first);
            while let Some(record) = next {
                match record {
                    Record::Line(line) => lines.extend_from_slice(&line),
                    Record::Traffic(text) => traffic = Some(text),
                }
                next = if lines.len() < MAX_BATCH { records.try_recv().ok() } else { None };
            }
            if let Some(log) = &mut self.log
                && !lines.is_empty()
            {
                log.write(&lines);
            }
            if let Some(text) = traffic
                && let Err(error) = self.write_traffic(&text)
            {
                log::error!("the counters cannot be written: {error}");
            }
        }
    }

    /// Readers of a file that is being written find no JSON, and read it again.
    fn write_traffic(&self, text: &[u8]) -> io::Result<()> {
        self.traffic.write_all_at(text, 0)?;
        self.traffic.set_len(text.len() as u64)
    }
}

struct StatusLog {
    path: PathBuf,
    file: File,
    has_failed: bool,
}

impl StatusLog {
    fn open(path: &Path) -> io::Result<StatusLog> {
        let file = open_log(path)?;
        Ok(StatusLog { path: path.to_path_buf(), file, has_failed: false })
    }

    /// Writes lines. The file is opened again after it was renamed.
    fn write(&mut self, lines: &[u8]) {
        let written = self.reopen_if_renamed().and_then(|()| self.file.write_all(lines));
        match &written {
            Err(error) if !self.has_failed => {
                log::error!("{}: lines are lost: {error}", self.path.display());
            }
            Ok(()) if self.has_failed => log::info!("{}: written again", self.path.display()),
            _ => {}
        }
        self.has_failed = written.is_err();
    }

    fn reopen_if_renamed(&mut self) -> io::Result<()> {
        if !sys::leads_to(&self.path, &self.file).unwrap_or(false) {
            self.file = open_log(&self.path)?;
        }
        Ok(())
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}
