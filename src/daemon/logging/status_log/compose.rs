//! Composes lines of the status log.

use super::control_files::{CachedFile, ControlFiles};
use super::{MAX_WAITING_BYTES, StatusLogState};
use memchr::memchr_iter;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use zsched_core::{StatusRecord, Verdict};
use zsched_format::agent_protocol::ReportStatus as Word;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;
use zsched_format::control_file::{ControlFile, Tag};
use zsched_format::status_code::enhanced_code;
use zsched_format::status_log::{DeliveryStatus, StatusDelays, StatusLine, seconds};
use zsched_format::time::format_time;
use zsched_spool::{Spool, SpoolId, SpoolName};

/// Size of composed lines at which they are passed to the appender, in bytes.
const FLUSH_SIZE: usize = 64 << 10;

/// Composer of status lines, owned by the writer.
pub(crate) struct Composer {
    shared: Arc<StatusLogState>,
    out: Sender<Vec<u8>>,
    /// Complete lines for the appender.
    lines: Vec<u8>,
    files: ControlFiles,
}

impl Composer {
    pub(super) fn new(shared: Arc<StatusLogState>, out: Sender<Vec<u8>>) -> Composer {
        Composer { shared, out, lines: Vec::new(), files: ControlFiles::default() }
    }

    /// Composes the lines of a record.
    pub(crate) fn add(&mut self, spool: &Spool, record: &StatusRecord) {
        let lines = &mut self.lines;
        let mut known = self.files.get(spool, &record.name, record.modified);
        let common = CommonFields::of(record);
        for offset in &record.offsets {
            common.write_line(spool, known.as_deref_mut(), *offset, lines);
            if lines.len() >= FLUSH_SIZE {
                pass_lines(&self.shared, &self.out, lines);
            }
        }
        self.shared.requested.fetch_sub(super::size(record), Ordering::Relaxed);
    }

    /// Passes the composed lines to the appender.
    pub(crate) fn flush(&mut self) {
        if !self.lines.is_empty() {
            pass_lines(&self.shared, &self.out, &mut self.lines);
        }
    }

    /// Drops the control file of a message that is about to leave the spool.
    pub(crate) fn forget(&mut self, name: &SpoolName) {
        self.files.forget(name.number());
    }
}

/// Passes lines to the appender. If too much waits there, they are lost and counted.
fn pass_lines(shared: &StatusLogState, out: &Sender<Vec<u8>>, lines: &mut Vec<u8>) {
    let lines = std::mem::take(lines);
    if shared.composed.load(Ordering::Relaxed) + lines.len() > MAX_WAITING_BYTES {
        let count = memchr_iter(b'\n', &lines).count() as u64;
        shared.lost.fetch_add(count, Ordering::Relaxed);
        return;
    }
    shared.composed.fetch_add(lines.len(), Ordering::Relaxed);
    // The appender runs until all senders are gone.
    drop(out.send(lines));
}

/// Fields common to all lines of a record.
struct CommonFields<'r> {
    record: &'r StatusRecord,
    time: String,
    spool_id: String,
    delay: f64,
    delays: StatusDelays,
}

impl<'r> CommonFields<'r> {
    fn of(record: &'r StatusRecord) -> CommonFields<'r> {
        let StatusRecord { time, modified, created, attempt, .. } = *record;
        let queued_until = attempt.map_or(time, |attempt| attempt.began);
        let delays = StatusDelays {
            router: seconds(modified, created),
            queue: seconds(created, queued_until),
            attempt: attempt.map(|attempt| seconds(attempt.began, time)),
        };
        CommonFields {
            record,
            time: format_time(time),
            spool_id: SpoolId { number: record.name.number(), modified }.to_string(),
            delay: seconds(modified, time),
            delays,
        }
    }

    fn write_line(
        &self,
        spool: &Spool,
        known: Option<&mut CachedFile>,
        offset: u32,
        out: &mut Vec<u8>,
    ) {
        let record = self.record;
        let status = delivery_status(record.verdict).unwrap_or_else(|| {
            match known.as_ref().and_then(|known| known.tag(spool, offset).ok()) {
                Some(Tag::Failed) => DeliveryStatus::Failed,
                _ => DeliveryStatus::Delivered,
            }
        });
        let mut notary = Cow::Borrowed(&record.notary[..]);
        let (mut sender, mut recipient, mut message_id) = (None, None, None);
        if let Some(known) = known {
            if has_note_on_disk(record) || record.verdict == Verdict::FinishedElsewhere {
                let note = known.note(spool, offset);
                notary = Cow::Owned(note.unwrap_or_default().to_vec());
            }
            (sender, recipient) = addresses(&known.file, offset);
            message_id = known.message_id.as_deref();
        }
        let field = |index: usize| {
            let field = notary.split(|byte| *byte == NOTARY_SEPARATOR).nth(index)?;
            (!field.is_empty()).then(|| String::from_utf8_lossy(field))
        };
        let entry = StatusLine {
            time: (&self.time).into(),
            spool_id: (&self.spool_id).into(),
            message_id: message_id.map(Cow::Borrowed),
            sender,
            recipient,
            channel: String::from_utf8_lossy(record.destination.channel()),
            host: String::from_utf8_lossy(record.destination.host()),
            agent: record.attempt.and_then(|attempt| attempt.pid),
            status,
            report: word(record.verdict).map(Cow::Borrowed),
            code: code(status, &notary, &record.text).map(Cow::Borrowed),
            reply: field(3),
            remote: field(4),
            text: String::from_utf8_lossy(&record.text),
            others: record.others,
            delay: self.delay,
            delays: self.delays,
        };
        serde_json::to_writer(&mut *out, &entry).expect("texts and numbers are JSON");
        out.push(b'\n');
    }
}

/// Returns true if the agent has written the notary data into the control file.
fn has_note_on_disk(record: &StatusRecord) -> bool {
    matches!(record.verdict, Verdict::Report(Word::Ok2 | Word::Error2)) && record.notary.is_empty()
}

/// Addresses of the sender and of a recipient.
fn addresses(file: &ControlFile, offset: u32) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    let text = |span| String::from_utf8_lossy(file.get(span));
    let recipient = file.recipient_at(offset);
    let sender = recipient.and_then(|recipient| file.sender_of(recipient));
    (sender.map(|sender| text(sender.quad.user)), recipient.map(|one| text(one.quad.user)))
}

/// Result for recipients; `None` if only the control file has it.
pub(crate) fn delivery_status(verdict: Verdict) -> Option<DeliveryStatus> {
    Some(match verdict {
        Verdict::Report(Word::Ok | Word::Ok2 | Word::Ok3) => DeliveryStatus::Delivered,
        Verdict::Report(Word::Error | Word::Error2) => DeliveryStatus::Failed,
        Verdict::Report(_) | Verdict::Unreported => DeliveryStatus::Deferred,
        Verdict::Expired => DeliveryStatus::Expired,
        Verdict::Deleted => DeliveryStatus::Deleted,
        Verdict::Rerouted => DeliveryStatus::Rerouted,
        Verdict::FinishedElsewhere => return None,
    })
}

/// Status word of the agent's report, if there was one.
pub(crate) fn word(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Report(word) => Some(word.word()),
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
    use expect_test::{Expect, expect};
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use zsched_core::{Attempt, Destination};
    use zsched_format::time::Timestamp;
    use zsched_spool::HashFolder;

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
            offsets: offsets.to_vec(),
            verdict: Verdict::Report(Word::Ok3),
            attempt: Some(Attempt { pid: Some(812), began }),
            others: 0,
            notary: b"bob@h\x01delivered\x012.1.5\x01smtp; 250 (ok)\x01dns; mx.h".as_slice().into(),
            text: b"smtp; 250 ok".as_slice().into(),
        }
    }

    fn lines(control: &[u8], record: StatusRecord) -> String {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spool = Spool::new(folder.path());
        spool.create().expect("a spool");
        std::fs::write(spool.control_file(&record.name), control).expect("written");
        let (sender, receiver) = channel();
        let shared = Arc::new(StatusLogState::default());
        shared.requested.fetch_add(super::super::size(&record), Ordering::Relaxed);
        let mut composer = Composer::new(shared.clone(), sender);
        composer.add(&spool, &record);
        composer.flush();
        assert_eq!(shared.requested.load(Ordering::Relaxed), 0);
        let lines = receiver.try_recv().expect("lines");
        let lines = String::from_utf8(lines).expect("JSON is UTF-8");
        assert_eq!(lines.lines().count(), record.offsets.len());
        lines
    }

    fn check(record: StatusRecord, expected: Expect) {
        expected.assert_eq(&lines(CONTROL, record));
    }

    const BOB: u32 = 52;
    const OTHER: u32 = 79;

    #[test]
    fn status_line_of_delivery_has_all_fields() {
        check(
            record(&[BOB]),
            expect![[r#"
            {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"bob@h","channel":"smtp","host":"h","agent":812,"status":"delivered","report":"ok3","code":"2.1.5","reply":"smtp; 250 (ok)","remote":"dns; mx.h","text":"smtp; 250 ok","others":0,"delay":31.648,"delays":{"router":0.148,"queue":30.0,"attempt":1.5}}
        "#]],
        );
    }

    #[test]
    fn status_line_takes_agents_note_from_control_file() {
        let failed = StatusRecord {
            verdict: Verdict::Report(Word::Error2),
            notary: Box::default(),
            text: b"no such user".as_slice().into(),
            ..record(&[OTHER])
        };
        check(
            failed,
            expect![[r#"
            {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"�@h","channel":"smtp","host":"h","agent":812,"status":"failed","report":"error2","code":"5.1.1","reply":"smtp; 550 (no)","remote":"dns; mx.h (192.0.2.1)","text":"no such user","others":0,"delay":31.648,"delays":{"router":0.148,"queue":30.0,"attempt":1.5}}
        "#]],
        );
        let found = StatusRecord {
            verdict: Verdict::FinishedElsewhere,
            attempt: None,
            notary: Box::default(),
            text: b"found".as_slice().into(),
            ..record(&[OTHER])
        };
        check(
            found,
            expect![[r#"
            {"time":"2026-11-21T10:04:41.500Z","spool_id":"S4711AbmKUKEJuuHwA","message_id":"<1@x>","sender":"alice@x","recipient":"�@h","channel":"smtp","host":"h","agent":null,"status":"failed","report":null,"code":"5.1.1","reply":"smtp; 550 (no)","remote":"dns; mx.h (192.0.2.1)","text":"found","others":0,"delay":31.648,"delays":{"router":0.148,"queue":31.5,"attempt":null}}
        "#]],
        );
    }

    #[test]
    fn status_line_without_agent_report_has_no_report_word() {
        let record = StatusRecord {
            verdict: Verdict::Unreported,
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
        let lines = lines(b"", record(&[BOB, 3]));
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
