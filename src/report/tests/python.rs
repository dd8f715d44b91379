//! Reports as Python's `email` package reads them.

use super::reader::ReadReport;
use super::{recipient, report};
use crate::{Form, RecipientStatus, Report, compose};
use std::io::Write;
use std::process::{Command, Stdio};

/// Prints the types of the parts, the fields of the second one, and the original message.
const SCRIPT: &str = "import email, email.policy, sys\n\
    data = sys.stdin.buffer.read().split(b'env-end\\n', 1)[1]\n\
    message = email.message_from_bytes(data, policy=email.policy.default)\n\
    text, status, original = message.iter_parts()\n\
    assert not message.defects, message.defects\n\
    print(message['Subject'])\n\
    print(message.get_content_type(), message.get_param('report-type'))\n\
    for part in text, status, original:\n\
    \x20   print(part.get_content_type())\n\
    print(len(text.get_content()))\n\
    if status.get_content_type() == 'message/delivery-status':\n\
    \x20   for block in status.get_payload():\n\
    \x20       for name, value in block.items(): print(f'{name}: {value}')\n\
    if original.get_content_type() == 'message/rfc822':\n\
    \x20   inner = original.get_payload(0)\n\
    \x20   print(inner['Subject'], repr(inner.get_content()))\n";

/// Returns what the script prints about a report.
fn as_python_reads(file: &[u8]) -> String {
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    python.stdin.take().expect("a pipe").write_all(file).expect("written");
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(file));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn check(report: &Report<'_>) -> String {
    let file = compose(report, &Form::default()).expect("a report");
    let ours = ReadReport::of(&file);
    let seen = as_python_reads(&file);
    let mut lines = seen.lines().skip(1);
    let subtype = ours.types[2].trim_start_matches("message/");
    assert_eq!(lines.next(), Some(format!("multipart/report {subtype}").as_str()));
    for kind in &ours.types[1..] {
        assert_eq!(lines.next(), Some(kind.as_str()));
    }
    assert_eq!(
        lines.next(),
        Some(ours.text.replace("\r\n", "\n").chars().count().to_string().as_str())
    );
    if subtype == "delivery-status" {
        for (name, value) in ours.blocks.iter().flatten() {
            assert_eq!(lines.next(), Some(format!("{name}: {value}").as_str()));
        }
    }
    seen
}

#[test]
fn python_reads_the_same_fields() {
    let notary = b"bob@b.test\x01failed\x015.1.1 (no (such) user)\x01smtp; 550 (caf\xc3\xa9)\x01mx (192.0.2.1)\x01smtp[7]";
    let bob = recipient("bob@b.test", notary, "no such user");
    let late = recipient("late@b.test", b"\x03\x01delayed\x01\x01\x01", "\rcaf\u{e9}\r\rlater");
    let original_recipient = Some(&b"rfc822;b+2Bob@b.test"[..]);
    let recipients = vec![RecipientStatus { original_recipient, ..bob }, late];
    let body = "Content-Type: text/plain\n\n--S77AbmKUKEJuveqC.0=_--\n\nend";
    let body = Some(body.as_bytes());
    let seen = check(&Report { recipients: recipients.clone(), body, ..report() });
    assert!(seen.starts_with("Not delivered: your mail to bob@b.test\n"), "{seen}");
    assert!(seen.contains("--S77AbmKUKEJuveqC.0=_--\\n\\nend'"), "{seen}");
    check(&Report { recipients, body: None, ..report() });
}

#[test]
fn python_reads_reports_about_international_mail() {
    let bob =
        recipient("b\u{f6}b@b.test", b"\x03\x01failed\x015.1.1\x01smtp; 550 (caf\xc3\xa9)\x01", "");
    for headers in ["Subject: caf\u{e9}\n".as_bytes(), b"Subject: caf\xe9\n"] {
        for body in [None, Some("caf\u{e9}\n".as_bytes()), Some(b"caf\xe9\n")] {
            let recipients = vec![bob];
            let seen = check(&Report { recipients, headers, body, ..report() });
            assert!(seen.starts_with("Not delivered: your mail to b\u{f6}b@b.test\n"), "{seen}");
        }
    }
}
