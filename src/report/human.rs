//! The part for people: what happened to which address, what the remote host said, what to do.
//!
//! ```text
//! Your message could not be delivered to 1 recipient, and is not tried again:
//!
//!   list@example.net
//!     resolved to bob@example.net
//!     The mail server mx.example.net (192.0.2.1) said:
//!       550 no such user
//!     Check the spelling of the address, or ask the recipient for the right one.
//! ```

use crate::address::{MAX_ADDRESS_LEN, TypedAddress, report_mailbox};
use crate::field::{Charset, date, one_line};
use crate::notary::{Outcome, without_parentheses};
use crate::original::header;
use crate::{DsnAction, Form, MAX_REPORTED_RECIPIENTS, Report};
use memchr::memchr;
use textwrap::{Options, WordSplitter};
use zsched_format::printable::{count, grouped};

/// Maximum number of recipients described; the part for programs has the others.
const MAX_DESCRIBED_RECIPIENTS: usize = 50;
/// Maximum number of lines quoted for a recipient.
const MAX_QUOTED_LINES: usize = 12;
/// Maximum length of a quoted line, in bytes.
const MAX_QUOTED_LINE_LEN: usize = 500;
/// Maximum length of other values, in bytes.
const MAX_VALUE_LEN: usize = 200;
/// Width of the text, in columns.
const WIDTH: usize = 72;

/// Composes the part. Its lines end with LF.
pub(crate) fn text(report: &Report<'_>, form: &Form, outcomes: &[Outcome<'_>]) -> String {
    let mut text = HumanText { report, text: String::new() };
    match form.text().trim() {
        "" => text.introduce(),
        _ => text.push_form(form),
    }
    let mut undescribed = MAX_DESCRIBED_RECIPIENTS;
    for group in outcomes.chunk_by(|a, b| a.action == b.action) {
        let described = group.len().min(undescribed);
        undescribed -= described;
        text.push_group(group, described);
    }
    text.close(outcomes);
    text.text
}

struct HumanText<'a> {
    report: &'a Report<'a>,
    text: String,
}

impl HumanText<'_> {
    fn is_double_fault(&self) -> bool {
        report_mailbox(self.report.sender).is_none()
    }

    fn message(&self) -> &'static str {
        if self.is_double_fault() { "The report" } else { "Your message" }
    }

    fn introduce(&mut self) {
        let host = value(self.report.reporting_mta.as_bytes());
        self.paragraph(&format!("This is the mail system at {host}."));
        if self.is_double_fault() {
            self.paragraph(
                "This is about a report to the sender of a message, which could not be delivered. \
                 Only you are told.",
            );
        }
    }

    fn push_form(&mut self, form: &Form) {
        self.text.push_str(form.text().trim_end());
        // A CR would be encoded.
        self.text.retain(|c| c != '\r');
        self.text.push_str("\n\n");
    }

    /// Appends the recipients of one action, the first ones with a description.
    fn push_group(&mut self, group: &[Outcome<'_>], described: usize) {
        let message = self.message();
        let recipients = count(group.len() as u64, "recipient");
        self.paragraph(&match group[0].action {
            DsnAction::Failed => {
                format!("{message} could not be delivered to {recipients}, and is not tried again:")
            }
            DsnAction::Delayed => format!(
                "{message} has not reached {recipients} yet. It is tried again: you need not do \
                 anything, and need not send it again."
            ),
            DsnAction::Relayed => format!(
                "{message} was passed on for {recipients} to a mail system that may send no \
                 notice of the delivery:"
            ),
            DsnAction::Delivered => format!("{message} was delivered to {recipients}:"),
            DsnAction::Expanded => format!(
                "{message} was delivered to {recipients}, and passed on to the members of a list:"
            ),
        });
        group[..described].iter().for_each(|outcome| self.push_recipient(outcome));
        if described < group.len() {
            let others = count((group.len() - described) as u64, "more recipient");
            self.paragraph(&format!("{others}: see the part for programs of this report."));
        }
    }

    fn push_recipient(&mut self, outcome: &Outcome<'_>) {
        let mut names = names(outcome).into_iter();
        self.line(2, &names.next().unwrap_or_default());
        let others: Vec<String> = names.collect();
        if !others.is_empty() {
            self.line(4, &format!("resolved to {}", others.join(", ")));
        }
        let is_success = outcome.action.class() == b'2';
        if is_success && let Some(time) = outcome.recipient.time {
            self.line(4, &format!("on {}", date(time, &self.report.zone)));
        }
        let quoted = quoted_lines(outcome);
        if !(quoted.is_empty() || is_success && outcome.remote.is_empty()) {
            self.line(4, &heading(outcome, &quoted));
            quoted.iter().for_each(|line| self.wrapped(6, line));
        }
        if let Some(until) = outcome.recipient.retry_until
            && outcome.action == DsnAction::Delayed
        {
            self.line(4, &format!("Tried again until {}.", date(until, &self.report.zone)));
        }
        if let Some(advice) = advice(outcome).filter(|_| !self.is_double_fault()) {
            self.wrapped(4, advice);
        }
        self.text.push('\n');
    }

    fn close(&mut self, outcomes: &[Outcome<'_>]) {
        let has_failure = outcomes.iter().any(|outcome| outcome.action == DsnAction::Failed);
        if has_failure && !self.is_double_fault() {
            let host = value(self.report.reporting_mta.as_bytes());
            self.paragraph(&format!(
                "If you need help, send this whole report to postmaster@{host}."
            ));
        }
        if outcomes.len() > MAX_REPORTED_RECIPIENTS {
            self.paragraph(&format!(
                "The part for programs names the first {} recipients only.",
                grouped(MAX_REPORTED_RECIPIENTS as u64)
            ));
        }
        self.paragraph(match self.report.body {
            Some(_) => "The message is attached:",
            None => "The headers of the message are attached:",
        });
        if let Some(subject) = subject(self.report.headers) {
            self.wrapped(2, &format!("Subject: {subject}"));
        }
        self.line(2, &format!("Arrived: {}", date(self.report.arrival, &self.report.zone)));
        self.line(2, &format!("Logged as: {}", value(self.report.spool_id.as_bytes())));
        self.text.truncate(self.text.trim_end().len());
        self.text.push('\n');
    }

    /// Appends a paragraph and an empty line.
    fn paragraph(&mut self, paragraph: &str) {
        self.wrapped(0, paragraph);
        self.text.push('\n');
    }

    fn wrapped(&mut self, indent: usize, text: &str) {
        let indent = " ".repeat(indent);
        // Addresses and links stay whole.
        let options = Options::new(WIDTH)
            .initial_indent(&indent)
            .subsequent_indent(&indent)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation);
        for line in textwrap::wrap(text, options) {
            self.text.extend([&line, "\n"]);
        }
    }

    fn line(&mut self, indent: usize, line: &str) {
        self.text.extend([" ".repeat(indent).as_str(), line, "\n"]);
    }
}

fn value(value: &[u8]) -> String {
    one_line(value, MAX_VALUE_LEN, Charset::Utf8)
}

/// The addresses of a recipient, from the one that the sender wrote to the final one.
fn names(outcome: &Outcome<'_>) -> Vec<String> {
    let recipient = outcome.recipient;
    let typed = [recipient.original_recipient, recipient.arrived_as];
    let typed = typed.into_iter().flatten().filter_map(TypedAddress::parse);
    let plain = [recipient.address, outcome.address].map(<[u8]>::to_vec);
    let mut names: Vec<String> = Vec::new();
    for address in typed.map(|typed| typed.address).chain(plain) {
        let name = one_line(&address, MAX_ADDRESS_LEN, Charset::Utf8);
        if !name.is_empty() && !names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            names.push(name);
        }
    }
    names
}

/// The answer of the remote host, and what the agent said.
fn quoted_lines(outcome: &Outcome<'_>) -> Vec<String> {
    let texts = outcome.recipient.text.split(|byte| *byte == b'\r');
    let texts = texts.filter(|text| !text.trim_ascii().is_empty());
    let mut lines: Vec<String> = texts
        .take(MAX_QUOTED_LINES)
        .map(|line| one_line(line, MAX_QUOTED_LINE_LEN, Charset::Utf8))
        .collect();
    let answer = answer(outcome.diagnostic);
    let text = answer.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    if !text.is_empty() && !lines.iter().any(|line| line.contains(text)) {
        // An agent may repeat the answer without its status code.
        lines.retain(|line| !text.ends_with(line.as_str()));
        lines.insert(0, answer);
    }
    lines
}

/// The line before the quoted ones.
fn heading(outcome: &Outcome<'_>, quoted: &[String]) -> String {
    let answer = answer(outcome.diagnostic);
    let code = answer.split(' ').next().filter(|code| code.len() == 3);
    let is_quoted = |code: &str| quoted.iter().any(|line| line.contains(code));
    match remote_host(outcome.remote) {
        host if host.is_empty() => "The reason:".to_string(),
        host if code.is_some_and(is_quoted) => format!("The mail server {host} said:"),
        host => format!("Last attempt, at the mail server {host}:"),
    }
}

/// The answer in a diagnostic code: `550 no such user` from `smtp; 550 (no such user)`.
///
/// Codes that no remote host has given are left out: local ones, and 466, by which ZMailer's agents
/// say that they got no answer.
fn answer(diagnostic: &[u8]) -> String {
    let (kind, text) = match memchr(b';', diagnostic) {
        Some(at) => (diagnostic[..at].trim_ascii(), diagnostic[at + 1..].trim_ascii()),
        None => (&b""[..], diagnostic),
    };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (code, remark) = text.split_at(digits);
    let remark = one_line(without_parentheses(remark), MAX_QUOTED_LINE_LEN, Charset::Utf8);
    let is_smtp = kind.eq_ignore_ascii_case(b"smtp") && code != b"466";
    match (is_smtp, digits) {
        (true, 3) => format!("{} {remark}", String::from_utf8_lossy(code)).trim_end().to_string(),
        (_, 3) => remark,
        _ => one_line(text, MAX_QUOTED_LINE_LEN, Charset::Utf8),
    }
}

/// The remote host without the type of its name and without ports:
/// `mx.example.net (192.0.2.1)`.
fn remote_host(remote: &[u8]) -> String {
    let name = memchr(b';', remote).map_or(remote, |at| &remote[at + 1..]);
    let shown = value(name);
    match shown.split_once('|') {
        Some((address, _)) if address.contains('(') => format!("{address})"),
        _ => shown,
    }
}

/// Advice to the sender about a failure.
///
/// It depends on subject and detail of its status (RFC 3463).
fn advice(outcome: &Outcome<'_>) -> Option<&'static str> {
    if outcome.action != DsnAction::Failed {
        return None;
    }
    let mut numbers = outcome.status.split('.').skip(1);
    let (subject, detail) = (numbers.next()?, numbers.next()?);
    Some(match (subject, detail) {
        ("1", "2" | "10") | ("4", "4") => {
            "Check the part of the address after the @: mail to it cannot be delivered."
        }
        ("1", "7" | "8") => "The address of the sender was refused: check your mail program.",
        ("1", _) => "Check the spelling of the address, or ask the recipient for the right one.",
        ("2", "1") => "The mailbox is disabled. Ask the recipient for another address.",
        ("2", "2") => "The mailbox is full. Tell the recipient, or send the message again later.",
        ("2", "3") | ("3", "4") => {
            "The message is too large. Send it in smaller parts, or send a link to large files."
        }
        ("4", "6") => {
            "The message went in circles. The postmasters of both sides can correct that."
        }
        ("4", _) => {
            "The mail system of the recipient could not be reached for too long. Send the message \
             again later, or contact the recipient in another way."
        }
        ("6", _) => "The other mail system cannot handle the format of the message.",
        ("7", _) => {
            "The other mail system does not accept the message. Change it as the reason above \
             says, or contact the recipient in another way."
        }
        _ => return None,
    })
}

/// The subject of the message, if it can be shown without decoding.
fn subject(headers: &[u8]) -> Option<String> {
    let subject = value(header(headers, "Subject")?);
    (!subject.is_empty() && !subject.contains("=?")).then_some(subject)
}
