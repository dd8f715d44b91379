//! Bytes of strangers cannot break a report, and it stays small.

use super::reader::ReadReport;
use super::{recipient, report};
use crate::{
    DsnAction, Form, MAX_LEN_WITHOUT_ORIGINAL, MAX_REPORTED_RECIPIENTS, RecipientStatus, Report,
    action_of, compose,
};
use proptest::prelude::*;
use zsched_format::time::Timestamp;

const FIELDS: [&str; 15] = [
    "Original-Envelope-Id",
    "Reporting-MTA",
    "Arrival-Date",
    "Original-Recipient",
    "Final-Recipient",
    "Action",
    "Status",
    "Remote-MTA",
    "Diagnostic-Code",
    "Last-Attempt-Date",
    "Final-Log-ID",
    "Will-Retry-Until",
    "X-ZTAID",
    "X-Destination",
    "",
];

/// Text with much of what has a meaning in reports.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        "\0",
        "\x1b[2J",
        "\u{202e}",
        "\u{e9}",
        " ",
        "<",
        ">",
        "(",
        ")",
        "\\",
        "\"",
        ";",
        ":",
        "@",
        "=",
        "+0A",
        "+3E",
        "a@b.test",
        "rfc822;",
        "utf-8;",
        "\\x{a}",
        "\n--S77AbmKUKEJuveqC.0=_\n",
        "--S77AbmKUKEJuveqC.1=_--",
        "Status: 2.0.0",
        "\nto <c@d>",
        "\nenv-end\n",
        "\nFinal-Recipient: rfc822; x\n",
        "\nContent-Type: text/html\n\n",
        "5.1.1",
    ]);
    let piece = prop_oneof![
        3 => pieces.prop_map(|piece| piece.as_bytes().to_vec()),
        1 => any::<Vec<u8>>(),
        1 => "[a-z]{1,80}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Notary data with hostile fields.
fn notary() -> impl Strategy<Value = Vec<u8>> {
    let action = prop::sample::select(DsnAction::ALL.to_vec());
    (action, hostile(), hostile(), hostile(), hostile(), hostile()).prop_map(
        |(action, address, status, diagnostic, remote, agent)| {
            let action = action.word().as_bytes().to_vec();
            let fields = [address, action, status, diagnostic, remote, agent];
            let clean =
                |field: Vec<u8>| field.into_iter().filter(|byte| *byte != 1).collect::<Vec<_>>();
            fields.map(clean).join(&1)
        },
    )
}

/// Notary data, address, `ORCPT` and text.
type HostileRecipient = (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>);

#[derive(Debug)]
struct Facts {
    sender: Vec<u8>,
    names: [String; 4],
    envelope_id: Vec<u8>,
    recipients: Vec<HostileRecipient>,
    headers: Vec<u8>,
    body: Option<Vec<u8>>,
}

fn facts() -> impl Strategy<Value = Facts> {
    let name = || hostile().prop_map(|name| String::from_utf8_lossy(&name).into_owned());
    let recipient = (notary(), hostile(), hostile(), hostile());
    let envelope = (hostile(), [name(), name(), name(), name()], hostile());
    let recipients = prop::collection::vec(recipient, 1..5);
    (envelope, recipients, hostile(), prop::option::of(hostile())).prop_map(
        |((sender, names, envelope_id), recipients, headers, body)| {
            let headers = [b"X: ".to_vec(), headers, b"\n".to_vec()].concat();
            Facts { sender, names, envelope_id, recipients, headers, body }
        },
    )
}

impl Facts {
    fn report(&self) -> Report<'_> {
        let [mta, submitter, spool_id, id] = &self.names;
        let recipients =
            self.recipients.iter().map(|(notary, address, orcpt, text)| RecipientStatus {
                address,
                channel: text,
                host: orcpt,
                original_recipient: Some(orcpt),
                arrived_as: Some(text),
                notary,
                text,
                time: Some(Timestamp::from_seconds(1_795_255_455)),
                retry_until: Some(Timestamp::from_seconds(i64::MAX)),
            });
        Report {
            reporting_mta: mta,
            submitter,
            spool_id,
            id,
            sender: Some(&self.sender),
            envelope_id: Some(&self.envelope_id),
            recipients: recipients.collect(),
            headers: &self.headers,
            body: self.body.as_deref(),
            ..report()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn hostile_facts_do_not_break_a_report(facts in facts()) {
        let report = facts.report();
        let form = Form::parse(b"ADR Bcc: <postmaster>\n").expect("a form");
        let file = compose(&report, &form).expect("an address and a recipient");
        let read = ReadReport::of(&file);
        check_envelope(&read)?;
        prop_assert_eq!(read.types[0].as_str(), "multipart/report");
        prop_assert_eq!(read.types[1].as_str(), "text/plain");
        prop_assert_eq!(read.blocks.len(), 1 + report.recipients.len());
        check_blocks(&read)?;
        let expected = match report.body {
            Some(body) => [report.headers, b"\n", body].concat(),
            None => report.headers.to_vec(),
        };
        // The parser takes a CR at the end as part of the line end before the boundary.
        let expected = expected.strip_suffix(b"\r").unwrap_or(&expected);
        prop_assert_eq!(&read.original, expected);
        for line in read.head.split(|byte| *byte == b'\n') {
            prop_assert!(line.len() <= 998 && !line.contains(&b'\r') && !line.contains(&0));
        }
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\r';
        prop_assert!(!read.text.contains(is_control), "{:?}", read.text);
    }
}

fn check_envelope(read: &ReadReport) -> Result<(), TestCaseError> {
    for line in &read.envelope {
        let is_known = ["rcvdfrom STDIN (", "channel error", "errormsg", "todsn ORCPT=", "to <"]
            .into_iter()
            .any(|word| line.starts_with(word));
        prop_assert!(is_known, "{line}");
    }
    let recipients = read.envelope.iter().filter(|line| line.starts_with("to <")).count();
    prop_assert!(recipients <= 2, "the sender and the postmaster: {:?}", read.envelope);
    Ok(())
}

fn check_blocks(read: &ReadReport) -> Result<(), TestCaseError> {
    let is_ascii = read.types[2] == "message/delivery-status";
    prop_assert!(is_ascii || read.types[2] == "message/global-delivery-status");
    for (name, value) in read.blocks.iter().flatten() {
        prop_assert!(FIELDS.contains(&name.as_str()), "{name}");
        prop_assert!(!value.contains(char::is_control) && (!is_ascii || value.is_ascii()));
    }
    for block in &read.blocks[1..] {
        let one = |name: &str| {
            let values: Vec<_> = block.iter().filter(|field| field.0 == name).collect();
            if let [field] = values[..] { field.1.clone() } else { panic!("{name}: {values:?}") }
        };
        prop_assert!(one("Final-Recipient").contains("; "));
        let action = one("Action");
        let status = one("Status");
        let code = status.split(' ').next().unwrap_or_default();
        prop_assert_eq!(
            zsched_format::status_code::enhanced_code(code.as_bytes(), b"245"),
            Some(code)
        );
        let classes = match action.as_str() {
            "failed" => "45",
            "delayed" => "4",
            _ => "2",
        };
        prop_assert!(classes.contains(&code[..1]), "{action} {status}");
    }
    Ok(())
}

#[test]
fn report_about_very_many_recipients_is_bounded() {
    let address = format!("{}@b.test", "x".repeat(2000));
    let notary = [
        address.as_bytes(),
        b"\x01failed\x015.1.1 (",
        &[b'('; 2000],
        b")\x01smtp; 550 ",
        &[0xe9; 2000],
        b"\x01",
        &[b'm'; 2000],
    ]
    .concat();
    let text = "\rno such user ".repeat(200);
    let one = RecipientStatus {
        original_recipient: Some(address.as_bytes()),
        ..recipient(&address, &notary, &text)
    };
    let recipients = vec![one; MAX_REPORTED_RECIPIENTS + 1];
    let report = Report { recipients, ..report() };
    let file = compose(&report, &Form::default()).expect("a report");
    assert!(file.len() < MAX_LEN_WITHOUT_ORIGINAL, "{}", file.len());
    let read = ReadReport::of(&file);
    assert_eq!(read.values("Final-Recipient").len(), MAX_REPORTED_RECIPIENTS);
    assert!(read.text.contains("could not be delivered to 10,001 recipients"), "{}", read.text);
    assert!(read.text.contains("9,951 more recipients"));
    assert!(read.text.contains("the first 10,000 recipients only"));
}

#[test]
fn usual_number_of_failures_is_reported_with_diagnostics() {
    let addresses: Vec<String> = (0..10_000).map(|number| format!("user{number}@b.test")).collect();
    let notary =
        b"\x03\x01failed\x015.1.1 (no such user)\x01smtp; 550 (no such user)\x01dns; mx.b.test";
    let recipients = addresses.iter().map(|address| recipient(address, notary, "")).collect();
    let file = compose(&Report { recipients, ..report() }, &Form::default()).expect("a report");
    let read = ReadReport::of(&file);
    assert_eq!(read.values("Final-Recipient").len(), 10_000);
    assert_eq!(read.values("Diagnostic-Code").len(), 10_000);
    assert!(read.text.len() < 20_000, "{}", read.text.len());
}

#[test]
fn nobody_is_told_of_nothing() {
    let form = Form::parse(b"ADR Bcc: <postmaster>\n").expect("a form");
    assert!(compose(&report(), &form).is_none(), "no recipient");
    let ignored = b"a@b.test\x01unknown\x015.0.0";
    assert_eq!(action_of(ignored), None);
    let recipients = vec![recipient("a@b.test", ignored, "")];
    assert!(compose(&Report { recipients, ..report() }, &form).is_none(), "no action");
    let recipients = vec![recipient("a@b.test", b"a@b.test\x01failed\x01x", "")];
    let double = Report { recipients, sender: None, ..report() };
    assert!(compose(&double, &Form::default()).is_none(), "a report about a report");
    assert!(compose(&double, &form).is_some(), "the postmaster wants it");
}
