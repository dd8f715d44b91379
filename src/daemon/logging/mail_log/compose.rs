//! Composes lines about recipients.

use super::message_facts::{MessageFacts, SharedFacts};
use super::text::{push_address, push_all, push_seconds, push_text, push_value};
use super::{MailLogs, size};
use crate::logging::Stamp;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zsched_core::{StatusRecord, StatusVerdict};
use zsched_format::agent_protocol::ReportStatus as Word;
use zsched_format::control_file::Tag;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;
use zsched_format::status_code::enhanced_code;
use zsched_format::status_log::{DeliveryStatus, StatusDelays, StatusLine, seconds};
use zsched_format::time::format_time;
use zsched_spool::{OpenSpool, SpoolId, SpoolName};

/// Size of composed lines at which they are passed on, in bytes.
const FLUSH_SIZE: usize = 64 << 10;

/// Composer of lines about recipients, owned by the writer.
pub(crate) struct Composer {
    /// Size of records that wait for the writer, in bytes.
    requested: Arc<AtomicUsize>,
    lines: RecipientLines,
    facts: SharedFacts,
}

impl Composer {
    pub(super) fn new(logs: MailLogs, requested: Arc<AtomicUsize>, facts: SharedFacts) -> Composer {
        Composer { requested, lines: RecipientLines::new(logs), facts }
    }

    /// Composes the lines of a record. They lack addresses if the spool cannot be opened.
    pub(crate) fn add(&mut self, spool: Option<&OpenSpool>, record: &StatusRecord) {
        let message = (&record.name, record.modified);
        self.facts.with(spool, message, &record.offsets, |facts| {
            let mut known = spool.zip(facts);
            let common = CommonFields::of(record);
            for offset in &record.offsets {
                let known = known.as_mut().map(|(spool, facts)| (*spool, &mut **facts));
                self.lines.push(&common, &Outcome::new(record, known, *offset));
            }
        });
        self.requested.fetch_sub(size(record), Ordering::Relaxed);
    }

    /// Passes the composed lines on.
    pub(crate) fn flush(&mut self) {
        self.lines.flush();
    }

    /// Drops what is known of a message that is about to leave the spool.
    pub(crate) fn forget(&self, name: &SpoolName) {
        self.facts.lock().remove(name.number());
    }
}

/// Composed lines about recipients, for both logs.
pub(super) struct RecipientLines {
    logs: MailLogs,
    /// Complete lines of the status log.
    status: Vec<u8>,
    /// Complete lines of the log.
    text: Vec<u8>,
    stamp: Stamp,
}

impl RecipientLines {
    pub(super) fn new(logs: MailLogs) -> RecipientLines {
        RecipientLines { logs, status: Vec::new(), text: Vec::new(), stamp: Stamp::default() }
    }

    /// Adds the lines about one recipient.
    pub(super) fn push(&mut self, common: &CommonFields<'_>, outcome: &Outcome<'_>) {
        if self.logs.status.is_some() {
            common.write_status_line(outcome, &mut self.status);
        }
        if self.logs.text_for(common.record.verdict).is_some() {
            let stamp = self.stamp.of(common.record.time);
            common.write_text_line(stamp, outcome, &mut self.text);
        }
        if self.status.len().max(self.text.len()) >= FLUSH_SIZE {
            self.flush();
        }
    }

    /// Passes the lines on.
    pub(super) fn flush(&mut self) {
        let RecipientLines { logs, status, text, .. } = self;
        for (log, lines) in [(&logs.status, status), (&logs.text, text)] {
            if !lines.is_empty() {
                log.iter().for_each(|log| log.push(lines));
                lines.clear();
            }
        }
    }
}

/// Fields common to all lines of a record.
pub(super) struct CommonFields<'r> {
    record: &'r StatusRecord,
    spool_id: String,
    delay: f64,
    delays: StatusDelays,
}

impl<'r> CommonFields<'r> {
    pub(super) fn of(record: &'r StatusRecord) -> CommonFields<'r> {
        let StatusRecord { time, modified, created, attempt, .. } = *record;
        let queued_until = attempt.map_or(time, |attempt| attempt.began);
        let delays = StatusDelays {
            router: seconds(modified, created),
            queue: seconds(created, queued_until),
            attempt: attempt.map(|attempt| seconds(attempt.began, time)),
        };
        CommonFields {
            record,
            spool_id: SpoolId { number: record.name.number(), modified }.to_string(),
            delay: seconds(modified, time),
            delays,
        }
    }

    fn write_status_line(&self, outcome: &Outcome<'_>, out: &mut Vec<u8>) {
        let record = self.record;
        let entry = StatusLine {
            time: format_time(record.time).into(),
            spool_id: (&self.spool_id).into(),
            message_id: outcome.message_id.map(Cow::Borrowed),
            sender: outcome.sender.map(String::from_utf8_lossy),
            recipient: outcome.recipient.map(String::from_utf8_lossy),
            channel: String::from_utf8_lossy(record.destination.channel()),
            host: String::from_utf8_lossy(record.destination.host()),
            agent: record.attempt.and_then(|attempt| attempt.pid),
            status: outcome.status,
            report: word(record.verdict).map(Cow::Borrowed),
            code: outcome.code(&record.text).map(Cow::Borrowed),
            reply: outcome.notary_field(3).map(String::from_utf8_lossy),
            remote: outcome.notary_field(4).map(String::from_utf8_lossy),
            text: String::from_utf8_lossy(&record.text),
            others: record.others,
            delay: self.delay,
            delays: self.delays,
        };
        serde_json::to_writer(&mut *out, &entry).expect("texts and numbers are JSON");
        out.push(b'\n');
    }

    fn write_text_line(&self, stamp: &str, outcome: &Outcome<'_>, out: &mut Vec<u8>) {
        let record = self.record;
        push_all(out, &[stamp, " ", &self.spool_id, ": to="]);
        push_address(out, outcome.recipient);
        push_all(out, &[", destination="]);
        push_value(out, Some(record.destination.channel()));
        out.push(b'/');
        push_value(out, Some(record.destination.host()));
        push_all(out, &[", relay="]);
        let relay = outcome.notary_field(4);
        push_value(out, relay.map(|relay| relay.strip_prefix(b"dns; ").unwrap_or(relay)));
        let StatusDelays { router, queue, attempt } = self.delays;
        let delays = [
            (", delay=", self.delay),
            (", delays=", router),
            ("/", queue),
            ("/", attempt.unwrap_or_default()),
        ];
        for (name, seconds) in delays {
            push_all(out, &[name]);
            push_seconds(out, seconds);
        }
        let code = outcome.code(&record.text).unwrap_or("none");
        push_all(out, &[", dsn=", code, ", status=", outcome.status.word()]);
        push_text(out, &record.text);
        out.push(b'\n');
    }
}

/// What is known about one recipient.
pub(super) struct Outcome<'k> {
    pub(super) status: DeliveryStatus,
    pub(super) message_id: Option<&'k str>,
    pub(super) sender: Option<&'k [u8]>,
    pub(super) recipient: Option<&'k [u8]>,
    pub(super) notary: Cow<'k, [u8]>,
}

impl<'k> Outcome<'k> {
    fn new(
        record: &'k StatusRecord,
        known: Option<(&OpenSpool, &'k mut MessageFacts)>,
        offset: u32,
    ) -> Outcome<'k> {
        let status = delivery_status(record.verdict).unwrap_or_else(|| {
            match known.as_ref().and_then(|(spool, known)| known.tag(spool, offset).ok()) {
                Some(Tag::Failed) => DeliveryStatus::Failed,
                _ => DeliveryStatus::Delivered,
            }
        });
        let mut notary = Cow::Borrowed(&record.notary[..]);
        let (mut sender, mut recipient, mut message_id) = (None, None, None);
        if let Some((spool, known)) = known {
            if has_note_on_disk(record) || record.verdict == StatusVerdict::FinishedElsewhere {
                let note = known.note(spool, offset);
                notary = Cow::Owned(note.unwrap_or_default().to_vec());
            }
            let known = &*known;
            (sender, recipient) = known.addresses(offset);
            message_id = known.message_id();
        }
        Outcome { status, message_id, sender, recipient, notary }
    }

    /// A field of the notary data, unless it is empty.
    fn notary_field(&self, index: usize) -> Option<&[u8]> {
        let mut fields = self.notary.split(|byte| *byte == NOTARY_SEPARATOR);
        fields.nth(index).filter(|field| !field.is_empty())
    }

    fn code<'t>(&'t self, text: &'t [u8]) -> Option<&'t str> {
        code(self.status, &self.notary, text)
    }
}

/// Returns true if the agent has written the notary data into the control file.
fn has_note_on_disk(record: &StatusRecord) -> bool {
    matches!(record.verdict, StatusVerdict::Report(Word::Ok2 | Word::Error2))
        && record.notary.is_empty()
}

/// Result for recipients; `None` if only the control file has it.
pub(crate) fn delivery_status(verdict: StatusVerdict) -> Option<DeliveryStatus> {
    Some(match verdict {
        StatusVerdict::Report(Word::Ok | Word::Ok2 | Word::Ok3) => DeliveryStatus::Delivered,
        StatusVerdict::Report(Word::Error | Word::Error2) => DeliveryStatus::Failed,
        StatusVerdict::Report(_) | StatusVerdict::Unreported => DeliveryStatus::Deferred,
        StatusVerdict::Expired => DeliveryStatus::Expired,
        StatusVerdict::Deleted => DeliveryStatus::Deleted,
        StatusVerdict::Rerouted => DeliveryStatus::Rerouted,
        StatusVerdict::FinishedElsewhere => return None,
    })
}

/// Status word of the agent's report, if there was one.
pub(crate) fn word(verdict: StatusVerdict) -> Option<&'static str> {
    match verdict {
        StatusVerdict::Report(word) => Some(word.word()),
        _ => None,
    }
}

/// Status code from the notary data, else from the text of the report.
///
/// Of the notary data it takes the status field, or the answer of the remote system.
fn code<'t>(status: DeliveryStatus, notary: &'t [u8], text: &'t [u8]) -> Option<&'t str> {
    let classes: &[u8] = match status {
        DeliveryStatus::Delivered => b"2",
        _ => b"45",
    };
    let fields = notary.split(|byte| *byte == NOTARY_SEPARATOR).skip(2).take(2);
    fields.chain([text]).find_map(|text| enhanced_code(text, classes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::logging::mail_log::{MailLines, MailLog};
    use crate::logging::tests::memory_log;
    use expect_test::{Expect, expect};
    use std::time::Duration;
    use zsched_core::{Attempt, Destination};
    use zsched_format::time::Timestamp;
    use zsched_spool::{HashFolder, Spool};

    const CONTROL: &[u8] = b"@ 0x00000007\ni 4711\no 5\nl <1@x>\ns local - alice@x 0\n\
        r           smtp h bob@h 0\nr-          smtp h \xff@h 0\nm\nSubject: x\n\n\
        d 79:1:2::3\tb\x01failed\x015.1.1\x01smtp; 550 (no)\x01dns; mx.h (192.0.2.1)\tno\n";

    const CAME: Timestamp = Timestamp::from_parts(1_795_255_449, 852_000_000);

    pub(crate) fn record(offsets: &[u32]) -> StatusRecord {
        let created = CAME + Duration::from_millis(148);
        let began = created + Duration::from_secs(30);
        StatusRecord {
            time: began + Duration::from_millis(1500),
            name: SpoolName::new(HashFolder::TOP, b"4711").expect("a name"),
            modified: CAME,
            created,
            destination: Destination::new(b"smtp", b"h"),
            offsets: offsets.into(),
            verdict: StatusVerdict::Report(Word::Ok3),
            attempt: Some(Attempt { pid: Some(812), began }),
            others: 0,
            notary: b"bob@h\x01delivered\x012.1.5\x01smtp; 250 (ok)\x01dns; mx.h".as_slice().into(),
            text: b"smtp; 250 ok".as_slice().into(),
        }
    }

    /// Returns the lines of the status log, and those of the log without their time stamps.
    fn lines(control: &[u8], record: StatusRecord) -> (String, String) {
        log::set_max_level(log::LevelFilter::Info);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        std::fs::write(spool.control_file(&record.name), control).expect("written");
        let ((status, of_status), (text, of_text)) = (memory_log(), memory_log());
        let log = MailLog::new(MailLogs::new(Some(status), &text, MailLines::Final));
        assert!(log.admits(&record));
        let mut composer = log.composer().expect("there are logs");
        let open = OpenSpool::new(spool).expect("opened");
        composer.add(Some(&open), &record);
        composer.flush();
        assert_eq!(composer.requested.load(Ordering::Relaxed), 0);
        let text = |lines: Vec<u8>| String::from_utf8(lines).expect("JSON and the log are UTF-8");
        let (lines, log_lines) = (text(of_status().0), text(of_text().0));
        assert_eq!(lines.lines().count(), record.offsets.len());
        let unstamped = log_lines.lines().map(|line| line.split_once(' ').expect("a stamp").1);
        let log_lines = unstamped.map(|line| format!("{line}\n")).collect();
        (lines, log_lines)
    }

    fn check(record: StatusRecord, expected: Expect) {
        let (status, log) = lines(CONTROL, record);
        expected.assert_eq(&(status + &log));
    }

    const BOB: u32 = 52;
    const OTHER: u32 = 79;

    #[test]
    fn status_line_of_delivery_has_all_fields() {
        check(
            record(&[BOB]),
            expect![[r#"
                {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"bob@h","channel":"smtp","host":"h","agent":812,"status":"delivered","report":"ok3","code":"2.1.5","reply":"smtp; 250 (ok)","remote":"dns; mx.h","text":"smtp; 250 ok","others":0,"delay":31.648,"delays":{"router":0.148,"queue":30.0,"attempt":1.5}}
                S4711AbmKUKEJuuHwA: to=<bob@h>, destination=smtp/h, relay=mx.h, delay=31.65, delays=0.15/30.00/1.50, dsn=2.1.5, status=delivered (smtp; 250 ok)
            "#]],
        );
    }

    #[test]
    fn status_line_takes_agents_note_from_control_file() {
        let failed = StatusRecord {
            verdict: StatusVerdict::Report(Word::Error2),
            notary: Box::default(),
            text: b"no such user".as_slice().into(),
            ..record(&[OTHER])
        };
        check(
            failed,
            expect![[r#"
                {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"�@h","channel":"smtp","host":"h","agent":812,"status":"failed","report":"error2","code":"5.1.1","reply":"smtp; 550 (no)","remote":"dns; mx.h (192.0.2.1)","text":"no such user","others":0,"delay":31.648,"delays":{"router":0.148,"queue":30.0,"attempt":1.5}}
                S4711AbmKUKEJuuHwA: to=<\xff@h>, destination=smtp/h, relay=mx.h (192.0.2.1), delay=31.65, delays=0.15/30.00/1.50, dsn=5.1.1, status=failed (no such user)
            "#]],
        );
        let found = StatusRecord {
            verdict: StatusVerdict::FinishedElsewhere,
            attempt: None,
            notary: Box::default(),
            text: b"found".as_slice().into(),
            ..record(&[OTHER])
        };
        check(
            found,
            expect![[r#"
                {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"�@h","channel":"smtp","host":"h","agent":null,"status":"failed","report":null,"code":"5.1.1","reply":"smtp; 550 (no)","remote":"dns; mx.h (192.0.2.1)","text":"found","others":0,"delay":31.648,"delays":{"router":0.148,"queue":31.5,"attempt":null}}
                S4711AbmKUKEJuuHwA: to=<\xff@h>, destination=smtp/h, relay=mx.h (192.0.2.1), delay=31.65, delays=0.15/31.50/0.00, dsn=5.1.1, status=failed (found)
            "#]],
        );
    }

    #[test]
    fn status_line_without_agent_report_has_no_report_word() {
        let record = StatusRecord {
            verdict: StatusVerdict::Unreported,
            notary: Box::default(),
            text: b"it died\r\x1b".as_slice().into(),
            ..record(&[BOB])
        };
        check(
            record,
            expect![[r#"
            {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"bob@h","channel":"smtp","host":"h","agent":812,"status":"deferred","report":null,"code":null,"reply":null,"remote":null,"text":"it died\r\u001b","others":0,"delay":31.648,"delays":{"router":0.148,"queue":30.0,"attempt":1.5}}
        "#]],
        );
    }

    #[test]
    fn status_line_of_message_that_is_gone_lacks_addresses() {
        let (lines, log) = lines(b"", record(&[BOB, 3]));
        assert!(log.starts_with("S4711AbmKUKEJuuHwA: to=none, destination=smtp/h, "), "{log}");
        assert_eq!(lines.lines().count(), 2);
        for line in lines.lines() {
            let entry: StatusLine<'_> = serde_json::from_str(line).expect("a line");
            assert_eq!((entry.recipient, entry.sender, entry.message_id), (None, None, None));
            assert_eq!(entry.status, DeliveryStatus::Delivered);
        }
    }

    #[test]
    fn status_code_matches_class_of_status() {
        let notary = b"a\x01delayed\x01\x01smtp; 450 4.7.1 later\x01";
        assert_eq!(code(DeliveryStatus::Deferred, notary, b"5.0.0"), Some("4.7.1"));
        assert_eq!(code(DeliveryStatus::Delivered, notary, b"2.0.0 queued"), Some("2.0.0"));
        assert_eq!(code(DeliveryStatus::Failed, b"", b"550 5.1.1 no"), Some("5.1.1"));
        assert_eq!(code(DeliveryStatus::Failed, b"", b"no"), None);
    }
}
