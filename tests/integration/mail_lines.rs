//! Lines about mail in the log: arrivals, and outcomes of recipients.

use crate::support::{Daemon, Site, control_file, until};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::process::Command;

const AGENTS: &str = "\
count/*
\tinterval=1h command=\"${AGENTS}/count.py count\"
discard/*
\tcommand=\"discard\"
local/*
\tcommand=\"mailbox -u -d ${SITE}/mail\"
short/*
\texpiry=2s command=\"${AGENTS}/count.py short\"
";

/// Returns the lines of the log with a text, without their time stamps.
fn lines(site: &Site, text: &str) -> Vec<String> {
    let log = site.log();
    let found = log.lines().filter(|line| line.contains(text));
    found.map(|line| line.split_once(' ').expect("a time stamp").1.to_string()).collect()
}

/// Waits for the line about a recipient. Returns it with digits as `N`, apart from its spool id.
#[track_caller]
fn outcome(site: &Site, recipient: &str) -> String {
    let about = format!(": to=<{recipient}>, ");
    site.until_logged(&about, 1);
    let line = lines(site, &about).remove(0);
    let (id, rest) = line.split_once(": ").expect("an id");
    assert!(id.starts_with('S') && !id.contains(' '), "{line}");
    // The values of the delays differ from run to run.
    let (before, rest) = rest.split_once(", delay=").expect("a delay");
    let (delays, after) = rest.split_once(", dsn=").expect("a status code");
    let (delay, parts) = delays.split_once(", delays=").expect("parts of the delay");
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|error| panic!("{error}: {line}"));
    let sum: f64 = parts.split('/').map(number).sum();
    assert_eq!(parts.split('/').count(), 3, "{line}");
    assert!((number(delay) - sum).abs() < 0.05 && number(delay) < 60.0, "{line}");
    format!("{before}, dsn={after}")
}

fn put_hostile(site: &Site) {
    let recipient = "count a.test error2!x>,status=delivered\u{1b}[2J\u{202e}";
    let text = control_file("4711", &[recipient]);
    let text = text.replace("<id@x>", "<\u{9b}1@x>").replace("sender@x", "\u{7}sender@x");
    site.put_file("4711", text.as_bytes());
    site.notify("NEW 4711");
}

fn start<'s>(site: &'s Site, options: &[&str]) -> Daemon<'s> {
    site.start_with(options)
}

#[test]
fn log_has_a_line_for_each_arrival_and_final_outcome() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site, &[]);
    let name = site.put(&[
        "local - bob",
        "local - |program",
        "discard - anybody",
        "count a.test error2!dave",
        "count a.test deferred!erin",
        "short b.test deferred!late",
    ]);
    for (recipient, expected) in [
        (
            "bob",
            "to=<bob>, destination=local/-, relay=none, dsn=none, \
             status=delivered (delivered to the mailbox)",
        ),
        (
            "|program",
            "to=<|program>, destination=local/-, relay=none, dsn=5.3.3, \
             status=failed (cannot deliver to files and programs)",
        ),
        (
            "anybody",
            "to=<anybody>, destination=discard/-, relay=none, dsn=none, \
             status=delivered (discarded)",
        ),
        (
            "error2!dave",
            "to=<error2!dave>, destination=count/a.test, relay=none, dsn=4.0.0, \
             status=failed (as told: error2)",
        ),
    ] {
        assert_eq!(outcome(&site, recipient), expected);
    }
    let late = outcome(&site, "deferred!late");
    assert!(late.contains(", dsn=5.4.7, status=expired (expired after "), "{late}");
    let arrived = lines(&site, ": arrived, ");
    let size = fs::metadata(site.spool.message_file(&name)).expect("not all is final").len();
    let rest = format!(": arrived, message-id=<id@x>, from=<sender@x>, size={size}, nrcpt=6");
    assert!(arrived[0].starts_with(&format!("S{}A", name.number())), "{arrived:?}");
    assert!(arrived[0].ends_with(&rest) && arrived.len() == 1, "{arrived:?}");
    assert_eq!(site.logged("status=deferred"), 0, "not at the default level");
    assert_eq!(site.logged("to=<deferred!erin>"), 0);
}

#[test]
fn operators_removals_are_outcomes() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site, &[]);
    let mut client = crate::support::Client::local(&site, "postoffice/.scheduler.control");
    for (verb, status) in [("DELETE", "deleted"), ("EXPIRE", "expired"), ("REROUTE", "rerouted")] {
        fs::create_dir_all(site.path("postoffice/router")).expect("a folder");
        let host = verb.to_lowercase();
        site.put(&[&format!("count {host}.test deferred!{host}")]);
        // The message before it may still be there.
        let request = format!("SHOW JSON MESSAGES count/{host}.test");
        until("it is deferred", || client.ask(&request).contains("as told: deferred"));
        let answer = client.order(&format!("{verb} count/{host}.test"));
        assert_eq!(answer["recipients"], 1, "{answer}");
        let line = outcome(&site, &format!("deferred!{host}"));
        assert!(line.contains(&format!(", status={status} (")), "{line}");
        assert!(line.contains(" by ") && !line.contains("an operator"), "{line}");
    }
}

#[test]
fn mail_lines_option_adds_deferrals_or_leaves_out_all() {
    for (option, counts) in [("none", [0, 0, 0]), ("final", [1, 1, 0]), ("all", [1, 1, 1])] {
        let site = Site::new(AGENTS);
        let daemon = start(&site, &["--mail-lines", option]);
        site.put(&["count a.test bob", "count b.test deferred!bob"]);
        site.until_shown("as told: deferred");
        until("both are reported", || site.read("statistics").lines().count() == 1);
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
        let texts = [": arrived, ", "status=delivered (", "status=deferred ("];
        assert_eq!(texts.map(|text| site.logged(text)), counts, "{option}: {}", site.log());
        assert_eq!(site.logged("ended"), 1);
    }
    let site = Site::new(AGENTS);
    let _daemon = start(&site, &["-v"]);
    site.put(&["count b.test deferred!bob"]);
    site.until_logged("status=deferred (as told: deferred)", 1);
}

#[test]
fn hostile_text_stays_in_its_field() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site, &[]);
    put_hostile(&site);
    let line = outcome(&site, r"error2!x\x3e,status=delivered^[[2J\u{202e}");
    assert!(line.ends_with(r", status=failed (as told: error2)"), "{line}");
    let arrived = lines(&site, ": arrived, ").remove(0);
    let fields = r": arrived, message-id=<\u{9b}1@x>, from=<^Gsender@x>, size=";
    assert!(arrived.contains(fields), "{arrived}");
}

/// The log and the status log have the same outcomes, whichever of them is there.
#[test]
fn status_log_and_mail_lines_agree() {
    let site = Site::new(AGENTS);
    site.add_zenv(&format!("STATUSLOG={}", site.path("status").display()));
    let daemon = start(&site, &[]);
    let users: Vec<String> = (0..2000).map(|number| format!("discard - user{number}@x")).collect();
    let recipients: Vec<&str> = users.iter().map(String::as_str).collect();
    site.put(&recipients);
    site.until_empty();
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    let of_log: Vec<String> = lines(&site, ": to=<")
        .iter()
        .map(|line| {
            line.split_once("to=<").expect("counted").1.split('>').next().expect("an end").into()
        })
        .collect();
    let of_status: Vec<String> = site
        .read("status")
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|entry| entry["recipient"].as_str().expect("known").to_string())
        .collect();
    assert_eq!(of_log.len(), recipients.len());
    assert_eq!(of_log, of_status, "in the same order");
    assert!(lines(&site, ": arrived, ")[0].ends_with(", nrcpt=2000"));
    // Without lines in the log, the status log goes on.
    let daemon = start(&site, &["--mail-lines=none"]);
    site.put(&["discard - last"]);
    site.until_empty();
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert_eq!(site.logged("to=<last>"), 0);
    assert!(site.read("status").contains("\"last\""));
}

/// No line is cut or mixed with another one, although the loop and two workers write lines.
#[test]
fn lines_of_loop_and_workers_are_whole() {
    let site = Site::new(AGENTS);
    let daemon = start(&site, &["-v"]);
    for number in 0..300 {
        site.put_quietly(&[&format!("discard - {number}"), &format!("count a.test {number}")]);
    }
    daemon.signal(libc::SIGALRM);
    until("all are delivered", || site.is_empty());
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    let log = site.log();
    for line in log.lines() {
        let (stamp, _) = line.split_once(' ').unwrap_or_else(|| panic!("{line}"));
        assert!(stamp.len() == 14 && stamp.bytes().all(|byte| byte.is_ascii_digit()), "{line}");
    }
    for text in [": arrived, message-id=<id@x>, ", ": complete (2 recipients, 0 failed)"] {
        assert_eq!(log.lines().filter(|line| line.contains(text)).count(), 300, "{text}");
    }
    assert_eq!(log.lines().filter(|line| line.contains(": to=<")).count(), 600);
}

#[test]
fn restart_logs_only_mail_that_came_meanwhile() {
    let site = Site::new(AGENTS);
    let daemon = start(&site, &[]);
    site.put(&["count a.test deferred!before"]);
    site.until_shown("as told: deferred");
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    assert_eq!(site.logged(": arrived, "), 1);
    site.put_quietly(&["count a.test deferred!meanwhile"]);
    let daemon = start(&site, &[]);
    site.until_logged("initial scan complete; messages in the queue: 2", 1);
    site.until_logged(": arrived, ", 2);
    daemon.kill();
    let _daemon = start(&site, &[]);
    site.until_logged("initial scan complete; messages in the queue: 2", 2);
    site.put(&["discard - after"]);
    site.until_logged("to=<after>", 1);
    assert_eq!(site.logged(": arrived, "), 3, "{}", site.log());
}

/// The log is a pipe that nothing reads until all is delivered.
#[test]
fn delivery_does_not_wait_for_log() {
    let site = Site::new(AGENTS);
    let made = Command::new("mkfifo").arg(site.path("log")).status().expect("mkfifo runs");
    assert!(made.success());
    let options = fs::File::options().custom_flags(libc::O_NONBLOCK).read(true).write(true).clone();
    let mut pipe = options.open(site.path("log")).expect("both ends");
    for number in 0..500 {
        site.put_quietly(&[&format!("discard - user{number}@x")]);
    }
    let mut daemon = site.spawn(&[]);
    site.until_empty();
    daemon.assert_runs();
    let mut read = Vec::new();
    until("all lines are there", || {
        let mut part = vec![0; 1 << 16];
        while let Ok(count @ 1..) = pipe.read(&mut part) {
            read.extend_from_slice(&part[..count]);
        }
        let text = String::from_utf8_lossy(&read);
        text.lines().filter(|line| line.ends_with("status=delivered (discarded)")).count() == 500
    });
    let text = String::from_utf8(read).expect("text");
    assert_eq!(text.lines().filter(|line| line.contains(": arrived, ")).count(), 500);
    assert!(!text.contains("lines of the log are missing"));
}

/// Lines that a full disk has refused are counted, and delivery goes on.
#[test]
fn full_disk_of_log_loses_only_lines() {
    let site = Site::new(AGENTS);
    std::os::unix::fs::symlink("/dev/full", site.path("log")).expect("a link");
    let mut daemon = site.spawn(&[]);
    until("the scheduler listens", || site.notify_socket().exists());
    for user in ["one", "two"] {
        site.put(&[&format!("discard - {user}")]);
    }
    site.until_empty();
    daemon.assert_runs();
    fs::remove_file(site.path("log")).expect("removed");
    daemon.signal(libc::SIGHUP);
    site.until_logged("logs reopened", 1);
    let log = site.log();
    let (_, rest) = log.split_once(" error: ").expect("a line about lost lines");
    let (lost, rest) = rest.split_once(' ').expect("their number");
    assert!(rest.starts_with("lines of the log are missing\n"), "{log}");
    // The start, both arrivals and both deliveries; those that came last may have been written.
    assert!(lost.parse::<u32>().expect("a number") >= 4, "{log}");
    site.put(&["discard - three"]);
    site.until_logged("to=<three>", 1);
    let mode = fs::metadata(site.path("log")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "it has addresses");
}
