//! Submissions that ZMailer's router has routed, and what it made of them.

use super::support::{Site, data};
use std::fs;

/// Rules with the results of the recorded router.
const RULES: &str = "local zm.example.test\n\
    users any\n\
    route *.ta.test smtp-sim\n\
    route x.dead.test smtpx [127.0.0.66]\n\
    route y.dead2.test smtpx [127.0.0.67]\n\
    route *.hold.test hold timeout:2100000000\n\
    route *.live.test smtpx [127.0.0.1]\n\
    route n.uu.test uucp uunode n.uu.test!u\n\
    route b.bit.test bitbucket -\n\
    refuse unroutable.example.org 5.1.2 \"no such domain\"\n";

/// The lines of a control file outside of the header blocks.
fn envelope_lines(text: &str) -> Vec<&str> {
    let mut is_header = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match is_header {
            true => is_header = !line.is_empty(),
            false => found.push(line),
        }
        is_header |= line == "m";
    }
    found
}

/// The number of a recorded message. Its file in `queue/` is the submission, unchanged.
fn recorded_number(folder: &str) -> String {
    let path = zsched_tests::source().join("tests/data/compat/control-files").join(folder);
    fs::read_dir(path)
        .expect("a folder")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .find_map(|name| Some(name.strip_prefix("transport.")?.to_string()))
        .expect("a control file")
}

/// Routes a recorded submission. Returns the control files of ZMailer's router and of ours.
fn routed(folder: &str) -> (String, String) {
    let site = Site::new(RULES);
    let recorded = recorded_number(folder);
    let made = site.route_one(data(&format!("{folder}/queue.{recorded}")));
    let number = made.lines().find_map(|line| line.strip_prefix("i ")).expect("a number");
    let original = data(&format!("{folder}/transport.{recorded}"));
    let original = String::from_utf8_lossy(&original).replace(&recorded, number);
    (original, made)
}

/// The submitting user differs: the recording's is in the privilege of the sender.
fn same_sender(line: &str) -> String {
    match line.strip_prefix("s ").and_then(|line| line.rsplit_once(' ')) {
        Some((line, _)) => format!("s {line} UID"),
        None => line.to_string(),
    }
}

fn comparable(text: &str) -> Vec<String> {
    envelope_lines(text).into_iter().map(same_sender).collect()
}

#[test]
fn control_files_equal_recorded_ones() {
    for folder in [
        "03-dsn",
        "04-200-rcpts",
        "06-multiline-headers",
        "08-null-sender-channel-error",
        "10-deliverby",
        "11-mixed-results",
        "12-live-smtp",
        "14-ta-dies",
        "18-deferall-deferback-retryat",
        "19-overfeed-1",
        "20-hold-dsn-delay",
    ] {
        let (original, made) = routed(folder);
        assert_eq!(comparable(&made), comparable(&original), "{folder}");
    }
}

/// ZMailer makes a Message-ID of the spool id, the time and a counter; ours has the spool id.
#[test]
fn submission_without_message_id_gets_one() {
    let without_id = |text: &str| -> Vec<String> {
        comparable(text).into_iter().filter(|line| !line.starts_with("l ")).collect()
    };
    for folder in ["01-one-local", "09-bad-envelope-line-bounce"] {
        let (original, made) = routed(folder);
        assert_eq!(without_id(&made), without_id(&original), "{folder}");
    }
    let (_, made) = routed("01-one-local");
    let id = made.lines().find_map(|line| line.strip_prefix("l ")).expect("an id");
    assert!(id.starts_with("<S") && id.ends_with("@zm.example.test>"), "{id}");
    assert!(made.contains(&format!("\nMessage-Id: {id}\n")), "{made}");
    assert!(made.contains("\nReceived: (\"??\"@vm) by zm.example.test id S"), "{made}");
}

/// One group, where ZMailer rewrites addresses for UUCP and writes three; the refused recipient has
/// its tag and its `d` line, where ZMailer's `errormail` would write a report.
#[test]
fn recorded_recipients_of_many_channels_have_same_destinations() {
    let (original, made) = routed("02-multi-channel");
    let recipients = |text: &str| {
        let lines = envelope_lines(text).into_iter().filter(|line| line.starts_with('r'));
        let mut lines: Vec<String> = lines.map(|line| line[2..].to_string()).collect();
        lines.sort();
        lines
    };
    assert_eq!(recipients(&made), recipients(&original));
    let refused = "\nr-          error unresolvable nobody@unroutable.example.org 65534\n";
    assert!(made.contains(refused), "{made}");
    // No server has said it; in the recorded report the code is local, too.
    let code = "\u{1}failed\u{1}5.1.2 (no such domain)\u{1}x-local; 550 (no such domain)\u{1}";
    assert!(made.contains(code), "{made}");
}

/// ZMailer's router takes a header with a blank before its colon for the beginning of the body.
#[test]
fn odd_headers_stay_as_they_are() {
    let site = Site::new(RULES);
    let submission = data("05-8bit-odd-header/queue.10101206");
    let number = site.submit("odd", &submission);
    site.route();
    let made = fs::read(site.spool.transport().join(number.to_string())).expect("routed");
    let start = memchr::memmem::find(&submission, b"From:").expect("headers");
    let end = memchr::memmem::find(&submission, b"\n\n").expect("a body") + 1;
    assert!(memchr::memmem::find(&made, &submission[start..end]).is_some());
    let offset = format!("\no {}\n", end + 1);
    assert!(String::from_utf8_lossy(&made).contains(&offset));
    assert_eq!(fs::read(site.spool.queue().join(number.to_string())).expect("there"), submission);
}

#[test]
fn wrong_envelope_line_goes_to_postman_with_reason() {
    let site = Site::new(RULES);
    let submission = "verbose ../public/v_test1\nfrom <games@zm.example.test>\n\
        to <okverb@host4.ta.test>\nenv-end\nSubject: verbose1\n\nbody\n";
    site.submit("bad", submission);
    let log = site.route();
    assert_eq!(site.names("router"), [""; 0]);
    assert_eq!(site.names("postman"), ["router-error:bad", "router-error:bad:reason"]);
    let moved = fs::read(site.spool.postman().join("router-error:bad")).expect("moved");
    assert_eq!(moved, submission.as_bytes());
    let reason = site.read("postoffice/postman/router-error:bad:reason");
    assert_eq!(reason, "line 1: the name of a verbose file is in quotes\n");
    assert!(log.contains("error: router/bad: line 1: the name"), "{log}");
}
