//! The status log of a scheduler with real and scripted agents, and `mailq trace`, which reads it.

use crate::support::{Daemon, Site, until, until_some};
use expect_test::{Expect, expect};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use zsched_spool::SpoolName;

const AGENTS: &str = "\
hold/*
\tcommand=\"hold\"
local/*
\tcommand=\"mailbox -u -d ${SITE}/mail\"
discard/*
\tcommand=\"discard\"
count/*
\tcommand=\"${AGENTS}/count.py count\"
bad/*
\tcommand=\"${AGENTS}/bad.py alarm bad\"
short/*
\texpiry=8s command=\"${AGENTS}/count.py short\"
";

fn start(site: &Site) -> Daemon<'_> {
    site.add_zenv(&format!("STATUSLOG={}", site.path("status").display()));
    site.start()
}

/// Returns all lines so far. The last one may be incomplete.
fn entries(site: &Site) -> Vec<Value> {
    let text = site.read("status");
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    whole.lines().map(parse).collect()
}

/// Waits for `count` lines about a recipient. Returns them.
#[track_caller]
fn about(site: &Site, recipient: &str, count: usize) -> Vec<Value> {
    until_some(&format!("{count} lines about {recipient}"), || {
        let mut found = entries(site);
        found.retain(|entry| entry["recipient"] == recipient);
        (found.len() >= count).then_some(found)
    })
}

/// Returns the fields of a line that are the same in each run.
fn comparable(entry: &Value) -> String {
    let fields = ["status", "report", "code", "text"];
    fields.map(|field| entry[field].as_str().unwrap_or("-").to_string()).join(" | ")
}

fn trace(site: &Site, arguments: &[&str]) -> Output {
    mailq(site, &[&["trace"], arguments].concat())
}

fn mailq(site: &Site, arguments: &[&str]) -> Output {
    Command::new(zsched_tests::program("mailq"))
        .arg("-Z")
        .arg(site.path("zmailer.conf"))
        .args(arguments)
        .env("TZ", "UTC")
        .output()
        .expect("mailq starts")
}

/// Returns the output of `mailq trace` without the parts that differ between runs.
fn traced(site: &Site, arguments: &[&str]) -> String {
    let output = trace(site, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {complaint}", output.status);
    let text = String::from_utf8(output.stdout).expect("text") + &complaint;
    let root = site.path("").to_string_lossy().into_owned();
    let mut before = "";
    let mut shown = String::new();
    for word in text.replace(&root, "SITE/").split_inclusive([' ', '\n', ',']) {
        let bare = word.trim_end_matches([' ', '\n', ',', '.', ':', ')']);
        let is_number = bare.parse::<f64>().is_ok();
        let digits = bare.starts_with(|c: char| c.is_ascii_digit());
        let name = match bare {
            _ if digits && (before == "agent" || before == "process") => "PID",
            _ if bare.starts_with('S') && bare.len() > 15 && !bare.contains('/') => "ID",
            _ if digits && bare.len() == 10 && bare.matches('-').count() == 2 => "DATE",
            _ if digits && bare.len() == 8 && bare.matches(':').count() == 2 => "TIME",
            _ if is_number && bare.contains('.') => "N",
            _ if is_number && matches!(before, "took" | "after") => "N",
            _ if digits && bare.ends_with(['s', 'm', 'h', 'd']) => "SPAN",
            _ => bare,
        };
        shown.push_str(&word.replacen(bare, name, 1));
        before = bare;
    }
    // A time of another day is shown with its date, and the test may run near midnight.
    shown.replace("until DATE TIME", "until TIME")
}

#[track_caller]
fn check_trace(site: &Site, what: &str, expected: Expect) {
    expected.assert_eq(&traced(site, &[what]));
}

#[test]
fn holds_and_releases_are_logged_and_traced() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site);
    site.put(&["hold timeout:2100000000 later@x"]);
    about(&site, "later@x", 1);
    let order = |arguments: &[&str]| {
        let output = mailq(&site, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let destination = "hold/timeout:2100000000";
    order(&["hold", destination, "--reason", "they move"]);
    order(&["release", destination]);
    order(&["hold", "discard/elsewhere"]);
    order(&["hold", "--recipient", "later@x"]);
    until("the last hold is in the status log", || site.read("status").contains("recipient=later"));
    let shown = traced(&site, &["later@x"]);
    let held: Vec<&str> = shown.lines().filter(|line| line.starts_with("  DATE TIME ")).collect();
    let by = format!("by {}", zsched_sys::users::effective_user_name());
    let [first, second, third] = held[..] else { panic!("{shown}") };
    assert!(first.starts_with(&format!("  DATE TIME held with {destination} {by}")), "{shown}");
    assert!(first.ends_with(": they move"), "{shown}");
    assert_eq!(second, format!("  DATE TIME released with {destination}"));
    assert!(third.starts_with(&format!("  DATE TIME held {by}")), "{shown}");
    assert!(third.ends_with(": recipient=later@x"), "{shown}");
    // A part of the address is enough, and what is not there is not found.
    assert!(traced(&site, &["later"]).contains("to later@x"));
    assert_eq!(trace(&site, &["late"]).status.code(), Some(1));
}

#[test]
fn recipient_results_are_logged() {
    let site = Site::new(AGENTS);
    let daemon = start(&site);
    let name = site.put(&[
        "local - bob",
        "local - carol | NOTIFY=SUCCESS",
        "local - |program",
        "discard - anybody",
        "hold timeout:2100000000 later@x",
        "count a.test error2!dave",
    ]);
    for (recipient, said) in [
        ("bob", "delivered | ok3 | - | delivered to the mailbox"),
        ("carol", "delivered | ok2 | 2.2.0 | delivered to the mailbox"),
        ("|program", "failed | error2 | 5.3.3 | cannot deliver to files and programs"),
        ("later@x", "deferred | deferred | 4.4.3 | waiting for its time"),
        ("error2!dave", "failed | error2 | 4.0.0 | as told: error2"),
    ] {
        let entry = &about(&site, recipient, 1)[0];
        assert_eq!(comparable(entry), said, "{recipient}");
        assert_eq!(
            (&entry["message_id"], &entry["sender"]),
            (&"<id@x>".into(), &"sender@x".into())
        );
        let agent = entry["agent"].as_u64().expect("a process");
        assert_ne!(agent, u64::from(daemon.pid()));
        let number = |value: &Value| value.as_f64().expect("seconds");
        let delays = &entry["delays"];
        let sum =
            ["router", "queue", "attempt"].map(|part| number(&delays[part])).iter().sum::<f64>();
        let delay = number(&entry["delay"]);
        assert!((0.0..60.0).contains(&delay) && (delay - sum).abs() < 0.01, "{entry}");
        assert!(
            entry["spool_id"].as_str().expect("text").starts_with(&format!("S{}A", name.number()))
        );
    }
    let discarded = &about(&site, "anybody", 1)[0];
    assert_eq!((&discarded["channel"], &discarded["host"]), (&"discard".into(), &"-".into()));
    assert_eq!(discarded["status"], "delivered");
}

#[test]
fn trace_shows_all_attempts_of_message() {
    let site = Site::new(
        "c/*\n\tinterval=1h command=\"${AGENTS}/count.py c\"\nq/*\n\tqueueonly command=\"discard -c q\"\n",
    );
    let _daemon = start(&site);
    let name =
        site.put(&["c a.test deferred!Bob@a.test", "q b.test later@b.test", "c b.test wait!carol"]);
    about(&site, "deferred!Bob@a.test", 1);
    site.write("go", "");
    let id = about(&site, "wait!carol", 1)[0]["spool_id"].as_str().expect("text").to_string();
    site.until_shown("as told: deferred");
    check_trace(
        &site,
        &id,
        expect![[r#"
            ID <id@x> from sender@x, arrived DATE TIME
              to deferred!Bob@a.test
                DATE TIME deferred 4.0.0, c/a.test, agent PID, took N s: as told: deferred
                queued for c/a.test
              to wait!carol
                DATE TIME delivered, c/b.test, agent PID, took N s: as told: ok3
                  N s after arrival: N s in the router, N s in the queue, N s in the attempt
              to later@b.test
                queued for q/b.test
              next: c/a.test waits until TIME, in SPAN, to be tried again (retries, SITE/scheduler.cf:3) (tried once; last: as told: deferred)
              next: q/b.test waits for a request for the host's mail, such as ETRN (queueonly, SITE/scheduler.cf:7) (not tried yet)
        "#]],
    );
    check_trace(
        &site,
        "DEFERRED!bob@A.test",
        expect![[r#"
            ID <id@x> from sender@x, arrived DATE TIME
              to deferred!Bob@a.test
                DATE TIME deferred 4.0.0, c/a.test, agent PID, took N s: as told: deferred
                queued for c/a.test
              next: c/a.test waits until TIME, in SPAN, to be tried again (retries, SITE/scheduler.cf:3) (tried once; last: as told: deferred)
        "#]],
    );
    check_trace(
        &site,
        "later@b.test",
        expect![[r#"
            ID <id@x> from sender@x, arrived DATE TIME
              to later@b.test
                queued for q/b.test
              next: q/b.test waits for a request for the host's mail, such as ETRN (queueonly, SITE/scheduler.cf:7) (not tried yet)
        "#]],
    );
    let json: Value =
        serde_json::from_slice(&trace(&site, &["--json", "<id@x>"]).stdout).expect("JSON");
    assert_eq!(json["spool_id"], *id);
    assert_eq!(json["attempts"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["next"]["waits"].as_array().map(Vec::len), Some(2));

    site.write("open", "");
    site.put_file("9001-etrn", b"T a.test\n");
    site.put_file("9002-etrn", b"T b.test\n");
    site.notify("NEW 9001-etrn");
    site.notify("NEW 9002-etrn");
    until("it has left", || !site.files("transport").contains(&name.path()));
    assert_eq!(about(&site, "deferred!Bob@a.test", 2)[1]["status"], "delivered");
    about(&site, "later@b.test", 1);
    check_trace(
        &site,
        &id,
        expect![[r#"
            ID <id@x> from sender@x, arrived DATE TIME
              to deferred!Bob@a.test
                DATE TIME deferred 4.0.0, c/a.test, agent PID, took N s: as told: deferred
                DATE TIME delivered, c/a.test, agent PID, took N s: as told: ok3
                  N s after arrival: N s in the router, N s in the queue, N s in the attempt
              to wait!carol
                DATE TIME delivered, c/b.test, agent PID, took N s: as told: ok3
                  N s after arrival: N s in the router, N s in the queue, N s in the attempt
              to later@b.test
                DATE TIME delivered, q/b.test, agent PID, took N s: discarded
                  N s after arrival: N s in the router, N s in the queue, N s in the attempt
              not in the queue
        "#]],
    );
    let unknown = trace(&site, &["nobody@a.test"]);
    assert_eq!(unknown.status.code(), Some(1));
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(said, "mailq: no matching mail now: nobody@a.test (nor in the status log)\n");
}

#[test]
fn unreachable_hosts_and_expiry_are_logged() {
    let site = Site::new(AGENTS);
    for user in ["deferall!first", "deferall!second"] {
        site.put_quietly(&[&format!("short down.test {user}")]);
    }
    let _daemon = start(&site);
    until("both have expired", || {
        entries(&site).iter().filter(|entry| entry["status"] == "expired").count() == 2
    });
    let tried: Vec<Value> =
        entries(&site).into_iter().filter(|entry| entry["status"] == "deferred").collect();
    assert_eq!(tried.len(), 1, "{tried:?}");
    assert_eq!((&tried[0]["report"], &tried[0]["others"]), (&"deferall".into(), &1.into()));
    let untried = ["deferall!first", "deferall!second"]
        .into_iter()
        .find(|recipient| tried[0]["recipient"] != *recipient)
        .expect("one of the two");
    let ended = &about(&site, untried, 1)[0];
    assert_eq!((&ended["agent"], &ended["code"]), (&Value::Null, &"5.4.7".into()));
    assert_eq!(ended["delays"]["attempt"], Value::Null);
    // The lines are written before the messages are removed.
    site.until_empty();
    until("both are reported", || {
        entries(&site).iter().filter(|entry| entry["report_id"].is_string()).count() == 2
    });
    let shown = traced(&site, &[untried]).replace(untried, "deferall!untried");
    expect![[r#"
        ID <id@x> from sender@x, arrived DATE TIME
          to deferall!untried
            DATE TIME expired 5.4.7, short/down.test, no agent: expired after N secs, problem was: as told: deferall
              N s after arrival: N s in the router, N s in the queue
          report ID, sent to sender@x DATE TIME: 1 failed
          deferred because of other messages for the same host:
            DATE TIME short/down.test, 1 message deferred, because of ID: as told: deferall
          not in the queue
    "#]].assert_eq(&shown);
}

#[test]
fn dead_and_silent_agents_are_logged() {
    let site = Site::new(&format!(
        "{AGENTS}garbage/*\n\tcommand=\"${{AGENTS}}/bad.py garbage garbage\"\n\
         unknown/*\n\tcommand=\"${{AGENTS}}/bad.py unknown unknown\"\n"
    ));
    let _daemon = start(&site);
    site.put(&["count a.test wait!bob", "count a.test carol"]);
    let agent = until_some("the agent has taken it", || {
        let event = site.events().of("take").next()?.pid;
        Some(event)
    });
    zsched_sys::send_signal(agent, libc::SIGKILL).expect("it lives");
    for recipient in ["wait!bob", "carol"] {
        let died = &about(&site, recipient, 1)[0];
        assert_eq!(
            comparable(died),
            "deferred | - | - | the transport agent was ended by signal 9 while it had this job"
        );
        assert_eq!(died["agent"], agent);
    }
    site.write("go", "");
    assert_eq!(about(&site, "wait!bob", 2)[1]["status"], "delivered");
    assert_eq!(about(&site, "carol", 2)[1]["status"], "delivered");
    site.until_empty();
    site.put(&["garbage a.test silent"]);
    let silent = comparable(&about(&site, "silent", 1)[0]);
    assert!(
        silent.starts_with("deferred | - | - | the agent ended the job without a word"),
        "{silent}"
    );
    site.put(&["unknown a.test strange"]);
    let strange = comparable(&about(&site, "strange", 1)[0]);
    assert!(strange.starts_with("deferred | ? | - | "), "{strange}");
}

#[test]
fn thousand_recipients_are_logged_before_removal() {
    let site = Site::new(AGENTS);
    let _daemon = start(&site);
    let users: Vec<String> = (0..5000).map(|number| format!("discard - user{number}@x")).collect();
    let recipients: Vec<&str> = users.iter().map(String::as_str).collect();
    site.put(&recipients);
    site.until_empty();
    until("all lines are there", || entries(&site).len() == recipients.len());
    let mut told: Vec<String> = entries(&site)
        .iter()
        .map(|entry| entry["recipient"].as_str().expect("known").into())
        .collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), recipients.len());
}

#[test]
fn renamed_log_is_reopened_under_its_name() {
    let site = Site::new(AGENTS);
    let daemon = start(&site);
    let put = |name: &str| site.put(&[&format!("discard - {name}")]);
    put("one");
    about(&site, "one", 1);
    fs::rename(site.path("status"), site.path("status.1")).expect("renamed");
    daemon.signal(libc::SIGHUP);
    until("there is a new one", || site.path("status").exists());
    put("two");
    about(&site, "two", 1);
    let first = site.read("status.1");
    assert!(first.contains("\"one\"") && !first.contains("\"two\""), "{first}");
    assert!(!site.read("status").contains("\"one\""));
    let count =
        |what: &str| trace(&site, &["--json", what]).stdout.iter().filter(|b| **b == b'\n').count();
    assert_eq!((count("one"), count("two"), count("<id@x>")), (1, 1, 2));
    // The name cannot be opened, so lines still go into the open file.
    fs::rename(site.path("status"), site.path("status.0")).expect("renamed");
    fs::create_dir(site.path("status")).expect("a folder in its place");
    daemon.signal(libc::SIGHUP);
    until("the log says so", || site.logged("the status log cannot be reopened") == 1);
    put("three");
    until("it is written all the same", || site.read("status.0").contains("\"three\""));
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

#[test]
fn full_disk_loses_only_log_lines() {
    let site = Site::new(AGENTS);
    std::os::unix::fs::symlink("/dev/full", site.path("status")).expect("a link");
    let daemon = start(&site);
    for user in ["one", "two", "three"] {
        site.put(&[&format!("discard - {user}")]);
    }
    site.until_empty();
    until("the log says so", || site.logged("lines of the status log are lost so far") == 1);
    fs::remove_file(site.path("status")).expect("removed");
    daemon.signal(libc::SIGHUP);
    until("there is a new one", || site.path("status").exists());
    site.put(&["discard - four"]);
    about(&site, "four", 1);
    // Lines after the first one may have been written when there was room again.
    let all = entries(&site);
    let lost: u64 = all.iter().filter_map(|entry| entry["lost"].as_u64()).sum();
    let others = all.iter().filter(|entry| entry["recipient"].is_string()).count() as u64 - 1;
    assert!(lost > 0 && lost + others == 3, "{all:?}");
    let mode = fs::metadata(site.path("status")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let goes_on = format!("the status log continues, {lost} lines are missing");
    site.until_logged(&goes_on, 1);
    site.until_logged("lines of the status log are lost", 1);
    let output = trace(&site, &["four"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let missing = format!("/status: {lost} lines could not be written\n");
    assert!(said.ends_with(&missing), "{said}");
}

#[test]
fn trace_works_without_log_or_scheduler() {
    let site = Site::new(AGENTS);
    let name: SpoolName = site.put_quietly(&["hold timeout:2100000000 later@x"]);
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // There is neither a log nor a scheduler.
    let output = trace(&site, &["later@x"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(said(&output).contains("no status log: name it"), "{}", said(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("queued for hold/timeout:2100000000"), "{shown}");
    assert!(shown.contains(&format!("S{}A", name.number())), "{shown}");
    // The log does not exist.
    let daemon = site.start_with(&["--status-log", &site.path("status").to_string_lossy()]);
    about(&site, "later@x", 1);
    let output = trace(&site, &["later@x", "--status-log", "/nonexistent/log"]);
    assert_eq!(output.status.code(), Some(72));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("next: hold/timeout:2100000000 waits")
    );
    assert!(said(&output).contains("/nonexistent/log: No such file"), "{}", said(&output));
    // The scheduler has exited, and its log exists.
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    let log = site.path("status").to_string_lossy().into_owned();
    let output = trace(&site, &["--status-log", &log, "later@x"]);
    assert_eq!(output.status.code(), Some(69));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains(" deferred 4.4.3, hold/timeout:2100000000, agent "), "{shown}");
    assert_eq!(trace(&site, &[]).status.code(), Some(64));
}

#[test]
fn result_of_a_tls_session_has_a_line() {
    let site = Site::new("tls/*\n\tcommand=\"${SITE}/tls\"\n");
    let script = "#!/bin/sh\necho '#hungry'\nread -r job\necho '#tls {\"policy-type\":\"sts\"}'\n\
                  echo '#tls nonsense'\necho '#hungry'\ncat >/dev/null\n";
    site.write("tls", script);
    fs::set_permissions(site.path("tls"), fs::Permissions::from_mode(0o755)).expect("allowed");
    let scheduler = start(&site);
    let name = site.put(&["tls host ann"]);
    let line = until_some("a line about TLS", || {
        entries(&site).into_iter().find(|entry| entry.get("tls").is_some())
    });
    assert_eq!(line["tls"], serde_json::json!({ "policy-type": "sts" }));
    // What is no result is a line for the log.
    site.until_logged("#tls nonsense", 1);
    let output = trace(&site, &[&name.number().to_string()]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!complaint.contains("cannot be read"), "{complaint}");
    drop(scheduler);
}
