//! Reports of ZMailer's scheduler. Ours about the same recipients have all of their facts.

use super::reader::ReadReport;
use super::report;
use crate::{Form, RecipientStatus, Report, compose};
use std::path::Path;
use zsched_format::time::Timestamp;
use zsched_format::xtext;

const FORM: &[u8] = b"HDR From: The Post Office <postmaster>\nHDR Sender:\tmailer-daemon\n\
    SUB Subject: Returned mail: see the transcript\n\
    ADR Bcc: <nobody> (recipient of error-on-error reports)\n\n\
    This is a collection of reports about email delivery\n";

/// A recorded report.
struct Recorded {
    text: String,
}

/// A recipient in the text for people of a recorded report.
#[derive(Default)]
struct RecordedRecipient {
    original: Option<Vec<u8>>,
    notary: Vec<u8>,
    text: String,
    time: i64,
    quad: Vec<String>,
}

impl Recorded {
    fn read(name: &str) -> Recorded {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/compat/dsn");
        let text = std::fs::read_to_string(folder.join(name)).expect("a recording");
        Recorded { text }
    }

    /// The text between two lines.
    fn between(&self, start: &str, end: &str) -> &str {
        let (_, rest) = self.text.split_once(start).expect("a start");
        rest.split_once(end).expect("an end").0
    }

    fn envelope(&self) -> Vec<&str> {
        self.text.lines().take_while(|line| *line != "env-end").collect()
    }

    /// The first value of a field of the message or the part for programs.
    fn value(&self, name: &str) -> Option<&str> {
        let values =
            self.text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.into_iter().next()
    }

    /// The fields of the part for programs.
    fn fields(&self) -> Vec<(&str, &str)> {
        let part = self.between("Content-Type: message/delivery-status\n\n", "\n--");
        part.lines().filter_map(|line| line.split_once(": ")).collect()
    }

    /// The recipients in the text for people, which has all notary data.
    fn recipients(&self) -> Vec<RecordedRecipient> {
        let text = self.between("Local-Spool-ID: ", "\nFollowing is a copy of MESSAGE");
        let is_heading = |line: &str| line.ends_with(':') && !line.starts_with(' ');
        let mut blocks: Vec<Vec<&str>> = Vec::new();
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            match blocks.last_mut() {
                _ if is_heading(line) => blocks.push(Vec::new()),
                Some(block) => block.push(line),
                None => panic!("no heading before {line}"),
            }
        }
        blocks.iter().map(|block| RecordedRecipient::of(block)).collect()
    }
}

impl RecordedRecipient {
    fn of(block: &[&str]) -> RecordedRecipient {
        let value = |label: &str| {
            let at = block.iter().position(|line| line.trim() == format!("{label}:"))?;
            Some(block[at + 1].trim().to_string())
        };
        let or_empty = |label: &str| value(label).unwrap_or_default();
        let address = or_empty("Final Recipient").split_once(';').expect("a type").1.to_string();
        let fields = ["Action", "Status", "Diagnostic-Code", "Remote-MTA", "X-ZTAID"].map(or_empty);
        let texts = block.iter().skip_while(|line| line.trim() != "Diagnostic texts:").skip(1);
        let original = value("Original Recipient").map(|original| {
            let (kind, address) = original.split_once(';').expect("a type").to_owned();
            format!("{kind};{}", xtext::encode(address.as_bytes())).into_bytes()
        });
        RecordedRecipient {
            original,
            notary: format!("{address}\x01{}", fields.join("\x01")).into_bytes(),
            text: texts.map(|line| line.trim()).collect::<Vec<_>>().join("\r"),
            time: seconds(&or_empty("Last-Attempt-Date")),
            quad: or_empty("Control data").split(' ').map(str::to_string).collect(),
        }
    }

    fn status(&self) -> RecipientStatus<'_> {
        RecipientStatus {
            channel: self.quad[0].as_bytes(),
            host: self.quad[1].as_bytes(),
            address: self.quad[2].as_bytes(),
            original_recipient: self.original.as_deref(),
            notary: &self.notary,
            text: self.text.as_bytes(),
            time: Some(Timestamp::from_seconds(self.time)),
            ..RecipientStatus::default()
        }
    }
}

fn seconds(date: &str) -> i64 {
    jiff::fmt::rfc2822::parse(date).expect("a date of RFC 2822").timestamp().as_second()
}

/// The field as ours: the recorded program omits hyphens (its defect) and some types, and has the
/// spool id among the fields about the message.
fn as_ours(name: &str, value: &str) -> (String, String) {
    let name = name.replace(' ', "-").replace("Local-Spool-ID", "Final-Log-ID");
    let value = match (name.as_str(), value.split_once(';')) {
        ("Final-Recipient" | "Original-Recipient", Some((kind, address))) => {
            format!("{}; {address}", kind.to_lowercase())
        }
        ("Remote-MTA", None) => format!("dns; {value}"),
        _ => value.to_string(),
    };
    (name, value)
}

fn check(name: &str) {
    let recorded = Recorded::read(name);
    let recipients = recorded.recipients();
    let sender = recorded.value("Return-Path").expect("a sender");
    let envelope_id = recorded.value("Original-Envelope-Id").map(|id| xtext::encode(id.as_bytes()));
    let headers = recorded.between("Content-Type: message/rfc822\n\n", "\n\n").to_string() + "\n";
    let report = Report {
        reporting_mta: "vm",
        submitter: "\"??\"@vm",
        sender: Some(sender.as_bytes()),
        spool_id: recorded.value("Local-Spool-ID").expect("a spool id"),
        envelope_id: envelope_id.as_deref().map(str::as_bytes),
        arrival: Timestamp::from_seconds(seconds(recorded.value("Arrival-Date").expect("a date"))),
        recipients: recipients.iter().map(RecordedRecipient::status).collect(),
        headers: headers.as_bytes(),
        ..report()
    };
    let file = compose(&report, &Form::parse(FORM).expect("the form")).expect("a report");
    let ours = ReadReport::of(&file);
    assert_eq!(ours.envelope, recorded.envelope(), "{name}");
    for (field, value) in recorded.fields().into_iter().map(|(name, value)| as_ours(name, value)) {
        assert!(
            ours.values(&field).contains(&value.as_str()),
            "{name}: {field}: {value}: {ours:?}"
        );
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for recipient in &recipients {
        let text = words(&recipient.text.replace('\r', "\n"));
        assert!(words(&ours.text).contains(&text), "{name}: {text}: {}", ours.text);
    }
    let whole = String::from_utf8(file).expect("text");
    let subject = recorded.value("Subject").and_then(|subject| subject.split(" [").next());
    assert!(whole.contains(&format!("\nSubject: {} [", subject.expect("a subject"))), "{whole}");
    assert!(whole.contains("\nFrom: The Post Office <postmaster>\nSender:\tmailer-daemon\n"));
}

#[test]
fn reports_have_the_facts_of_recorded_ones() {
    for name in [
        "10084389", "10084552", "10085034", "10085036", "10085039", "10085040", "10085051",
        "10085057", "10085059", "10085226", "10085227", "10085238",
    ] {
        check(name);
    }
}

#[test]
fn reports_of_expiry_have_the_facts_of_recorded_ones() {
    check("10150330");
    check("10150813");
}
