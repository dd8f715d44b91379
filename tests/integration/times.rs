//! Times that senders set, and priorities that operators change: `submit`, `mailq`, a restart.

use crate::support::{Site, holds_before_deadline};
use std::io::Write;
use std::process::{Command, Stdio};
use zsched_tests::program;

const CF: &str = "c/*\n\tjob-order command=\"${AGENTS}/count.py c\"\n";

fn submitted(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(program("submit"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(["-c", "c"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("a pipe").write_all(b"Subject: x\n\nhi\n").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a name").trim().to_string()
}

fn mailq(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(program("mailq"));
    command.arg("-Z").arg(site.path("zmailer.conf")).args(arguments);
    let output = command.output().expect("mailq runs");
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    String::from_utf8_lossy(said).into_owned()
}

#[track_caller]
fn until_why_says(site: &Site, name: &str, expected: &str) {
    let mut last = String::new();
    let is_said = holds_before_deadline(|| {
        last = mailq(site, &["why", name]);
        last.contains(expected)
    });
    assert!(is_said, "{expected}: {last}");
}

#[test]
fn scheduled_message_is_delivered_after_a_restart_or_deleted_before() {
    let site = Site::new(CF);
    let daemon = site.start();
    let late = submitted(&site, &["--not-before", "+1d", "late@h.test"]);
    let soon = submitted(&site, &["--not-before", "+5s", "soon@h.test"]);
    until_why_says(&site, &late, "is scheduled for");
    daemon.kill();
    let _daemon = site.start();
    assert!(holds_before_deadline(|| site.files("transport") == [late.clone()]), "{soon}");
    until_why_says(&site, &late, "is scheduled for");
    assert!(mailq(&site, &["delete", &late]).contains("Deleted"), "without a report");
    assert!(holds_before_deadline(|| site.files("transport") == [""; 0]));
    assert_eq!(site.files("router"), [""; 0], "no report");
}

#[test]
fn changed_priority_is_seen_at_once_and_after_a_restart() {
    let site = Site::new(CF);
    let daemon = site.start();
    let name = submitted(&site, &["--priority", "z", "kept@h.test"]);
    until_why_says(&site, &name, "is kept: the priority is z");
    assert!(mailq(&site, &["priority", &name, "3", "--dry-run"]).contains("Would be"));
    let other = submitted(&site, &["--not-before", "+1d", "other@h.test"]);
    until_why_says(&site, &other, "is scheduled for");
    let said = mailq(&site, &["priority", &other, "z"]);
    assert!(said.contains("1 message"), "{said}");
    daemon.kill();
    let _daemon = site.start();
    let is_z = || mailq(&site, &["orders", "--json"]).contains("priority z");
    assert!(holds_before_deadline(is_z), "{}", mailq(&site, &["orders", "--json"]));
    until_why_says(&site, &name, "is kept: the priority is z");
    mailq(&site, &["priority", &name, "3"]);
    assert!(holds_before_deadline(|| site.files("transport") == [other.clone()]));
}
