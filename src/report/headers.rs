//! The headers of the message, but those of MIME.

use crate::address::{in_header, report_mailbox};
use crate::boundary::id_characters;
use crate::field::{Charset, date, one_line};
use crate::message::SpoolWriter;
use crate::notary::Outcome;
use crate::original::header;
use crate::{DsnAction, Form, Report, ReportKind};
use mail_builder::headers::address::Address;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;

/// Maximum length of a domain name (RFC 1035, 2.3.4).
const MAX_DOMAIN_LEN: usize = 253;
/// Maximum length of an address in a subject.
const MAX_SUBJECT_ADDRESS_LEN: usize = 60;
/// Recipient of a report about a report, as ZMailer writes it.
const NO_SENDER: &str = "dummy:; (error trapped source)";

/// Appends the headers.
pub(crate) fn write(
    report: &Report<'_>,
    form: &Form,
    outcomes: &[Outcome<'_>],
    writer: &mut SpoolWriter<'_>,
) {
    let sender = report_mailbox(report.sender);
    match sender.map(in_header) {
        Some(Some(address)) => writer.verbatim(&format!("To: <{address}>\n")),
        Some(None) => writer.verbatim("To: undisclosed-recipients:;\n"),
        None => writer.verbatim(&format!("To: {NO_SENDER}\n")),
    }
    let domain = domain(report.reporting_mta);
    if !form.has_header("From") {
        let postmaster = format!("postmaster@{domain}");
        writer.header("From", Address::new_address(Some("Mail Delivery System"), postmaster));
        if !form.has_header("Sender") {
            let daemon = format!("MAILER-DAEMON@{domain}");
            writer.header("Sender", Address::new_address(None::<&str>, daemon));
        }
    }
    form.headers().iter().for_each(|line| writer.verbatim(&format!("{line}\n")));
    write_subject(report, form, outcomes, writer);
    writer.header("Date", Raw::new(date(report.now, &report.zone)));
    writer.verbatim(&format!("Message-ID: <{}@{domain}>\n", id_characters(report.id)));
    if let Some(original) = message_id(report.headers) {
        writer.verbatim(&format!("In-Reply-To: {original}\nReferences: {original}\n"));
    }
    writer.header("Auto-Submitted", Raw::new("auto-replied"));
}

/// The characters of a domain name that can stand in an address.
fn domain(name: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let domain: String = name.chars().filter(is_kept).take(MAX_DOMAIN_LEN).collect();
    if domain.is_empty() { "localhost".to_string() } else { domain }
}

fn write_subject(
    report: &Report<'_>,
    form: &Form,
    outcomes: &[Outcome<'_>],
    writer: &mut SpoolWriter<'_>,
) {
    let is_double_fault = report_mailbox(report.sender).is_none();
    let fault = if is_double_fault { "Double-fault: " } else { "" };
    let Some(subject) = form.subject() else {
        let what = if is_double_fault { "a report" } else { "your mail" };
        let subject = format!("{fault}{}", subject(outcomes, what));
        return writer.header("Subject", Text::new(subject));
    };
    let counts = match report.kind {
        ReportKind::Delivery => counts(outcomes),
        ReportKind::Routing => String::new(),
    };
    writer.verbatim(&format!("Subject: {fault}{subject}{counts}\n"));
}

/// The number of recipients of each action, for the subject of a form: ` [FAILED(2),DELAYED(1)]`.
fn counts(outcomes: &[Outcome<'_>]) -> String {
    let counts = DsnAction::ALL.map(|action| (action, count(outcomes, action)));
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    let words = counts.map(|(action, count)| format!("{}({count})", action.subject_word()));
    format!(" [{}]", words.collect::<Vec<_>>().join(","))
}

fn count(outcomes: &[Outcome<'_>], action: DsnAction) -> usize {
    outcomes.iter().filter(|outcome| outcome.action == action).count()
}

/// The subject of a report without a form. The worst outcome determines it.
fn subject(outcomes: &[Outcome<'_>], what: &str) -> String {
    let Some(worst) = outcomes.first() else { return String::new() };
    let state = match worst.action {
        DsnAction::Failed => "Not delivered",
        DsnAction::Delayed => "Delayed, still trying",
        DsnAction::Relayed | DsnAction::Delivered | DsnAction::Expanded => "Delivered",
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
