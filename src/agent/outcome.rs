//! The outcome of one recipient, with its report, tag and `d` line.
//!
//! | verdict | status word | tag | `d` line by |
//! |---|---|---|---|
//! | delivered, relayed, expanded | `ok3` | `+` | none |
//! | the same, and success is to be reported | `ok2` | `+` | agent |
//! | passed on | `ok3` | `+` | none |
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
use zsched_format::status_code::enhanced_code;

/// Maximum length of the text for people, in bytes; a longer one is cut.
const MAX_TEXT_LEN: usize = 8160;
/// Maximum length of the comment after the codes, in bytes; a longer one is cut.
const MAX_COMMENT_LEN: usize = 1000;

/// The decision of an agent about a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered to its final place.
    Delivered,
    /// Passed on to a system that does not report back.
    Relayed,
    /// Replaced by other recipients.
    Expanded,
    /// Done, and something else reports to the sender, whatever the sender requested.
    PassedOn,
    /// Try again at the recipient's next time.
    Deferred,
    /// Try the host again after this time, which is rounded down to seconds.
    RetryAfter(Duration),
    /// The host cannot be reached: everything for it has to wait.
    ///
    /// For a connection that could not be made, and for nothing else.
    DeferAll,
    /// Try again later, behind the others. The scheduler treats it as `Deferred`.
    DeferBack,
    /// Failed permanently. The sender gets a report, if wanted.
    Failed,
    /// The same, for a reason that the agent does not know. The scheduler writes the `d` line.
    FailedUnexplained,
}

impl Verdict {
    /// The status word of its report.
    pub(crate) fn status(self, note: Note) -> ReportStatus {
        match self {
            Verdict::Delivered | Verdict::Relayed | Verdict::Expanded => match note {
                Note::NotNeeded => ReportStatus::Ok3,
                Note::Written => ReportStatus::Ok2,
                Note::LeftToScheduler => ReportStatus::Ok,
            },
            Verdict::PassedOn => ReportStatus::Ok3,
            Verdict::Deferred => ReportStatus::Deferred,
            Verdict::RetryAfter(_) => ReportStatus::RetryAt,
            Verdict::DeferAll => ReportStatus::DeferAll,
            Verdict::DeferBack => ReportStatus::DeferBack,
            Verdict::Failed => ReportStatus::Error2,
            Verdict::FailedUnexplained => ReportStatus::Error,
        }
    }

    /// The new tag of the recipient.
    pub(crate) fn tag(self) -> Tag {
        self.status(Note::NotNeeded).tag()
    }

    /// Returns true if the agent must write a `d` line.
    ///
    /// `wants_success` is true if the sender requested reports of successes.
    pub(crate) fn needs_note(self, wants_success: bool) -> bool {
        match self.tag() {
            Tag::Done => wants_success && self != Verdict::PassedOn,
            _ => self == Verdict::Failed,
        }
    }

    /// The status code that says no more than the verdict does.
    fn general_status(self) -> &'static str {
        match self.tag() {
            Tag::Done => "2.0.0",
            Tag::Failed => "5.0.0",
            _ => "4.0.0",
        }
    }

    /// The `Action` field of a delivery report (RFC 3464, 2.3.3).
    fn action(self) -> &'static str {
        match self {
            Verdict::Delivered => "delivered",
            Verdict::Relayed | Verdict::PassedOn => "relayed",
            Verdict::Expanded => "expanded",
            Verdict::Failed | Verdict::FailedUnexplained => "failed",
            _ => "delayed",
        }
    }
}

/// The state of the `d` line of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
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
///
/// let outcome = Outcome::new(Verdict::Failed, "5.1.1", 550, "no such user")
///     .with_text("there is no user bob here");
/// assert_eq!(outcome.text(), "there is no user bob here");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    verdict: Verdict,
    /// Enhanced status code; empty if there is none.
    status: Cow<'static, str>,
    /// Reply code in the style of SMTP.
    code: u16,
    /// Short explanation after both codes.
    comment: Cow<'static, str>,
    /// Protocol of the reply code, as in `Diagnostic-Code`.
    protocol: Cow<'static, str>,
    /// Text for people, if it differs from the comment.
    text: Option<Cow<'static, str>>,
    /// Final address, if it differs from that of the recipient line.
    address: Option<Vec<u8>>,
    /// The remote host: `dns; mx.example.net (192.0.2.1)`, or empty.
    remote_host: Cow<'static, str>,
    /// Name of the agent, for its sixth field of notary data; or empty.
    agent: &'static str,
    /// True if the sender gets no report, whatever was requested.
    is_silent: bool,
}

impl Outcome {
    /// Creates an outcome with a status code, a reply code and a comment.
    ///
    /// `status` is a code of RFC 3463, such as `5.1.1`. It may be made at run time. A text that has
    /// not the form of one (RFC 3464, 2.3.4) is replaced by the general code of the verdict:
    /// `2.0.0`, `4.0.0` or `5.0.0`. `code` is a reply code of RFC 5321, such as 550; without a
    /// protocol it is local. `comment` explains both in a few words; at most 1,000 bytes are kept.
    ///
    /// ```
    /// use zsched_agent::{Outcome, Verdict};
    ///
    /// let status = format!("5.7.{}", 1 + 7);
    /// let outcome = Outcome::new(Verdict::Failed, status, 550, "address is blocked");
    /// assert_eq!(outcome.status(), "5.7.8");
    /// let outcome = Outcome::new(Verdict::Deferred, "later!", 450, "greylisted");
    /// assert_eq!(outcome.status(), "4.0.0");
    /// ```
    pub fn new(
        verdict: Verdict,
        status: impl Into<Cow<'static, str>>,
        code: u16,
        comment: impl Into<Cow<'static, str>>,
    ) -> Outcome {
        let status = status.into();
        let is_usable = is_status_code(&status);
        Outcome {
            verdict,
            status: if is_usable { status } else { verdict.general_status().into() },
            code,
            comment: comment.into(),
            protocol: "x-local".into(),
            text: None,
            address: None,
            remote_host: "".into(),
            agent: "",
            is_silent: false,
        }
    }

    /// A failure without remote system or codes; a report about it has only the text.
    pub(crate) fn failure_without_codes(text: &'static str) -> Outcome {
        let outcome =
            Outcome::new(Verdict::Failed, "5.0.0", 0, "").with_text(text).with_address(b"");
        Outcome { status: "".into(), ..outcome }
    }

    /// The outcome of a recipient that an agent has not decided on.
    pub(crate) fn forgotten() -> Outcome {
        let text = "the agent reported no outcome for this recipient";
        Outcome::new(Verdict::Deferred, "4.3.0", 451, text)
    }

    /// A deferral because of a system error. The text is `what`, a colon, and the reason.
    ///
    /// The status is 4.3.1 or 4.2.2 if a disk or a quota is full, else 4.3.0.
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

    /// The outcome for the exit status of a program.
    ///
    /// The statuses are those of `sysexits(3)` and ZMailer's.
    ///
    /// | exit status | verdict |
    /// |---|---|
    /// | 0 | `Delivered` |
    /// | 70, 71, 73, 74, 75 | `Deferred`, or `RetryAfter(retry)` |
    /// | 90, 100 | `DeferBack`, `DeferAll` |
    /// | 64, 67, 68, 69, 76, 77 | `Failed` |
    /// | all others | `FailedUnexplained` |
    ///
    /// `retry` is the time after which a program that failed temporarily should be started again,
    /// if known. `text` is for people: what the program has printed, for instance. For a program
    /// that a signal has ended, any negative `code` will do.
    pub fn from_exit_status(
        code: i32,
        retry: Option<Duration>,
        text: impl Into<String>,
    ) -> Outcome {
        let text = text.into();
        let failed = |status: &'static str, comment: &'static str| {
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
                let advice = format!("{text} (exit status {code}: check the configuration)");
                failed("5.3.5", "delivery is misconfigured").with_text(advice)
            }
            _ => Outcome::new(Verdict::FailedUnexplained, "5.3.0", 550, "unknown exit status")
                .with_text(format!("unknown exit status {code}: {text}")),
        }
    }

    /// The outcome for the reply of an SMTP or LMTP server.
    ///
    /// `reply` has one or several lines (RFC 5321, 4.2.1), perhaps with an enhanced status code
    /// (RFC 2034). A positive reply has the verdict `accepted`: `Relayed`, or `Delivered` if the
    /// server is the last one. 4xx is `Deferred`, 5xx is `Failed`. Anything else is a protocol
    /// error of the server, and `Deferred`.
    ///
    /// ```
    /// use zsched_agent::{Outcome, Verdict};
    ///
    /// let outcome = Outcome::from_smtp_reply(Verdict::Relayed, "550-5.1.1 no such\r\n550 5.1.1 user");
    /// assert_eq!((outcome.verdict(), outcome.status()), (Verdict::Failed, "5.1.1"));
    /// assert_eq!(outcome.text(), "550 5.1.1 no such user");
    /// ```
    pub fn from_smtp_reply(accepted: Verdict, reply: &str) -> Outcome {
        let Some(SmtpReply { code, status, text }) = SmtpReply::parse(reply) else {
            return Outcome::new(Verdict::Deferred, "4.5.0", 451, "malformed reply")
                .with_text(format!("malformed reply: {}", reply.trim_end()));
        };
        let verdict = match code / 100 {
            2 => accepted,
            4 => Verdict::Deferred,
            5 => Verdict::Failed,
            _ => {
                let comment = format!("unexpected reply {code}");
                return Outcome::new(Verdict::Deferred, "4.5.0", 451, comment);
            }
        };
        let words = [&code.to_string(), &status, &text];
        let shown: Vec<&str> =
            words.into_iter().map(String::as_str).filter(|w| !w.is_empty()).collect();
        let shown = shown.join(" ");
        Outcome::new(verdict, status, code, text).with_protocol("smtp").with_text(shown)
    }

    /// Sets the text for people. Without it, the comment is used.
    ///
    /// At most 8,160 bytes of it are kept.
    pub fn with_text(mut self, text: impl Into<Cow<'static, str>>) -> Outcome {
        self.text = Some(text.into());
        self
    }

    /// Sets the protocol of the reply code (RFC 3464), such as `smtp`.
    ///
    /// Without it, the code is local (`x-local`).
    pub fn with_protocol(mut self, protocol: impl Into<Cow<'static, str>>) -> Outcome {
        self.protocol = protocol.into();
        self
    }

    /// Sets the final address (RFC 3464, 2.3.2), if it differs.
    pub fn with_address(mut self, address: impl Into<Vec<u8>>) -> Outcome {
        self.address = Some(address.into());
        self
    }

    /// Sets the remote host (RFC 3464, 2.3.5): `dns; mx.example.net (192.0.2.1)`.
    ///
    /// The scheduler gets it with every report, also of a success, for windows of relays
    /// (`window-key=mx`).
    pub fn with_remote_host(mut self, remote_host: impl Into<Cow<'static, str>>) -> Outcome {
        self.remote_host = remote_host.into();
        self
    }

    /// Names the agent in notary data, with its process id, as ZMailer's `smtp` does.
    pub fn with_agent(mut self, name: &'static str) -> Outcome {
        self.agent = name;
        self
    }

    /// Sets the verdict. The codes and the text remain.
    pub fn with_verdict(mut self, verdict: Verdict) -> Outcome {
        self.verdict = verdict;
        self
    }

    /// Replaces the status code, as in [`Outcome::new`].
    pub fn with_status(mut self, status: impl Into<Cow<'static, str>>) -> Outcome {
        let status = status.into();
        let is_usable = is_status_code(&status);
        self.status = if is_usable { status } else { self.verdict.general_status().into() };
        self
    }

    /// The remote host, or an empty text.
    pub(crate) fn remote_host(&self) -> &str {
        &self.remote_host
    }

    /// Makes the outcome final without a report to the sender, whatever the sender requested.
    ///
    /// This is for an operator who removes mail. No `d` line is written.
    pub fn without_report(mut self) -> Outcome {
        self.is_silent = true;
        self
    }

    /// Returns true if the agent must write a `d` line.
    ///
    /// `wants_success` is true if the sender requested reports of successes.
    pub(crate) fn needs_note(&self, wants_success: bool) -> bool {
        !self.is_silent && self.verdict.needs_note(wants_success)
    }

    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The reply code in the style of SMTP.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// The enhanced status code (RFC 3463).
    pub fn status(&self) -> &str {
        &self.status
    }

    /// The same outcome, except that the agent writes the `d` line of a failure itself.
    pub(crate) fn noted_by_agent(mut self) -> Outcome {
        if self.verdict == Verdict::FailedUnexplained {
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// The text for people: at most 8,160 bytes.
    pub fn text(&self) -> &str {
        cut(self.text.as_deref().unwrap_or(&self.comment), MAX_TEXT_LEN)
    }

    /// The text of the report line; that of a `retryat` begins with the time.
    pub(crate) fn report_text(&self) -> Cow<'_, str> {
        match self.verdict {
            Verdict::RetryAfter(time) => format!("+{} {}", time.as_secs(), self.text()).into(),
            _ => self.text().into(),
        }
    }

    /// Notary data: final address, action, status, diagnostic code and remote host.
    ///
    /// `address` is that of the recipient line.
    pub(crate) fn notary(&self, address: &[u8]) -> Vec<u8> {
        let address = self.address.as_deref().unwrap_or(address);
        let comment = cut(&self.comment, MAX_COMMENT_LEN);
        let (mut status, mut diagnostic) = (String::new(), String::new());
        if !self.status.is_empty() {
            status = format!("{} ({comment})", self.status);
            diagnostic = format!("{}; {} ({comment})", self.protocol, self.code);
        }
        let mut fields = vec![
            address,
            self.verdict.action().as_bytes(),
            status.as_bytes(),
            diagnostic.as_bytes(),
            self.remote_host.as_bytes(),
        ];
        let agent = format!("{}[{}]", self.agent, std::process::id());
        if !self.agent.is_empty() {
            fields.push(agent.as_bytes());
        }
        // A separator inside a field would shift all following fields.
        let clean = |byte: &u8| if *byte == NOTARY_SEPARATOR { b' ' } else { *byte };
        let field = |field: &&[u8]| field.iter().map(clean).collect::<Vec<u8>>();
        fields.iter().map(field).collect::<Vec<_>>().join(&NOTARY_SEPARATOR)
    }
}

/// The beginning of a text, of at most `max_len` bytes.
fn cut(text: &str, max_len: usize) -> &str {
    let end = (0..=text.len().min(max_len)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Returns true for a status code: `DIGIT "." 1*3DIGIT "." 1*3DIGIT` (RFC 3464, 2.3.4).
fn is_status_code(text: &str) -> bool {
    enhanced_code(text.as_bytes(), b"0123456789") == Some(text)
}

/// A reply of an SMTP server.
struct SmtpReply {
    code: u16,
    /// Enhanced status code; empty if the reply has none of the class of `code`.
    status: String,
    /// The text of all lines, without codes.
    text: String,
}

impl SmtpReply {
    /// Parses a reply. Returns `None` if a line has no code, or another one than the first line.
    fn parse(reply: &str) -> Option<SmtpReply> {
        let (mut code, mut status, mut texts) = (None, String::new(), Vec::new());
        for line in reply.trim_end().lines() {
            let (digits, rest) = line.split_at_checked(3)?;
            let is_line = rest.is_empty() || rest.starts_with([' ', '-']);
            if !is_line
                || !digits.bytes().all(|byte| byte.is_ascii_digit())
                || *code.get_or_insert(digits) != digits
            {
                return None;
            }
            let mut text = rest.get(1..).unwrap_or_default().trim();
            let (word, after) = text.split_once(' ').unwrap_or((text, ""));
            if is_status_code(word) && word.starts_with(&digits[..1]) {
                status = word.to_string();
                text = after.trim_start();
            }
            texts.extend((!text.is_empty()).then_some(text));
        }
        Some(SmtpReply { code: code?.parse().ok()?, status, text: texts.join(" ") })
    }
}

/// An error message without the number that the standard library appends.
pub(crate) fn reason(error: &io::Error) -> String {
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
            let outcome = Outcome::from_exit_status(code, retry, "text");
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
        assert!(!Verdict::PassedOn.needs_note(true));
        assert_eq!(Verdict::PassedOn.status(Note::NotNeeded), ReportStatus::Ok3);
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
    fn malformed_status_becomes_general_one() {
        for status in ["", "5", "5.1", "5.1.", "5.1.1.1", "55.1.1", "5.1.1111", "5.1.x", "5.1.1 x"]
        {
            for (verdict, general) in [
                (Verdict::Relayed, "2.0.0"),
                (Verdict::RetryAfter(Duration::ZERO), "4.0.0"),
                (Verdict::FailedUnexplained, "5.0.0"),
            ] {
                assert_eq!(Outcome::new(verdict, status, 0, "").status(), general, "{status}");
            }
        }
        assert_eq!(Outcome::new(Verdict::Failed, "5.1.100".to_string(), 0, "").status(), "5.1.100");
    }

    #[test]
    fn smtp_replies_become_outcomes() {
        for (reply, verdict, notary, text) in [
            ("250 2.1.5 ok\r\n", Verdict::Relayed, "2.1.5 (ok)^smtp; 250 (ok)^", "250 2.1.5 ok"),
            ("250", Verdict::Relayed, "2.0.0 ()^smtp; 250 ()^", "250"),
            ("450 later", Verdict::Deferred, "4.0.0 (later)^smtp; 450 (later)^", "450 later"),
            (
                "550-5.7.1 not\n550 5.7.1 for you",
                Verdict::Failed,
                "5.7.1 (not for you)^smtp; 550 (not for you)^",
                "550 5.7.1 not for you",
            ),
            // A code of another class is text.
            ("550 4.7.1 x", Verdict::Failed, "5.0.0 (4.7.1 x)^smtp; 550 (4.7.1 x)^", "550 4.7.1 x"),
            (
                "354 go on",
                Verdict::Deferred,
                "4.5.0 (unexpected reply 354)^x-local; 451 (unexpected reply 354)^",
                "unexpected reply 354",
            ),
            (
                "550-one\n551 two",
                Verdict::Deferred,
                "4.5.0 (malformed reply)^x-local; 451 (malformed reply)^",
                "malformed reply: 550-one\n551 two",
            ),
            (
                "55\u{e9} x",
                Verdict::Deferred,
                "4.5.0 (malformed reply)^x-local; 451 (malformed reply)^",
                "malformed reply: 55\u{e9} x",
            ),
            (
                "",
                Verdict::Deferred,
                "4.5.0 (malformed reply)^x-local; 451 (malformed reply)^",
                "malformed reply: ",
            ),
        ] {
            let outcome = Outcome::from_smtp_reply(Verdict::Relayed, reply);
            assert_eq!(outcome.verdict(), verdict, "{reply}");
            assert_eq!(outcome.text(), text, "{reply}");
            let sent = String::from_utf8(outcome.notary(b"u")).expect("text").replace('\x01', "^");
            let (_, sent) = sent.split_once("ed^").expect("an action");
            assert_eq!(sent, notary, "{reply}");
        }
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
