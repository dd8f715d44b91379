//! The flight recorder, and `schedsim` with a recording.

use crate::support::{Site, allow, until};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const CLAUSES: &str = "c/*\n\tmaxring=2 idlemax=1h command=\"${AGENTS}/count.py c\"\n\
     bad/*\n\tinterval=2s command=\"${AGENTS}/bad.py crash bad\"\n";
const IN_FORCE: &str = "configuration loaded";

fn schedsim(arguments: &[&str]) -> Output {
    Command::new(zsched_tests::program("schedsim"))
        .args(arguments)
        .output()
        .expect("schedsim starts")
}

#[track_caller]
fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Replays a recording and verifies each decision. Returns the summary.
#[track_caller]
fn replayed(path: &Path) -> Value {
    let text = printed(&schedsim(&["replay", "--json", &path.to_string_lossy()]));
    serde_json::from_str(&text).expect("JSON")
}

/// Waits until a number in a recording is at least `least`.
#[track_caller]
fn until_recorded(path: &Path, name: &str, least: u64) {
    until(&format!("{name} in the recording reach {least}"), || {
        replayed(path)[name].as_u64().is_some_and(|found| found >= least)
    });
}

/// The recording has deliveries, deferrals, deaths and reloads, and ends with a kill.
#[test]
fn recording_until_kill_can_be_replayed() {
    let site = Site::new(CLAUSES);
    let path = site.path("recording");
    let option = path.to_string_lossy().into_owned();
    let daemon = site.start_with(&["--record", &option]);
    site.put(&["c a.test 1", "c b.test 2", "c a.test deferred!3"]);
    site.put(&["bad a.test u"]);
    site.put(&["nowhere a.test u"]);
    site.until_shown("was ended by signal 11");
    site.until_shown("as told: deferred");
    site.configure("c/*\n\tmaxring=3 idlemax=1h command=\"${AGENTS}/count.py c 0 new\"\n");
    daemon.signal(libc::SIGUSR1);
    until("the new configuration is in force", || site.logged(IN_FORCE) == 1);
    site.put(&["c c.test 4"]);
    until("a new agent delivers", || site.events().of("count").any(|event| event.agent == "new"));
    until_recorded(&path, "arrivals", 4);
    until_recorded(&path, "reloads", 1);
    daemon.kill();
    let found = replayed(&path);
    assert!(found["agents_started"].as_u64() >= Some(3), "{found}");
    assert_eq!(found["queued_at_begin"], 0, "{found}");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o600, "it has addresses in it");

    // The next scheduler begins a new recording, and keeps the old one as it is.
    let daemon = site.start_with(&["--record", &option]);
    let older = site.path("recording.1");
    assert_eq!(replayed(&older), {
        let mut same = found.clone();
        same["file"] = older.to_string_lossy().into_owned().into();
        same
    });
    assert!(daemon.end(libc::SIGTERM).success());
    let found = replayed(&path);
    assert_eq!((&found["ending"], &found["arrivals"]), (&"whole".into(), &3.into()));
}

/// The second scheduler gets the learned state of the first: the destination is unreachable.
#[test]
fn recording_of_restarted_scheduler_can_be_replayed() {
    let site = Site::new(CLAUSES);
    let first = site.start();
    site.put(&["c a.test deferall!1", "c b.test deferall!2"]);
    site.until_shown("as told: deferall");
    assert!(first.end(libc::SIGTERM).success());
    let path = site.path("recording");
    let second = site.start_with(&["--record", &path.to_string_lossy()]);
    until_recorded(&path, "arrivals", 1);
    assert!(second.end(libc::SIGTERM).success());
    assert_eq!(replayed(&path)["ending"], "whole");
}

#[test]
fn each_file_of_a_recording_can_be_replayed() {
    let site = Site::new(CLAUSES);
    let path = site.path("recording").to_string_lossy().into_owned();
    let options = ["--record", &path, "--record-size", "4000", "--record-keep", "3"];
    let daemon = site.start_with(&options);
    // This message stays in the queue all the time.
    site.put(&["c a.test deferred!1"]);
    let mut sent = 0;
    until("there are many files", || {
        for _ in 0..20 {
            site.put_quietly(&[&format!("c h{}.test {sent}", sent % 5)]);
            sent += 1;
        }
        daemon.signal(libc::SIGALRM);
        let log = site.log();
        log.matches("with a checkpoint").count() > 6 || replayed_begin(&path) > 0
    });
    assert!(daemon.end(libc::SIGTERM).success());
    let mut files = vec![path.clone()];
    files.extend((1..=3).map(|number| format!("{path}.{number}")));
    assert!(!Path::new(&format!("{path}.4")).exists());
    let with_queue = files.iter().filter(|file| {
        replayed(Path::new(file))["queued_at_begin"].as_u64().is_some_and(|queued| queued > 0)
    });
    assert!(with_queue.count() >= 3, "the first message was there when they began");
}

/// Returns the number of queued messages at the beginning of the third last file; 0 without one.
fn replayed_begin(path: &str) -> u64 {
    let third = format!("{path}.3");
    if !Path::new(&third).exists() {
        return 0;
    }
    let output = schedsim(&["replay", "--json", &third]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    value["queued_at_begin"].as_u64().unwrap_or_default()
}

#[test]
fn message_history_is_shown() {
    let site = Site::new("c/*\n\tmaxring=1 idlemax=1h command=\"${AGENTS}/count.py c\"\n");
    let path = site.path("recording").to_string_lossy().into_owned();
    let daemon = site.start_with(&["--record", &path]);
    site.put(&["c a.test wait!0"]);
    until("the only agent is at work", || site.events().count("take") == 1);
    let name = site.put(&["c b.test deferred!1", "c b.test 2"]);
    until("the other has to wait", || site.mailq().recipients() == 3);
    site.write("go", "");
    site.until_shown("as told: deferred");
    site.write("open", "");
    site.until_empty();
    assert!(daemon.end(libc::SIGTERM).success());
    let statistics = site.read("statistics");
    let start = format!("S{name}");
    let id = statistics.split_whitespace().find(|word| word.starts_with(&start)).expect("an id");

    let text = printed(&schedsim(&["explain", id, &path]));
    let mut rest = &text[..];
    let clause = format!("{}:4", site.path("scheduler.cf").display());
    for words in [
        "+0.000  arrived    ",
        "2 recipients, 2 to do; received ",
        "queued     c/b.test ",
        &format!("by clause c/*, {clause}"),
        "waits      c/b.test ",
        "for an agent: 1 of at most 1 agents of the ring run (maxring, ",
        "fed        c/b.test ",
        ": one job",
        "report     c/b.test ",
        ": deferred as told: deferred",
        "report     c/b.test ",
        ": ok3",
        "finished   c/b.test: ok3",
        "waits      c/b.test ",
        "; tries so far: 1",
        "due        c/b.test ",
        "fed        c/b.test ",
        "finished   c/b.test: ok3",
        "complete ",
        "removed ",
    ] {
        let found = rest.find(words).unwrap_or_else(|| panic!("no {words:?} in {rest}\nof {text}"));
        rest = &rest[found + words.len()..];
    }
    let by_number = printed(&schedsim(&["explain", &name.to_string(), &path]));
    assert_eq!(by_number, text);
    let json = printed(&schedsim(&["explain", id, &path, "--json"]));
    let moments: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(moments.len(), text.lines().count());
    assert_eq!(moments[0]["what"], "arrived");
    let last = moments.last().expect("there are some");
    assert_eq!(last["what"], "removed");
    assert!(last["since_arrival"].as_f64() > Some(1.0), "{last}");

    let unknown = schedsim(&["explain", "S1AbmKUKEJuveqC", &path]);
    assert_eq!(unknown.status.code(), Some(1));
}

#[test]
fn recording_can_be_run_with_other_configuration() {
    let site = Site::new("c/*\n\tmaxring=1 idlemax=1h command=\"${AGENTS}/count.py c 0.05\"\n");
    let path = site.path("recording").to_string_lossy().into_owned();
    let daemon = site.start_with(&["--record", &path]);
    for number in 0..20 {
        site.put(&[&format!("c h{}.test {number}", number % 10)]);
    }
    site.put(&["c h1.test deferred!x"]);
    until("all that can be is delivered", || site.events().count("tag") == 20);
    site.until_shown("as told: deferred");
    assert!(daemon.end(libc::SIGTERM).success());
    site.configure("c/*\n\tmaxring=5 idlemax=1h user=stranger command=other\n");
    let other = site.path("scheduler.cf").to_string_lossy().into_owned();
    let json = printed(&schedsim(&["replay", &path, "--cf", &other, "--json"]));
    let found: Value = serde_json::from_str(&json).expect("JSON");
    let of = |column: &str, row: &str| found[column][row].as_f64().unwrap_or(f64::NAN);
    for column in ["recorded", "simulated", "other"] {
        assert_eq!(of(column, "delivered"), 20.0, "{found}");
        assert_eq!(of(column, "left_in_the_queue"), 1.0, "{found}");
        assert!(of(column, "deferred_attempts") >= 1.0, "{found}");
    }
    assert_eq!(of("recorded", "agents_at_a_time"), 1.0, "{found}");
    assert_eq!(of("simulated", "agents_at_a_time"), 1.0, "{found}");
    assert_eq!(of("other", "agents_at_a_time"), 5.0, "{found}");
    assert!(of("other", "delay_90%") < of("recorded", "delay_90%") / 2.0, "{found}");
    let table = printed(&schedsim(&["replay", &path, "--cf", &other]));
    assert!(
        table.contains("\n  agents at a time             1           1           5\n"),
        "{table}"
    );
}

#[test]
fn cut_recording_is_accepted_and_changed_one_refused() {
    let site = Site::new(CLAUSES);
    let path = site.path("recording");
    let daemon = site.start_with(&["--record", &path.to_string_lossy()]);
    site.put(&["c a.test 1"]);
    site.until_empty();
    assert!(daemon.end(libc::SIGTERM).success());
    let whole = std::fs::read(&path).expect("a recording");
    let copy = site.path("copy");
    let option = copy.to_string_lossy().into_owned();
    std::fs::write(&copy, &whole[..whole.len() - 1]).expect("written");
    let text = printed(&schedsim(&["replay", &option]));
    assert!(text.contains("cut off while it was written: the last "), "{text}");
    let mut changed = whole.clone();
    *changed.last_mut().expect("it is not empty") ^= 1;
    std::fs::write(&copy, changed).expect("written");
    let output = schedsim(&["replay", &option]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("it is damaged at offset "), "{error}");
    std::fs::write(&copy, "PARAMmailqsock\n").expect("written");
    let output = schedsim(&["replay", &option]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.ends_with(": not a recording\n"), "{error}");
}

#[test]
fn impossible_recording_is_reported_at_start() {
    let site = Site::new(CLAUSES);
    let path = site.path("no/such/folder").to_string_lossy().into_owned();
    let output = site.run(&["-i", "--record", &path]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains(&format!("{path}: ")), "{error}");
}

/// A full disk affects the recording only. The recording goes on when there is room again.
#[test]
fn full_disk_stops_recording_not_delivery() {
    let site = Site::new(CLAUSES);
    let folder = site.path("recordings");
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("r").to_string_lossy().into_owned();
    let options = ["--record", &path, "--record-size", "1"];
    let daemon = site.start_with(&options);
    std::fs::rename(&folder, site.path("elsewhere")).expect("renamed");
    let mut sent = 0;
    until("the log says so", || {
        site.put(&[&format!("c a.test {sent}")]);
        sent += 1;
        site.logged("recording is paused") == 1
    });
    site.until_empty();
    assert_eq!(site.events().count("count"), sent);
    assert!(daemon.end(libc::SIGTERM).success());
    allow(site.path("elsewhere"), 0o755);
}

#[test]
fn explain_shows_wait_for_rate_limit() {
    let site = Site::new("c/*\n\trate=1/1h command=\"${AGENTS}/count.py c\"\n");
    let path = site.path("recording").to_string_lossy().into_owned();
    let daemon = site.start_with(&["--record", &path]);
    site.put(&["c a.test wait!0"]);
    let name = site.put(&["c a.test 2"]);
    until("both messages are queued", || site.mailq().recipients() == 2);
    site.write("go", "");
    until("one message is delivered", || site.mailq().recipients() == 1);
    assert!(daemon.end(libc::SIGTERM).success());
    let text = printed(&schedsim(&["explain", &name.to_string(), &path]));
    let wait = text.lines().find(|line| line.contains(" waits ")).expect("it has waited");
    assert!(wait.contains("then the next delivery may start (rate, "), "{text}");
}

#[test]
fn destination_host_and_address_are_explained() {
    let site = Site::new("*/*\n\tmaxring=1 idlemax=1h command=\"${AGENTS}/count.py $channel\"\n");
    let path = site.path("recording").to_string_lossy().into_owned();
    let daemon = site.start_with(&["--record", &path]);
    site.put(&["c a.test deferred!bob"]);
    site.until_shown("as told: deferred");
    let second = site.put(&["c a.test wait!eve@a.test", "d a.test 1", "c b.test 2"]);
    until("the other channel is done", || site.events().count("count") >= 1);
    site.write("open", "");
    site.write("go", "");
    site.until_empty();
    assert!(daemon.end(libc::SIGTERM).success());
    let explain = |subject: &str| printed(&schedsim(&["explain", subject, &path]));

    let destination = explain("C/A.test");
    let mut rest = &destination[..];
    for words in [
        "+0.000  arrived    c/a.test S",
        "queued     c/a.test: by clause */*, ",
        "fed        c/a.test S",
        "report     c/a.test S",
        ": deferred as told: deferred",
        "waits      c/a.test: 1 message: until ",
        &format!("arrived    c/a.test S{second}"),
        ": ok3",
        "empty      c/a.test: nothing is queued for it",
    ] {
        let found = rest.find(words).unwrap_or_else(|| panic!("no {words:?} in {destination}"));
        rest = &rest[found + words.len()..];
    }
    assert!(!destination.contains("d/a.test") && !destination.contains("b.test"), "{destination}");
    let host = explain("a.test");
    assert!(host.contains("c/a.test") && host.contains("finished   d/a.test S"), "{host}");

    // The agent has reported the address with the deferral. It reports none with a delivery.
    for address in ["deferred!BOB", "<deferred!bob>"] {
        let history = explain(address);
        assert!(history.contains("deferred as told") && !history.contains("b.test "), "{history}");
        assert_eq!(history.matches("arrived  ").count(), 1, "{history}");
        assert!(history.contains(": for an agent that is being started; "), "{history}");
    }
    let unknown = schedsim(&["explain", "<1@a.test>", &path]);
    let error = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(1));
    assert!(error.contains("1@a.test is no host") && error.contains("`mailq trace 1@a.test`"));
    let nothing = schedsim(&["explain", "smtp/a.test", &path]);
    assert_eq!(nothing.status.code(), Some(1));
    assert_eq!(schedsim(&["explain", "a/b@", &path]).status.code(), Some(1), "an address");
    assert_eq!(schedsim(&["explain", "/", &path]).status.code(), Some(64));
}
