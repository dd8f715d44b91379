//! The message: headers and three parts.
//!
//! `mail-builder` encodes headers and the text for people. The parts are put together here, because
//! its writer ends all lines with CRLF, which would alter the original message: files of the spool
//! have LF.

use crate::address::{error_address, in_header};
use crate::boundary::{id_characters, unused_in};
use crate::delivery_status::DeliveryStatus;
use crate::field::{Charset, one_line};
use crate::notary::Outcome;
use crate::original::{Original, header};
use crate::{Action, Form, Report, ReportKind, human};
use jiff::tz::TimeZone;
use mail_builder::Writer;
use mail_builder::headers::Header;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::MimePart;
use zsched_format::time::Timestamp;

/// Maximum length of a domain name in a header.
const MAX_DOMAIN_LEN: usize = 253;
/// Maximum length of an address in a subject.
const MAX_SUBJECT_ADDRESS_LEN: usize = 60;
/// Recipient of a report for which the sender does not count, as ZMailer writes it.
const NO_SENDER: &str = "dummy:; (error trapped source)";

/// Appends the message of a report.
pub(crate) fn write(report: &Report<'_>, form: &Form, outcomes: &[Outcome<'_>], out: &mut Vec<u8>) {
    let text = human::text(report, form, outcomes);
    let status = DeliveryStatus::new(report, outcomes);
    let original = Original::of(report);
    let [headers, body] = original.pieces();
    let boundary = unused_in(&[text.as_bytes(), status.text.as_bytes(), headers, body], report.id);
    out.reserve(text.len() * 2 + status.text.len() + headers.len() + body.len() + 4096);
    let mut writer = SpoolWriter(out);
    write_headers(report, form, outcomes, &mut writer);
    let is_8bit = original.is_8bit() || !status.text.is_ascii();
    let kind = ContentType::new("multipart/report")
        .attribute("report-type", status.subtype())
        .attribute("boundary", boundary.as_str());
    writer.header("MIME-Version", Raw::new("1.0"));
    writer.header("Content-Type", kind);
    writer.encoding(is_8bit);

    writer.begin_part(&boundary);
    let description = Text::new("Report for people");
    MimePart::new("text/plain", text)
        .header("Content-Description", description)
        .write_part(&mut writer);

    writer.begin_part(&boundary);
    writer.header("Content-Type", ContentType::new(format!("message/{}", status.subtype())));
    writer.header("Content-Description", Text::new("Report for programs"));
    writer.encoding(!status.text.is_ascii());
    writer.verbatim("\n");
    writer.verbatim(&status.text);

    writer.begin_part(&boundary);
    writer.header("Content-Type", ContentType::new(original.content_type()));
    writer.header("Content-Description", Text::new("Original message"));
    writer.encoding(original.is_8bit());
    writer.verbatim("\n");
    original.write_to(writer.0);
    writer.verbatim(&format!("\n--{boundary}--\n"));
}

fn write_headers(
    report: &Report<'_>,
    form: &Form,
    outcomes: &[Outcome<'_>],
    writer: &mut SpoolWriter<'_>,
) {
    let sender = error_address(report.sender);
    match sender.map(in_header) {
        Some(Some(address)) => writer.verbatim(&format!("To: <{address}>\n")),
        Some(None) => writer.verbatim("To: undisclosed-recipients:;\n"),
        None => writer.verbatim(&format!("To: {NO_SENDER}\n")),
    }
    let domain = one_line(report.reporting_mta.as_bytes(), MAX_DOMAIN_LEN, Charset::Ascii);
    if !form.has_header("From") {
        let postmaster = format!("postmaster@{domain}");
        let from = Address::new_address(Some("Mail Delivery System"), postmaster);
        writer.header("From", from);
        if !form.has_header("Sender") {
            let daemon = format!("MAILER-DAEMON@{domain}");
            writer.header("Sender", Address::new_address(None::<&str>, daemon));
        }
    }
    form.headers().iter().for_each(|line| writer.verbatim(&format!("{line}\n")));
    let fault = if sender.is_none() { "Double-fault: " } else { "" };
    match form.subject() {
        Some(subject) => {
            let counts = match report.kind {
                ReportKind::Delivery => counts(outcomes),
                ReportKind::Routing => String::new(),
            };
            writer.verbatim(&format!("Subject: {fault}{subject}{counts}\n"));
        }
        None => {
            let what = if sender.is_none() { "a report" } else { "your mail" };
            let subject = subject(outcomes, what);
            writer.header("Subject", Text::new(format!("{fault}{subject}")));
        }
    }
    writer.header("Date", Raw::new(date(report.now, &report.zone)));
    writer.verbatim(&format!("Message-ID: <{}@{domain}>\n", id_characters(report.id)));
    if let Some(original) = message_id(report.headers) {
        writer.verbatim(&format!("In-Reply-To: {original}\nReferences: {original}\n"));
    }
    writer.header("Auto-Submitted", Raw::new("auto-replied"));
}

/// The number of recipients of each action, for the subject of a form: ` [FAILED(2),DELAYED(1)]`.
fn counts(outcomes: &[Outcome<'_>]) -> String {
    let counts = Action::ALL.map(|action| (action, count(outcomes, action)));
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let words = counts.map(|(action, count)| format!("{}({count})", action.subject_word()));
    format!(" [{}]", words.collect::<Vec<_>>().join(","))
}

fn count(outcomes: &[Outcome<'_>], action: Action) -> usize {
    outcomes.iter().filter(|outcome| outcome.action == action).count()
}

/// The subject of a report without a form. The worst outcome determines it.
fn subject(outcomes: &[Outcome<'_>], what: &str) -> String {
    let Some(worst) = outcomes.first() else { return String::new() };
    let state = match worst.action {
        Action::Failed => "Not delivered",
        Action::Delayed => "Delayed, still trying",
        Action::Relayed | Action::Delivered | Action::Expanded => "Delivered",
    };
    match count(outcomes, worst.action) {
        1 => {
            let address = one_line(worst.address, MAX_SUBJECT_ADDRESS_LEN, Charset::Utf8);
            format!("{state}: {what} to {address}")
        }
        count => format!("{state}: {what} to {count} recipients"),
    }
}

/// The Message-ID in headers, if it is a plain one.
fn message_id(headers: &[u8]) -> Option<&str> {
    const MAX_LEN: usize = 250;
    let id = str::from_utf8(header(headers, "Message-ID")?.trim_ascii()).ok()?;
    let inner = id.strip_prefix('<')?.strip_suffix('>')?;
    let is_plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'<' | b'>');
    (id.len() <= MAX_LEN && inner.bytes().all(is_plain)).then_some(id)
}

/// A date as in headers: `Sat, 21 Nov 2026 10:04:09 +0000`.
pub(crate) fn date(time: Timestamp, zone: &TimeZone) -> String {
    let instant = jiff::Timestamp::from_second(time.seconds()).unwrap_or_default();
    instant.to_zoned(zone.clone()).strftime("%a, %-d %b %Y %H:%M:%S %z").to_string()
}

/// Ends the lines of `mail-builder` with LF.
struct SpoolWriter<'a>(&'a mut Vec<u8>);

impl SpoolWriter<'_> {
    fn header(&mut self, name: &str, value: impl Header) {
        self.verbatim(name);
        self.verbatim(": ");
        value.write_header(self, name.len() + 2);
    }

    fn encoding(&mut self, is_8bit: bool) {
        let encoding = if is_8bit { "8bit" } else { "7bit" };
        self.header("Content-Transfer-Encoding", Raw::new(encoding));
    }

    fn begin_part(&mut self, boundary: &str) {
        self.verbatim(&format!("\n--{boundary}\n"));
    }

    fn verbatim(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }
}

impl Writer for SpoolWriter<'_> {
    /// Appends bytes without CR. What is written here has none but at line ends.
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.split(|byte| *byte == b'\r') {
            self.0.extend_from_slice(piece);
        }
    }
}
