//! The headers that agents send: those of the submission, and the ones that it lacks.

use super::envelope::{Envelope, EnvelopeSender};
use super::message::Facts;
use super::submission::Submission;
use jiff::Zoned;
use jiff::tz::TimeZone;
use zsched_format::header::Field;
use zsched_spool::obsoletes::MAX_OBSOLETES;

/// Maximum number of `Received` headers. A message with more is in a loop (RFC 5321, 6.3).
pub const MAX_RECEIVED: usize = 100;
/// Sender in the From header of a report.
const NULL_SENDER: &str = "MAILER-DAEMON";

/// Returns the number of `Received` headers.
pub(crate) fn received_count(submission: &Submission) -> usize {
    submission.fields_named(&["Received"]).count()
}

/// The headers for agents: `Received` first, then those of the message without Bcc, then what it
/// lacks.
pub(crate) fn compose(submission: &Submission, facts: &Facts<'_>, sender: Option<&str>) -> Vec<u8> {
    let date = date(facts);
    let mut headers = received(&submission.envelope, facts, &date);
    let is_kept = |field: &&Field| !field.is("Bcc") && !field.is("Resent-Bcc");
    submission.fields.iter().filter(is_kept).for_each(|field| headers.extend(field.lines()));
    let mut add = |name: &str, value: String| {
        if submission.fields_named(&[name]).next().is_none() {
            headers.extend(Field::new(name, &value).lines());
        }
    };
    add("From", from(&submission.envelope, facts, sender));
    add("Message-Id", message_id(facts));
    add("Date", date);
    headers
}

/// The Message-ID of the message on one line, or the one that it gets.
pub(crate) fn log_id(submission: &Submission, facts: &Facts<'_>) -> String {
    let field = submission.fields_named(&["Message-ID"]).next();
    let value = String::from_utf8_lossy(field.map_or(b"", Field::value));
    match &*value {
        "" => message_id(facts),
        value => value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
    }
}

/// The Message-IDs that the header Obsoletes names (RFC 1327), or Supersedes (RFC 2156).
pub(crate) fn obsoletes(submission: &Submission) -> Vec<String> {
    let fields = submission.fields_named(&["Obsoletes", "Supersedes"]);
    let words = fields.flat_map(|field| {
        let words = field.value().split(|byte| byte.is_ascii_whitespace() || *byte == b',');
        words.filter_map(|word| str::from_utf8(word).ok())
    });
    let ids = words.filter(|word| word.starts_with('<') && word.ends_with('>'));
    ids.take(MAX_OBSOLETES).map(str::to_string).collect()
}

fn message_id(facts: &Facts<'_>) -> String {
    format!("<{}@{}>", facts.id, facts.hostname)
}

/// The arrival of the message: the last change of its file.
fn date(facts: &Facts<'_>) -> String {
    let nanoseconds = facts.id.modified.subsec_nanoseconds() as i32;
    let instant =
        jiff::Timestamp::new(facts.id.modified.seconds(), nanoseconds).unwrap_or_default();
    let zoned: Zoned = instant.to_zoned(TimeZone::system());
    jiff::fmt::rfc2822::to_string(&zoned).unwrap_or_default()
}

/// The trace header (RFC 5321, 4.4).
fn received(envelope: &Envelope, facts: &Facts<'_>, date: &str) -> Vec<u8> {
    let mut words = vec!["Received:".to_string()];
    if let Some(from) = &envelope.received_from {
        // Programs of this host say `STDIN ("user"@host)`: only the comment belongs here.
        match from.strip_prefix("STDIN") {
            Some(comment) => words.push(comment.trim().to_string()),
            None => words.push(format!("from {from}")),
        }
    }
    words.retain(|word| !word.is_empty());
    words.push(format!("by {}", facts.hostname));
    let mut text = words.join(" ");
    // The clause `tls` (RFC 8314, 4.3) belongs behind the id (RFC 5321, 4.4).
    let (with, tls) = match &envelope.with {
        Some(with) => with
            .split_once(" tls ")
            .map_or((Some(with.as_str()), None), |(with, tls)| (Some(with), Some(tls))),
        None => (None, None),
    };
    let transport: Vec<String> = [("via", envelope.via.as_deref()), ("with", with)]
        .into_iter()
        .filter_map(|(word, value)| Some(format!("{word} {}", value?)))
        .collect();
    text.push_str(if transport.is_empty() { " " } else { "\n\t" });
    for words in transport {
        text.push_str(&words);
        text.push(' ');
    }
    let tls = tls.map_or(String::new(), |cipher| format!("\n\ttls {cipher}"));
    format!("{text}id {}{tls};\n\t{date}\n", facts.id).into_bytes()
}

fn from(envelope: &Envelope, facts: &Facts<'_>, sender: Option<&str>) -> String {
    let null = format!("{NULL_SENDER}@{}", facts.hostname);
    let address = match &envelope.sender {
        Some(EnvelopeSender::Null) => &null,
        _ => sender.unwrap_or(&null),
    };
    match envelope.full_name.as_deref() {
        None => address.to_string(),
        Some(name) => format!("{} <{address}>", phrase(name)),
    }
}

/// Formats a name for use before an address: quoted, unless it is plain words.
fn phrase(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " -_'!#$%&*+/=?^`{|}~".contains(c);
    if name.chars().all(is_plain) {
        return name.to_string();
    }
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}
