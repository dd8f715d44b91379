//! The outcome of one recipient, with its report, tag and `d` line.
//!
//! | verdict | status word | tag | `d` line by |
//! |---|---|---|---|
//! | delivered, relayed, expanded | `ok3` | `+` | none |
//! | the same, and success is to be reported | `ok2` | `+` | agent |
//! | deferred | `deferred`, `retryat +N`, `deferback`, `deferall` | blank | none |
//! | failed | `error2` | `-` | agent, for any `NOTIFY` |
//! | failed, unexplained | `error` | `-` | scheduler |
//!
//! (ZMailer `diagnostic()`.) The agent writes the `d` lines that it can, because it does so before
//! it sends the report. A crash of the scheduler then loses nothing.

use std::borrow::Cow;
use std::io;
use std::time::Duration;
use zsched_format::agent_protocol::ReportStatus;
use zsched_format::control_file::Tag;
use zsched_format::control_file::diagnostic::NOTARY_SEPARATOR;

/// Maximum length of the text for people, in bytes; a longer one is cut.
const MAX_TEXT_LEN: usize = 8160;

/// The decision of the agent about a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered to its final place.
    Delivered,
    /// Passed on to a system that does not report back.
    Relayed,
    /// Replaced by other recipients.
    Expanded,
    /// Try again later.
    Deferred,
    /// Try the host again after this time, rounded down to seconds.
    RetryAfter(Duration),
    /// The host cannot be reached: everything for it has to wait.
    DeferAll,
    /// Try again later, behind the others.
    DeferBack,
    /// Failed permanently.
    Failed,
    /// The same, for an unknown reason: the scheduler writes the `d` line.
    FailedUnexplained,
}

impl Verdict {
    /// The status word of its report.
    pub(super) fn status(self, note: Note) -> ReportStatus {
        match self {
            Verdict::Delivered | Verdict::Relayed | Verdict::Expanded => match note {
                Note::NotNeeded => ReportStatus::Ok3,
                Note::Written => ReportStatus::Ok2,
                Note::LeftToScheduler => ReportStatus::Ok,
            },
            Verdict::Deferred => ReportStatus::Deferred,
            Verdict::RetryAfter(_) => ReportStatus::RetryAt,
            Verdict::DeferAll => ReportStatus::DeferAll,
            Verdict::DeferBack => ReportStatus::DeferBack,
            Verdict::Failed => ReportStatus::Error2,
            Verdict::FailedUnexplained => ReportStatus::Error,
        }
    }

    /// The new tag of the recipient.
    pub(super) fn tag(self) -> Tag {
        match self {
            Verdict::Delivered | Verdict::Relayed | Verdict::Expanded => Tag::Done,
            Verdict::Failed | Verdict::FailedUnexplained => Tag::Failed,
            _ => Tag::Pending,
        }
    }

    /// Returns true if the agent must write a `d` line.
    ///
    /// `wants_success` is true if the sender requested reports of successes.
    pub(super) fn needs_note(self, wants_success: bool) -> bool {
        match self.tag() {
            Tag::Done => wants_success,
            _ => self == Verdict::Failed,
        }
    }

    /// The `Action` field of a delivery report (RFC 3464, 2.3.3).
    fn action(self) -> &'static str {
        match self {
            Verdict::Delivered => "delivered",
            Verdict::Relayed => "relayed",
            Verdict::Expanded => "expanded",
            Verdict::Failed | Verdict::FailedUnexplained => "failed",
            _ => "delayed",
        }
    }
}

/// The state of the `d` line of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// The agent need not write it.
    NotNeeded,
    /// It has been written to disk.
    Written,
    /// It could not be written, so the scheduler must do it.
    LeftToScheduler,
}

/// A verdict with its reasons, for programs and for people.
///
/// ```
/// use zsched_agent::{Outcome, Verdict};
/// let outcome = Outcome::new(Verdict::Failed, "5.1.1", 550, "no such user").says("who is bob?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    verdict: Verdict,
    /// Enhanced status code (RFC 3463); empty if there is none.
    status: &'static str,
    /// Reply code in the style of SMTP.
    code: u16,
    /// Short explanation after both codes.
    comment: Cow<'static, str>,
    /// Protocol of the reply code, as in `Diagnostic-Code`.
    protocol: &'static str,
    /// Text for people, if it differs from the comment.
    text: Option<Cow<'static, str>>,
    /// Final address, if it differs from that of the recipient line.
    address: Option<Vec<u8>>,
    /// The remote host: `dns; mx.example.net (192.0.2.1)`, or empty.
    remote: Cow<'static, str>,
}

impl Outcome {
    /// Creates an outcome with an enhanced status code, an SMTP-style reply code, and a comment.
    pub fn new(
        verdict: Verdict,
        status: &'static str,
        code: u16,
        comment: impl Into<Cow<'static, str>>,
    ) -> Outcome {
        Outcome {
            verdict,
            status,
            code,
            comment: comment.into(),
            protocol: "x-local",
            text: None,
            address: None,
            remote: Cow::Borrowed(""),
        }
    }

    /// A failure without remote system or codes; a report about it has only the text.
    pub(super) fn failure_without_codes(text: &'static str) -> Outcome {
        Outcome::new(Verdict::Failed, "", 0, "").with_text(text).with_address(b"")
    }

    /// Sets the text for people.
    pub fn with_text(mut self, text: impl Into<Cow<'static, str>>) -> Outcome {
        self.text = Some(text.into());
        self
    }

    /// Sets the protocol of the reply code, such as `smtp`. Without it, the code is local
    /// (`x-local`).
    pub fn with_protocol(mut self, protocol: &'static str) -> Outcome {
        self.protocol = protocol;
        self
    }

    /// Sets the final address, if it differs from that of the recipient line.
    pub fn with_address(mut self, address: impl Into<Vec<u8>>) -> Outcome {
        self.address = Some(address.into());
        self
    }

    /// Sets the remote host: `dns; mx.example.net (192.0.2.1)`.
    pub fn with_remote_host(mut self, remote: impl Into<Cow<'static, str>>) -> Outcome {
        self.remote = remote.into();
        self
    }

    /// A deferral because of a system error. The text is `what`, then the reason.
    pub fn system_error(what: &str, error: &io::Error) -> Outcome {
        let status = match error.kind() {
            io::ErrorKind::StorageFull => "4.3.1",
            io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => "4.2.2",
            _ => "4.3.0",
        };
        let reason = reason(error);
        Outcome::new(Verdict::Deferred, status, 451, reason.clone())
            .with_text(format!("{what}: {reason}"))
    }

    /// The outcome for the exit status of a program, as in `sysexits(3)` with ZMailer's additions.
    ///
    /// `retry` is the time after which a program that failed temporarily should be started again,
    /// if known.
    pub fn from_exit_status(code: i32, retry: Option<Duration>, text: String) -> Outcome {
        let failed = |status, comment: &'static str| {
            Outcome::new(Verdict::Failed, status, 550, comment).with_text(text.clone())
        };
        let deferred = |verdict| {
            Outcome::new(verdict, "4.3.0", 451, "cannot be delivered now").with_text(text.clone())
        };
        match code {
            0 => Outcome::new(Verdict::Delivered, "2.0.0", 250, "delivered").with_text(text),
            // TEMPFAIL, IOERR, OSERR, CANTCREAT, SOFTWARE
            75 | 74 | 71 | 73 | 70 => match retry.filter(|time| time.as_secs() > 0) {
                Some(time) => deferred(Verdict::RetryAfter(time)),
                None => deferred(Verdict::Deferred),
            },
            90 => deferred(Verdict::DeferBack),
            100 => deferred(Verdict::DeferAll),
            67 => failed("5.1.1", "no such user"),
            68 => failed("5.1.2", "no such host"),
            69 => failed("5.3.0", "not available"),
            // USAGE, PROTOCOL, NOPERM
            64 | 76 | 77 => {
                let remark = format!("{text} (exit status {code}: check the configuration)");
                failed("5.3.5", "delivery is misconfigured").with_text(remark)
            }
            _ => Outcome::new(Verdict::FailedUnexplained, "5.3.0", 550, "unknown exit status")
                .with_text(format!("unknown exit status {code}: {text}")),
        }
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The same outcome, except that the agent writes the `d` line of a failure itself.
    pub(super) fn noted_by_agent(mut self) -> Outcome {
        if self.verdict == Verdict::FailedUnexplained {
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// The text for people.
    pub fn text(&self) -> &str {
        let text = self.text.as_deref().unwrap_or(&self.comment);
        let end = (0..=text.len().min(MAX_TEXT_LEN)).rev().find(|end| text.is_char_boundary(*end));
        &text[..end.unwrap_or_default()]
    }

    /// The text of the report line; that of a `retryat` begins with the time.
    pub(super) fn report_text(&self) -> Cow<'_, str> {
        match self.verdict {
            Verdict::RetryAfter(time) => format!("+{} {}", time.as_secs(), self.text()).into(),
            _ => self.text().into(),
        }
    }

    /// Notary data: final address, action, status, diagnostic code and remote host.
    ///
    /// `address` is that of the recipient line.
    pub(super) fn notary(&self, address: &[u8]) -> Vec<u8> {
        let address = self.address.as_deref().unwrap_or(address);
        let (mut status, mut diagnostic) = (String::new(), String::new());
        if !self.status.is_empty() {
            status = format!("{} ({})", self.status, self.comment);
            diagnostic = format!("{}; {} ({})", self.protocol, self.code, self.comment);
        }
        let fields = [
            address,
            self.verdict.action().as_bytes(),
            status.as_bytes(),
            diagnostic.as_bytes(),
            self.remote.as_bytes(),
        ];
        // A separator inside a field would shift all following fields.
        let clean = |byte: &u8| if *byte == NOTARY_SEPARATOR { b' ' } else { *byte };
        let field = |field: &&[u8]| field.iter().map(clean).collect::<Vec<u8>>();
        fields.iter().map(field).collect::<Vec<_>>().join(&NOTARY_SEPARATOR)
    }
}

/// An error message without the number that the standard library appends.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_map_as_in_original() {
        let hour = Some(Duration::from_secs(3600));
        for (code, retry, word, tag, noted, notary) in [
            (0, None, "ok3", Tag::Done, false, "u\x01delivered\x012.0.0 (delivered)"),
            (75, None, "deferred", Tag::Pending, false, "u\x01delayed\x014.3.0"),
            (74, hour, "retryat", Tag::Pending, false, "u\x01delayed\x014.3.0"),
            (73, Some(Duration::ZERO), "deferred", Tag::Pending, false, "u\x01delayed"),
            (71, None, "deferred", Tag::Pending, false, "u\x01delayed"),
            (70, None, "deferred", Tag::Pending, false, "u\x01delayed"),
            (90, None, "deferback", Tag::Pending, false, "u\x01delayed"),
            (100, None, "deferall", Tag::Pending, false, "u\x01delayed"),
            (67, None, "error2", Tag::Failed, true, "u\x01failed\x015.1.1 (no such user)"),
            (68, None, "error2", Tag::Failed, true, "u\x01failed\x015.1.2"),
            (69, None, "error2", Tag::Failed, true, "u\x01failed\x015.3.0"),
            (64, None, "error2", Tag::Failed, true, "u\x01failed\x015.3.5"),
            (76, None, "error2", Tag::Failed, true, "u\x01failed\x015.3.5"),
            (77, None, "error2", Tag::Failed, true, "u\x01failed\x015.3.5"),
            (3, None, "error", Tag::Failed, false, "u\x01failed\x015.3.0"),
            (-9, None, "error", Tag::Failed, false, "u\x01failed\x015.3.0"),
        ] {
            let outcome = Outcome::from_exit_status(code, retry, "text".into());
            let verdict = outcome.verdict();
            assert_eq!(verdict.status(Note::NotNeeded).word(), word, "{code}");
            assert_eq!((verdict.tag(), verdict.needs_note(false)), (tag, noted), "{code}");
            let sent = String::from_utf8(outcome.notary(b"u")).expect("text");
            assert!(sent.starts_with(notary), "{code}: {sent:?}");
        }
    }

    #[test]
    fn success_is_noted_if_sender_requests_it() {
        for verdict in [Verdict::Delivered, Verdict::Relayed, Verdict::Expanded] {
            assert!(verdict.needs_note(true) && !verdict.needs_note(false));
            assert_eq!(verdict.status(Note::Written), ReportStatus::Ok2);
            assert_eq!(verdict.status(Note::LeftToScheduler), ReportStatus::Ok);
        }
        assert!(!Verdict::Deferred.needs_note(true));
        assert!(!Verdict::FailedUnexplained.needs_note(true));
    }

    #[test]
    fn retry_text_begins_with_time() {
        let verdict = Verdict::RetryAfter(Duration::from_millis(60_900));
        let outcome = Outcome::new(verdict, "4.4.1", 466, "timed out");
        assert_eq!(outcome.report_text(), "+60 timed out");
    }

    #[test]
    fn notary_data_always_has_five_fields() {
        let outcome = Outcome::new(Verdict::Deferred, "4.4.1", 466, "a\x01b")
            .with_protocol("smtp")
            .with_remote_host("dns; mx.example.net");
        let expected =
            b"u @x\x01delayed\x014.4.1 (a b)\x01smtp; 466 (a b)\x01dns; mx.example.net".to_vec();
        assert_eq!(outcome.notary(b"u\x01@x"), expected);
        assert_eq!(Outcome::failure_without_codes("gone").notary(b"u"), b"\x01failed\x01\x01\x01");
    }

    #[test]
    fn long_text_is_cut() {
        let outcome = Outcome::new(Verdict::Failed, "5.0.0", 550, "x".repeat(10_000));
        assert_eq!(outcome.text().len(), MAX_TEXT_LEN);
        let outcome = outcome.with_text("\u{20ac}".repeat(MAX_TEXT_LEN / 3 + 1));
        assert_eq!(outcome.report_text().len(), MAX_TEXT_LEN / 3 * 3);
    }

    #[test]
    fn reason_omits_error_number() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(reason(&io::Error::other("odd")), "odd");
    }
}
