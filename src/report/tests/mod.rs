mod expected;
mod hostile;
mod python;
mod reader;
mod recordings;

use crate::{RecipientStatus, Report, ReportKind, TimeZone};
use zsched_format::time::Timestamp;

const HEADERS: &[u8] = b"Received: by relay.test id S1; Sat, 21 Nov 2026 10:00:00 +0000\n\
    From: alice@a.test\nSubject: the minutes\n of Monday\nMessage-ID: <m1@a.test>\n";

/// A report without recipients.
fn report() -> Report<'static> {
    Report {
        kind: ReportKind::Delivery,
        reporting_mta: "relay.test",
        submitter: "root@relay.test",
        id: "S77AbmKUKEJuveqC",
        sender: Some(b"alice@a.test"),
        spool_id: "S1AbmKUKEJuveqC",
        envelope_id: None,
        arrival: Timestamp::from_seconds(1_795_255_449),
        now: Timestamp::from_seconds(1_795_255_460),
        zone: TimeZone::UTC,
        recipients: Vec::new(),
        headers: HEADERS,
        body: Some(b"body\n"),
    }
}

fn recipient<'a>(address: &'a str, notary: &'a [u8], text: &'a str) -> RecipientStatus<'a> {
    RecipientStatus {
        address: address.as_bytes(),
        channel: b"smtp",
        host: b"b.test",
        notary,
        text: text.as_bytes(),
        time: Some(Timestamp::from_seconds(1_795_255_455)),
        ..RecipientStatus::default()
    }
}

/// Composes with a form and returns text.
fn composed(report: &Report<'_>, form: &str) -> String {
    let form = crate::Form::parse(form.as_bytes()).expect("a form");
    let file = crate::compose(report, &form).expect("a report");
    String::from_utf8(file).expect("text")
}
