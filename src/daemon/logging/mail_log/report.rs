//! Lines about reports to senders, which the reporter composes: it has just sent them.

use super::MailLogs;
use super::compose::{CommonFields, Outcome, RecipientLines};
use super::text::push_address;
use crate::logging::Stamp;
use log::Level;
use std::io::Write;
use zsched_core::{Destination, StatusRecord, StatusVerdict};
use zsched_format::status_log::{DeliveryStatus, ReportLine};
use zsched_format::time::{Timestamp, format_time};
use zsched_spool::report::{RefusedRecipient, SendResult, SentReport};
use zsched_spool::{Offsets, SpoolId, SpoolName};

/// Composer of lines about reports, owned by the reporter.
pub(crate) struct ReportLines {
    logs: MailLogs,
}

impl ReportLines {
    pub(super) fn new(logs: MailLogs) -> ReportLines {
        ReportLines { logs }
    }

    /// Adds a line about each report that was sent about a message.
    ///
    /// Recipients that the router has refused get one each.
    pub(crate) fn push(&self, name: &SpoolName, result: &SendResult) {
        let now = Timestamp::now();
        let about = SpoolId { number: name.number(), modified: result.modified }.to_string();
        let text = self.logs.text.as_ref().filter(|_| Level::Info <= log::max_level());
        for report in &result.sent {
            if let Some(log) = &self.logs.status {
                log.push(&status_line(now, &about, result.message_id.as_deref(), report));
            }
            if let Some(log) = text {
                log.push(&text_line(Stamp::default().of(now), &about, report));
            }
        }
        self.push_refused(name, result);
    }

    /// Adds lines about recipients that the router has refused.
    fn push_refused(&self, name: &SpoolName, result: &SendResult) {
        let mut lines = RecipientLines::new(self.logs.clone());
        for RefusedRecipient { sender, recipient } in &result.refused {
            let record = StatusRecord {
                time: Timestamp::now(),
                name: name.clone(),
                modified: result.modified,
                created: Timestamp::from_seconds(recipient.time).max(result.modified),
                destination: Destination::new(&recipient.channel, &recipient.host),
                offsets: Offsets::new(),
                verdict: StatusVerdict::FinishedElsewhere,
                attempt: None,
                others: 0,
                notary: recipient.notary.as_slice().into(),
                text: recipient.text.as_slice().into(),
            };
            let outcome = Outcome {
                status: DeliveryStatus::Failed,
                message_id: result.message_id.as_deref(),
                sender: Some(sender.as_deref().unwrap_or(b"<>")),
                recipient: Some(&recipient.address),
                notary: (&record.notary[..]).into(),
            };
            lines.push(&CommonFields::of(&record), &outcome);
        }
        lines.flush();
    }
}

fn status_line(
    now: Timestamp,
    about: &str,
    message_id: Option<&str>,
    report: &SentReport,
) -> Vec<u8> {
    let entry = ReportLine {
        time: format_time(now).into(),
        spool_id: about.into(),
        message_id: message_id.map(Into::into),
        report_id: report.id.to_string().into(),
        to: String::from_utf8_lossy(report.sender.as_deref().unwrap_or_default()),
        recipients: report.recipients,
    };
    let mut line = serde_json::to_vec(&entry).expect("texts and numbers are JSON");
    line.push(b'\n');
    line
}

fn text_line(stamp: &str, about: &str, report: &SentReport) -> Vec<u8> {
    let mut line = format!("{stamp} {about}: report={}, to=", report.id).into_bytes();
    push_address(&mut line, Some(report.sender.as_deref().unwrap_or_default()));
    for (action, count) in report.recipients.all() {
        write!(line, ", {action}={count}").expect("a Vec takes everything");
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::super::MailLines;
    use super::*;
    use crate::logging::tests::memory_log;
    use expect_test::expect;
    use zsched_format::action_counts::ActionCounts;
    use zsched_format::status_log::StatusLine;
    use zsched_spool::HashFolder;
    use zsched_spool::report::ReportedRecipient;

    const CAME: Timestamp = Timestamp::from_parts(1_795_255_449, 852_000_000);

    fn result() -> SendResult {
        let report = SentReport {
            id: SpoolId { number: 4712, modified: CAME },
            sender: Some(b"al>ice@x".as_slice().into()),
            recipients: ActionCounts { failed: 2, delivered: 1, ..ActionCounts::default() },
        };
        let message_id = Some("<1@x>".to_string());
        SendResult { modified: CAME, message_id, sent: vec![report], ..SendResult::default() }
    }

    /// The lines of the status log and of the log about this result.
    fn lines(lines: MailLines, result: &SendResult) -> (String, String) {
        log::set_max_level(log::LevelFilter::Info);
        let ((status, of_status), (text, of_text)) = (memory_log(), memory_log());
        let name = SpoolName::new(HashFolder::TOP, b"4711").expect("a name");
        ReportLines::new(MailLogs::new(Some(status), &text, lines)).push(&name, result);
        let text = |lines: Vec<u8>| String::from_utf8(lines).expect("UTF-8");
        (text(of_status().0), text(of_text().0))
    }

    #[test]
    fn report_line_names_report_and_message() {
        let (status, log) = lines(MailLines::Final, &result());
        let entry: ReportLine<'_> = serde_json::from_str(&status).expect("a line");
        assert_eq!((&*entry.spool_id, &*entry.to), ("S4711AbmKUKEJuuHwA", "al>ice@x"));
        assert_eq!((entry.report_id, entry.recipients.failed), ("S4712AbmKUKEJuuHwA".into(), 2));
        expect![[r#"
            S4711AbmKUKEJuuHwA: report=S4712AbmKUKEJuuHwA, to=<al\x3eice@x>, failed=2, delayed=0, relayed=0, delivered=1, expanded=0
        "#]]
        .assert_eq(log.split_once(' ').expect("a stamp").1);
    }

    #[test]
    fn refused_recipient_has_lines_as_after_attempt() {
        let recipient = ReportedRecipient {
            address: b"nobody@x".to_vec(),
            channel: b"error".to_vec(),
            host: b"unresolvable".to_vec(),
            notify: Vec::new(),
            time: CAME.seconds() + 1,
            notary: b"\x03\x01failed\x015.1.1 (no such user here)\x01smtp; 550 no\x01\x01".to_vec(),
            text: b"no such user here".to_vec(),
        };
        let refused = vec![RefusedRecipient { sender: None, recipient }];
        let result = SendResult { sent: Vec::new(), refused, ..result() };
        let (status, log) = lines(MailLines::Final, &result);
        let entry: StatusLine<'_> = serde_json::from_str(&status).expect("a line");
        let addresses = (entry.sender.as_deref(), entry.recipient.as_deref());
        assert_eq!(addresses, (Some("<>"), Some("nobody@x")));
        assert_eq!((entry.status, entry.code.as_deref()), (DeliveryStatus::Failed, Some("5.1.1")));
        assert_eq!((entry.agent, &*entry.text), (None, "no such user here"));
        assert!(
            log.contains(": to=<nobody@x>, destination=error/unresolvable, relay=none"),
            "{log}"
        );
    }

    #[test]
    fn report_line_without_mail_lines_is_in_status_log_only() {
        let (status, log) = lines(MailLines::None, &result());
        assert_eq!((status.lines().count(), &*log), (1, ""));
    }
}
