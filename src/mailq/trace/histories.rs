//! Histories of messages, built from the log and the spool.

use super::holds::{HeldMessage, HoldLines};
use super::log_files::LogLine;
use super::subject::TraceSubject;
use crate::message::envelope::QueuedRecipient;
use crate::screen::warn;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use zsched_format::status_log::{HoldLine, ReportLine, SmtpLine, StatusLine};
use zsched_mailq_protocol::schema::WaitLine;
use zsched_spool::{Spool, find_submission};

/// Maximum size of the log entries that are kept, in bytes of memory.
const MAX_KEPT_BYTES: usize = 16 << 20;
/// Maximum number of matches whose waits are explained.
///
/// A match is a message and one of its destinations. An explanation takes a second reading of the
/// log.
const MAX_EXPLAINED_MATCHES: usize = 1000;
/// Maximum number of messages of the spool that are kept.
const MAX_SPOOL_MESSAGES: usize = 1000;
/// Maximum number of reports that are kept.
const MAX_REPORTS: usize = 1000;

/// History of a message, or of some of its recipients.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct History {
    /// Spool id.
    pub spool_id: String,
    /// Message-ID, if it has one.
    pub message_id: Option<String>,
    /// Sender.
    pub sender: Option<String>,
    /// Arrival, in milliseconds since the epoch.
    #[serde(skip)]
    pub arrived: Option<i64>,
    /// Recipients in the spool; none if the message is not there.
    pub queued: Vec<QueuedRecipient>,
    /// Attempts at delivery.
    pub attempts: Vec<StatusLine<'static>>,
    /// Attempts at other messages that made this one wait.
    ///
    /// They concerned the host as a whole.
    pub put_off: Vec<StatusLine<'static>>,
    /// Holds and releases of this message or of its destinations.
    pub holds: Vec<HoldLine<'static>>,
    /// Reports about this message; or, if it is a report itself, what it is about.
    pub reports: Vec<ReportLine<'static>>,
    /// How it came, if it came by SMTP.
    pub smtp: Option<SmtpLine<'static>>,
    /// State in the scheduler.
    pub next: NextStep,
}

/// State of a message in the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum NextStep {
    /// The scheduler could not be asked.
    #[default]
    Unknown,
    /// The message is not, or no longer, in its queue.
    NotQueued,
    /// The router has not taken the message yet.
    WaitsForRouter,
    /// What the message waits for, one sentence per destination.
    Waits(Vec<String>),
}

impl History {
    /// Returns true if nothing is known of the message.
    pub(super) fn is_empty(&self) -> bool {
        let is_queued = matches!(self.next, NextStep::Waits(_) | NextStep::WaitsForRouter);
        let is_traced =
            !(self.attempts.is_empty() && self.reports.is_empty()) || self.smtp.is_some();
        !is_traced && self.queued.is_empty() && !is_queued
    }

    /// Finds out if a message that is not queued waits for the router.
    pub(super) fn look_in_router(&mut self, spool: &Spool) {
        let is_queued = matches!(self.next, NextStep::Waits(_)) || !self.queued.is_empty();
        if !is_queued && matches!(find_submission(spool, &self.spool_id), Ok(Some(_))) {
            self.next = NextStep::WaitsForRouter;
        }
    }

    /// Adds what the scheduler says about the destinations of this history.
    ///
    /// If no destination is known, it adds all. While mail is on hold, others do not put it off.
    pub(super) fn add_waits(&mut self, mut waits: Vec<WaitLine>) {
        let ours = self.destinations();
        if !ours.is_empty() {
            // What concerns the message as a whole has no destination.
            waits.retain(|wait| wait.channel.is_empty() || ours.contains(&destination_of(wait)));
        }
        for wait in &waits {
            let Some(hold) = &wait.wait.held_by else { continue };
            let is_before = |entry: &StatusLine<'_>| {
                let time: Option<jiff::Timestamp> = entry.time.parse().ok();
                time.is_none_or(|time| (time.as_millisecond() as f64) < hold.since * 1000.0)
            };
            let on_hold = destination_of(wait);
            self.put_off.retain(|entry| destination(entry) != on_hold || is_before(entry));
        }
        let sentences = waits.into_iter().filter_map(|wait| wait.wait.sentence);
        self.next = NextStep::Waits(sentences.collect());
    }

    /// Destinations of its recipients.
    fn destinations(&self) -> HashSet<(String, String)> {
        let tried = self.attempts.iter().map(destination);
        let queued = self.queued.iter().map(|q| (q.channel.clone(), q.host.clone()));
        tried.chain(queued).collect()
    }

    /// Time of its last log line; `None` while it is in the spool.
    ///
    /// It has the form of the log.
    fn end(&self) -> Option<&str> {
        if !self.queued.is_empty() {
            return None;
        }
        self.attempts.iter().map(|entry| &*entry.time).max()
    }
}

/// Channel and host of what waits.
fn destination_of(wait: &WaitLine) -> (String, String) {
    (wait.channel.clone(), wait.host.clone())
}

/// Channel and host of an attempt.
fn destination(entry: &StatusLine<'_>) -> (String, String) {
    (entry.channel.to_string(), entry.host.to_string())
}

/// Log lines that match. The oldest are dropped to make room.
#[derive(Default)]
struct KeptEntries {
    entries: VecDeque<(usize, StatusLine<'static>)>,
    bytes: usize,
    dropped: u64,
}

impl KeptEntries {
    fn push(&mut self, entry: StatusLine<'_>) {
        let texts = [&entry.text, &entry.channel, &entry.host, &entry.spool_id, &entry.time];
        let optional = [&entry.message_id, &entry.sender, &entry.recipient, &entry.reply];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let optional: usize = optional.iter().flat_map(|text| text.iter()).map(|t| t.len()).sum();
        let size = size_of::<StatusLine<'_>>() + texts + optional;
        self.bytes += size;
        self.entries.push_back((size, entry.into_owned()));
        while self.bytes > MAX_KEPT_BYTES
            && let Some((size, _)) = self.entries.pop_front()
        {
            self.bytes -= size;
            self.dropped += 1;
        }
    }
}

/// Values of a limited number. Further ones are only counted.
pub(super) struct Limited<T> {
    /// The first values.
    pub kept: Vec<T>,
    /// Maximum number of values.
    max: usize,
    /// Number of values beyond it.
    pub dropped: u64,
}

impl<T> Limited<T> {
    /// Keeps up to `max` values.
    pub(super) fn new(max: usize) -> Limited<T> {
        Limited { kept: Vec::new(), max, dropped: 0 }
    }

    /// Adds a value, if there is room. Returns its index.
    pub(super) fn push(&mut self, value: impl FnOnce() -> T) -> Option<usize> {
        if self.kept.len() == self.max {
            self.dropped += 1;
            return None;
        }
        self.kept.push(value());
        Some(self.kept.len() - 1)
    }
}

/// A search for the histories of a subject.
pub(super) struct HistorySearch {
    /// Subject of the search.
    pub subject: TraceSubject,
    queued: Limited<History>,
    kept: KeptEntries,
    /// Log lines about hosts as a whole.
    others: KeptEntries,
    /// Reports about messages that match, and those that are such messages.
    reports: Limited<ReportLine<'static>>,
    holds: HoldLines,
    /// Stays of messages that match, by destination and spool id.
    ///
    /// They are filled once it is known what matches.
    stays: HashMap<(String, String), HashMap<String, QueueStay>>,
}

/// Time of a message in the queue.
struct QueueStay {
    arrived: Option<i64>,
    /// In the form of the log; `None` if it is still there.
    end: Option<String>,
}

impl QueueStay {
    /// Returns true if a log line was written during the stay.
    fn has(&self, entry: &StatusLine<'_>) -> bool {
        let is_after = || {
            let time: Option<jiff::Timestamp> = entry.time.parse().ok();
            time.zip(self.arrived).is_some_and(|(time, arrived)| time.as_millisecond() >= arrived)
        };
        self.end.as_ref().is_none_or(|end| *entry.time <= **end) && is_after()
    }
}

impl HistorySearch {
    /// Creates an empty search.
    pub(super) fn about(subject: TraceSubject) -> HistorySearch {
        HistorySearch {
            subject,
            queued: Limited::new(MAX_SPOOL_MESSAGES),
            kept: KeptEntries::default(),
            others: KeptEntries::default(),
            reports: Limited::new(MAX_REPORTS),
            holds: HoldLines::new(),
            stays: HashMap::new(),
        }
    }

    /// Spool id, if the subject is one.
    pub(super) fn spool_id(&self) -> Option<&str> {
        match &self.subject {
            TraceSubject::SpoolId(id) => Some(id),
            _ => None,
        }
    }

    /// Adds a message of the spool.
    pub(super) fn add_spool_message(&mut self, history: History) {
        self.queued.push(|| history);
    }

    /// Adds a log line, if it matches.
    pub(super) fn take(&mut self, line: LogLine<'_>) {
        match line {
            LogLine::Status(entry) if self.subject.matches_entry(&entry) => self.kept.push(entry),
            LogLine::Report(report) if self.subject.matches_report(&report) => {
                self.reports.push(|| report.into_owned());
            }
            LogLine::Hold(hold) => self.holds.add(hold),
            LogLine::Status(_) | LogLine::Report(_) | LogLine::Smtp(_) => {}
        }
    }

    /// Computes the stays of the messages that match.
    ///
    /// Returns true if a second reading of the log, by
    /// [`take_in_second_pass`](HistorySearch::take_in_second_pass), can find more. It returns false
    /// if nothing or very much matches.
    pub(super) fn needs_second_pass(&mut self) -> bool {
        let in_log = self.kept.entries.iter().map(|(_, entry)| {
            let stay = QueueStay { arrived: entry.arrived_at(), end: Some(entry.time.to_string()) };
            (destination(entry), entry.spool_id.to_string(), stay)
        });
        let in_spool = self.queued.kept.iter().flat_map(|history| {
            history.destinations().into_iter().map(|destination| {
                (
                    destination,
                    history.spool_id.clone(),
                    QueueStay { arrived: history.arrived, end: None },
                )
            })
        });
        let mut count = 0;
        for (destination, spool_id, stay) in in_log.chain(in_spool) {
            let stays = self.stays.entry(destination).or_default();
            // The last line has the end of the stay.
            count += usize::from(stays.insert(spool_id, stay).is_none());
        }
        (1..=MAX_EXPLAINED_MATCHES).contains(&count)
    }

    /// Adds a log line about another message.
    ///
    /// It made one of ours wait, or is a report about it.
    pub(super) fn take_in_second_pass(&mut self, line: LogLine<'_>) {
        match line {
            LogLine::Status(entry) => self.add_host_entry(entry),
            // The first reading has added the others.
            LogLine::Report(report) if !self.subject.matches_report(&report) => {
                let mut stays = self.stays.values();
                let ids = [&report.spool_id, &report.report_id];
                if stays.any(|stays| ids.iter().any(|id| stays.contains_key(&***id))) {
                    self.reports.push(|| report.into_owned());
                }
            }
            LogLine::Report(_) | LogLine::Hold(_) | LogLine::Smtp(_) => {}
        }
    }

    fn add_host_entry(&mut self, entry: StatusLine<'_>) {
        if entry.others == 0 {
            return;
        }
        let mut stays = self.stays.get(&destination(&entry)).into_iter().flatten();
        if stays.any(|(spool_id, stay)| **spool_id != *entry.spool_id && stay.has(&entry)) {
            self.others.push(entry);
        }
    }

    /// Returns all histories, message by message.
    pub(super) fn finish(&mut self) -> Vec<History> {
        let entries = std::mem::take(&mut self.kept.entries);
        let mut histories = join(std::mem::take(&mut self.queued.kept), entries);
        self.add_reported(&mut histories);
        for history in &mut histories {
            let is_of = |report: &&ReportLine<'_>| {
                [&report.spool_id, &report.report_id].iter().any(|id| ***id == *history.spool_id)
            };
            history.reports = self.reports.kept.iter().filter(is_of).cloned().collect();
            let destinations = history.destinations();
            let end = history.end().map(str::to_string);
            history.holds = self.holds.of(&HeldMessage {
                spool_id: &history.spool_id,
                destinations: &destinations,
                arrived: history.arrived,
                end: end.as_deref(),
            });
            let stay = QueueStay { arrived: history.arrived, end };
            let others = self.others.entries.iter().map(|(_, entry)| entry);
            let ours = others.filter(|entry| {
                let is_other = *entry.spool_id != *history.spool_id;
                is_other && destinations.contains(&destination(entry)) && stay.has(entry)
            });
            history.put_off = ours.cloned().collect();
        }
        histories
    }

    /// Adds messages that match, and of which only lines about reports are left.
    fn add_reported(&self, histories: &mut Vec<History>) {
        for report in &self.reports.kept {
            let message_id = report.message_id.as_deref();
            for (id, message_id) in [(&report.spool_id, message_id), (&report.report_id, None)] {
                let is_known = histories.iter().any(|history| history.spool_id == **id);
                if !is_known && self.subject.matches_message(id, message_id) {
                    let message_id = message_id.map(str::to_string);
                    let spool_id = id.to_string();
                    histories.push(History { spool_id, message_id, ..History::default() });
                }
            }
        }
    }

    /// Warns about what was left out.
    pub(super) fn warn(&self) {
        for (dropped, what) in [
            (self.kept.dropped + self.others.dropped, "oldest matching lines"),
            (self.reports.dropped, "last matching reports"),
            (self.holds.lines.dropped, "last lines about holds"),
            (self.queued.dropped, "last matching messages in the spool"),
        ] {
            if dropped > 0 {
                warn(format_args!("the {dropped} {what} are left out"));
            }
        }
    }
}

/// Histories in the order of the log, then those of the spool only.
fn join(queued: Vec<History>, entries: VecDeque<(usize, StatusLine<'static>)>) -> Vec<History> {
    let mut histories: Vec<History> = Vec::new();
    let mut by_id: HashMap<String, usize> = HashMap::new();
    for (_, entry) in entries {
        let index = *by_id.entry(entry.spool_id.to_string()).or_insert_with(|| {
            let spool_id = entry.spool_id.to_string();
            histories.push(History { spool_id, ..History::default() });
            histories.len() - 1
        });
        let history = &mut histories[index];
        // A line lacks these if the control file could not be read when it was written.
        let text = |value: &Option<Cow<'_, str>>| value.as_ref().map(Cow::to_string);
        history.message_id = history.message_id.take().or_else(|| text(&entry.message_id));
        history.sender = history.sender.take().or_else(|| text(&entry.sender));
        history.arrived = history.arrived.or_else(|| entry.arrived_at());
        history.attempts.push(entry);
    }
    for found in queued {
        match by_id.get(&found.spool_id) {
            Some(index) => {
                let attempts = std::mem::take(&mut histories[*index].attempts);
                histories[*index] = History { attempts, ..found };
            }
            None => histories.push(found),
        }
    }
    histories
}
