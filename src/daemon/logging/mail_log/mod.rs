//! Lines about mail: of the log, and of the status log (`--status-log`, `docs/status-log.md`).
//!
//! ```text
//!  reader: arrival lines ──► loop: those of new messages ────────────────────────────────► the log
//!  loop: MailLog ──records, in order with other writes──► writer: Composer ──► status log, the log
//!  loop: holds and releases ──────────────────────────────────────────────────► status log
//!  reporter: ReportLines ────────────────────────────────────────────────────► status log, the log
//! ```
//!
//! The addresses are in the control file. So the worker that removes control files composes the
//! lines about recipients, too: the order of its requests ensures that the file is still there. It
//! reads the file only if what the reader has found in it is no longer known ([`message_facts`]).
//! The logs may be on another disk than the spool. Separate workers write them ([`BackgroundLog`]),
//! so that no removal waits for that disk.
//!
//! Lines about mail delay nothing. What waits to be written is limited; lines beyond the limit are
//! lost and counted.

mod arrival;
mod compose;
mod hold;
mod message_facts;
mod report;
mod text;

pub(crate) use arrival::ArrivalLines;
pub(crate) use compose::{Composer, delivery_status, word};
pub(crate) use report::ReportLines;

use clap::ValueEnum;
use log::Level;
use message_facts::SharedFacts;
use serde_json::Value;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zsched_core::overrides::OverrideChange;
use zsched_core::{StatusRecord, StatusVerdict};
use zsched_format::status_log::{DeliveryStatus, TlsLine};
use zsched_format::time::{Timestamp, format_time};
use zsched_service::log_file::LOG_MODE;
use zsched_service::{AppendedFile, BackgroundLog};

/// Maximum size of records that wait for the writer, in bytes.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// Lines about mail that the log has at the default level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MailLines {
    /// None.
    None,
    /// Arrivals of messages, and final outcomes of recipients.
    Final,
    /// Deferrals of recipients, too.
    All,
}

/// The loop's end of the lines about mail.
pub(crate) struct MailLog {
    logs: MailLogs,
    /// Size of records that wait for the writer, in bytes.
    requested: Arc<AtomicUsize>,
    facts: SharedFacts,
}

/// The logs that have lines about mail.
#[derive(Clone)]
pub(crate) struct MailLogs {
    pub(crate) status: Option<BackgroundLog>,
    /// The log; `None` if it has no lines about mail.
    pub(crate) text: Option<BackgroundLog>,
    /// Level of lines about deferrals in the log.
    pub(crate) deferrals: Level,
}

/// Memory that a record takes, in bytes.
pub(crate) fn size(record: &StatusRecord) -> usize {
    let texts = [record.destination.as_bytes(), &record.notary, &record.text];
    let texts: usize = texts.iter().map(|text| text.len()).sum();
    size_of::<StatusRecord>() + texts + size_of_val(&record.offsets[..])
}

impl MailLogs {
    pub(crate) fn new(
        status: Option<BackgroundLog>,
        log: &BackgroundLog,
        lines: MailLines,
    ) -> MailLogs {
        let text = (lines != MailLines::None).then(|| log.clone());
        let deferrals = if lines == MailLines::All { Level::Info } else { Level::Debug };
        MailLogs { status, text, deferrals }
    }

    /// Returns true if any log can have lines about recipients.
    pub(crate) fn are_needed(&self) -> bool {
        self.status.is_some() || self.text.is_some()
    }

    /// The log, if it has lines about recipients with this outcome at its present level.
    fn text_for(&self, verdict: StatusVerdict) -> Option<&BackgroundLog> {
        let is_final = delivery_status(verdict).is_none_or(DeliveryStatus::is_final);
        let level = if is_final { Level::Info } else { self.deferrals };
        self.text.as_ref().filter(|_| level <= log::max_level())
    }
}

impl MailLog {
    pub(crate) fn new(logs: MailLogs) -> MailLog {
        MailLog { logs, requested: Arc::default(), facts: SharedFacts::default() }
    }

    /// Creates the composer for the writer, if it has anything to do.
    pub(crate) fn composer(&self) -> Option<Composer> {
        let composer =
            || Composer::new(self.logs.clone(), self.requested.clone(), self.facts.clone());
        self.logs.are_needed().then(composer)
    }

    /// Creates the composer for the reader.
    pub(crate) fn arrival_lines(&self, former_end: Option<Timestamp>) -> ArrivalLines {
        let facts = self.logs.are_needed().then(|| self.facts.clone());
        ArrivalLines::new(former_end, facts)
    }

    /// Creates the composer for the reporter.
    pub(crate) fn report_lines(&self) -> ReportLines {
        ReportLines::new(self.logs.clone())
    }

    /// Adds lines about holds and releases to the status log.
    pub(crate) fn push_holds(&self, now: Timestamp, changes: &[OverrideChange]) {
        let Some(log) = &self.logs.status else { return };
        let lines = hold::lines(now, changes);
        if !lines.is_empty() {
            log.push(&lines);
        }
    }

    /// Adds the result of a TLS session to the status log.
    ///
    /// Returns false if it is not a JSON object.
    pub(crate) fn push_tls_result(&self, now: Timestamp, json: &[u8]) -> bool {
        let Ok(tls) = serde_json::from_slice::<serde_json::Map<String, Value>>(json) else {
            return false;
        };
        if let Some(log) = &self.logs.status {
            let line = TlsLine { time: format_time(now).into(), tls };
            let mut line = serde_json::to_vec(&line).expect("a JSON object is JSON");
            line.push(b'\n');
            log.push(&line);
        }
        true
    }

    /// Adds lines about arrivals to the log.
    pub(crate) fn push_arrivals(&self, lines: &[u8]) {
        self.logs.text.iter().for_each(|log| log.push(lines));
    }

    /// Returns true if a record is wanted and has room. It must go to the writer then.
    ///
    /// If it only lacks room its lines are counted as lost.
    pub(crate) fn admits(&self, record: &StatusRecord) -> bool {
        let of_log = self.logs.text_for(record.verdict);
        if self.logs.status.is_none() && of_log.is_none() {
            return false;
        }
        let size = size(record);
        let has_room = self.requested.load(Ordering::Relaxed) + size <= MAX_WAITING_BYTES;
        if has_room {
            self.requested.fetch_add(size, Ordering::Relaxed);
        } else {
            let count = record.offsets.len() as u64;
            self.logs.status.iter().chain(of_log).for_each(|log| log.add_lost(count));
        }
        has_room
    }
}

/// Opens a status log for appending.
pub(crate) fn open_status_log(path: &Path) -> io::Result<AppendedFile> {
    AppendedFile::open(path, "status log", LOG_MODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::tests::memory_log;

    #[test]
    fn records_beyond_limit_are_lost_and_counted_in_each_log() {
        log::set_max_level(log::LevelFilter::Info);
        let ((status, of_status), (text, of_text)) = (memory_log(), memory_log());
        let logs = MailLogs::new(Some(status), &text, MailLines::Final);
        let log = MailLog::new(logs);
        let record = compose::tests::record(&[100, 200]);
        assert!(log.admits(&record));
        log.requested.store(MAX_WAITING_BYTES, Ordering::Relaxed);
        assert!(!log.admits(&record));
        assert_eq!((of_status().1, of_text().1), (2, 2));
        // The log has no lines about deferrals at this level.
        let deferred = StatusRecord { verdict: StatusVerdict::Unreported, ..record };
        assert!(!log.admits(&deferred));
        assert_eq!((of_status().1, of_text().1), (2, 0));
    }

    #[test]
    fn mail_lines_depend_on_setting() {
        log::set_max_level(log::LevelFilter::Info);
        for (lines, wants) in [
            (MailLines::None, [false, false]),
            (MailLines::Final, [true, false]),
            (MailLines::All, [true, true]),
        ] {
            let log = MailLog::new(MailLogs::new(None, &memory_log().0, lines));
            let found = [StatusVerdict::Expired, StatusVerdict::Unreported].map(|verdict| {
                let record = StatusRecord { verdict, ..compose::tests::record(&[100]) };
                log.admits(&record)
            });
            assert_eq!((found, log.composer().is_some()), (wants, wants[0]), "{lines:?}");
        }
    }
}
