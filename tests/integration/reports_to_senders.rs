//! Reports to senders, as operators see them: in the log, by `mailq`, and while `router/` is away.
//!
//! The agent says `error` with an unknown action, and the recipients are reported as failed.

use crate::support::{Daemon, Site, control_file, until, until_some};
use serde_json::Value;
use std::fs;
use std::process::Command;

const AGENTS: &str = "count/*\n\tcommand=\"${AGENTS}/count.py count\"\n";

/// Starts a scheduler with a status log.
fn start(site: &Site) -> Daemon<'_> {
    site.add_zenv(&format!("STATUSLOG={}", site.path("status").display()));
    site.start()
}

/// Returns the exit status and all output of `mailq`.
fn mailq(site: &Site, arguments: &[&str]) -> (i32, String) {
    let (command, rest) = arguments.split_first().expect("a command");
    let output = Command::new(zsched_tests::program("mailq"))
        .args([command, "-Z"])
        .arg(site.path("zmailer.conf"))
        .args(rest)
        .output()
        .expect("mailq starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("no signal"), String::from_utf8(text).expect("text"))
}

/// Waits until the output of `mailq` contains a text. Returns all of it.
#[track_caller]
fn until_said(site: &Site, arguments: &[&str], wanted: &str) -> String {
    until_some(&format!("mailq {arguments:?} says {wanted:?}"), || {
        let said = mailq(site, arguments).1;
        said.contains(wanted).then_some(said)
    })
}

/// Returns the spool ids of the message and of its report, from the log.
fn reported(site: &Site) -> (String, String) {
    site.until_logged(": report=S", 1);
    let log = site.log();
    let line = log.lines().find(|line| line.contains(": report=S")).expect("a line");
    let (ids, rest) = line.split_once(", ").expect("fields");
    assert_eq!(
        rest, "to=<sender@x>, failed=2, delayed=0, relayed=0, delivered=0, expanded=0",
        "{line}"
    );
    let (about, report) = ids.split_once(": report=").expect("ids");
    (about.split_once(' ').expect("a time").1.to_string(), report.to_string())
}

#[test]
fn trace_shows_report_with_both_messages() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site);
    site.put(&["count a.test error!u1", "count a.test error!u2"]);
    let (message, report) = reported(&site);
    let name = site.files("router").remove(0);
    assert!(report.starts_with(&format!("S{name}A")), "{report}");
    site.until_empty();
    let sent = format!("  report {report}, sent to sender@x ");
    for what in [&*message, "<id@x>", "error!u1"] {
        let said = until_said(&site, &["trace", what], &sent);
        assert!(said.contains(": 2 failed\n"), "{said}");
    }
    let about = format!("  is the report about {message}, sent to sender@x ");
    until_said(&site, &["trace", &report], &about);
    // As a router does: the file keeps its number and its time.
    fs::rename(
        site.path(&format!("postoffice/router/{name}")),
        site.path(&format!("postoffice/queue/{name}")),
    )
    .expect("routed");
    let control = control_file(&name, &["count b.test ok!sender"]);
    site.write(&format!("postoffice/transport/{name}"), &control);
    site.notify(&format!("NEW {name}"));
    site.until_empty();
    let said = until_said(&site, &["trace", &report], " delivered");
    assert!(said.contains(&about), "{said}");
    let said = mailq(&site, &["stats"]).1;
    assert!(!said.contains("cannot be read"), "{said}");
}

#[test]
fn log_without_mail_lines_has_no_line_about_report() {
    let site = Site::new(AGENTS);
    let daemon = site.start_with(&["--mail-lines", "none"]);
    site.put(&["count a.test error!u1"]);
    site.until_submission();
    site.until_empty();
    daemon.end(libc::SIGTERM);
    assert_eq!(site.logged("report="), 0);
}

#[test]
fn planned_report_and_deadline_are_shown() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site);
    let deferred = "count a.test deferred!u2 | BY=3600;R";
    let name = site.put(&["count a.test error!u1", deferred]).to_string();
    for command in ["why", "show"] {
        let said = until_said(&site, &[command, &name], "its sender gets a report within 5m\n");
        assert!(said.contains("fails at "), "{said}");
        assert!(said.contains(": its sender wants it delivered by then\n"), "{said}");
    }
    let (_, text) = mailq(&site, &["show", "--json", &name]);
    let shown: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&shown["report"], &shown["deliver_by_returns"]), (&"planned".into(), &true.into()));
    assert!(shown["deliver_by"].is_number(), "{text}");
}

/// Nothing is lost, and operators are told, also after a kill.
#[test]
fn report_waits_for_missing_router() {
    let site = Site::new(AGENTS);
    let (router, away) = (site.path("postoffice/router"), site.path("postoffice/away"));
    fs::rename(&router, &away).expect("renamed");
    let daemon = start(&site);
    let name = site.put(&["count a.test error!u1", "count a.test error!u2"]).to_string();
    let failure = format!("{name}: cannot put a report into router/: ");
    until("the log says so", || site.logged(&failure) >= 1);
    until_said(&site, &["summary"], "; 1 report to be sent");
    until_said(&site, &["summary"], &failure);
    until_said(&site, &["why", &name], "a report to its sender waits for the spool: ");
    let (status, said) = mailq(&site, &["check"]);
    assert!(status == 1 && said.contains(&failure), "{status}: {said}");
    daemon.kill();
    let _daemon = site.start();
    until_said(&site, &["summary"], &failure);
    assert_eq!(site.files("transport"), [name]);
    fs::rename(&away, &router).expect("renamed");
    site.until_empty();
    assert_eq!(site.files("router").len(), 1);
    reported(&site);
    let said = mailq(&site, &["summary"]).1;
    assert!(!said.contains("to be sent") && !said.contains("cannot"), "{said}");
}

/// A file of more than 8 MiB is read in parts.
#[test]
fn owner_of_list_gets_report_about_its_last_member() {
    const MEMBERS: usize = 150_000;
    let site = Site::new(AGENTS);
    let _daemon = start(&site);
    let list = "m\nSubject: test\n\ns local - owner@x 0\n";
    let member = |n| format!("r+          count a.test member{n:06}.of.a.list.with.long.names 0\n");
    let control = control_file("4711", &["count a.test error!poster"]).replace("m\n", list)
        + &(0..MEMBERS).map(member).collect::<String>()
        + "r           count a.test error!last 0\nm\nSubject: test\n\n";
    assert!(control.len() > 8 << 20);
    site.put_file("4711", control.as_bytes());
    site.notify("NEW 4711");
    site.until_empty();
    let reports = site.submissions();
    for (sender, recipient, other) in
        [("sender@x", "error!poster", "error!last"), ("owner@x", "error!last", "error!poster")]
    {
        let is_to = |report: &&String| report.contains(&format!("\nto <{sender}>\n"));
        let report = reports.iter().find(is_to).unwrap_or_else(|| panic!("{sender}: {reports:?}"));
        assert!(report.contains(recipient) && !report.contains(other), "{report}");
    }
}
