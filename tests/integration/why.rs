//! `mailq --why`: each reason for a wait, in a sentence with the setting that decides.

use crate::support::{Client, Daemon, Site, holds_before_deadline, until};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use zsched_format::time::Timestamp;
use zsched_spool::{SpoolId, SpoolName};

/// Returns the text of `mailq --why`, and true if it is an answer.
///
/// Otherwise it is the error.
fn why(site: &Site, subject: &str) -> (String, bool) {
    let output = Command::new(zsched_tests::program("mailq"))
        .arg("-Z")
        .arg(site.path("zmailer.conf"))
        .args(["--why", subject])
        .output()
        .expect("mailq starts");
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    (String::from_utf8_lossy(said).into_owned(), output.status.success())
}

/// Returns the place of a text in the configuration, as messages name it.
fn place(site: &Site, text: &str) -> String {
    let config = site.read("scheduler.cf");
    let line = config
        .lines()
        .collect::<Vec<_>>()
        .iter()
        .rposition(|line| line.contains(text))
        .expect("it is in there")
        + 1;
    format!("{}:{line})", site.path("scheduler.cf").display())
}

/// Waits until the answer contains all of `parts`.
fn until_answer_has(site: &Site, subject: &str, parts: &[&str]) {
    let mut last = String::new();
    let is_said = holds_before_deadline(|| {
        let (said, is_answer) = why(site, subject);
        let is_it = is_answer && parts.iter().all(|part| said.contains(part));
        last = said;
        is_it
    });
    assert!(is_said, "{subject} waits because of {parts:?}; mailq says: {last}");
}

const CF: &str = "\
*/*
\tinterval=1h retries=\"2 4\"
ring/*
\tmaxring=1 overfeed=0
\tcommand=\"${AGENTS}/count.py ring\"
channel/a*
\tmaxchannel=1 command=\"${AGENTS}/count.py channel\"
channel/*
\tcommand=\"${AGENTS}/count.py channel\"
\tmaxchannel=1
all/*
\tmaxta=1 command=\"${AGENTS}/count.py all\"
queue/*
\tqueueonly
\tcommand=\"${AGENTS}/count.py queue\"
bare/*
";

#[test]
fn each_wait_reason_has_a_sentence() {
    let site = Site::new(CF);
    let _daemon = site.start();
    let put = |recipient: &str| site.put(&[recipient]).path();
    put("ring deferred.test deferred!1");
    until_answer_has(
        &site,
        "ring/deferred.test",
        &[
            "ring/deferred.test: 1 message waits until ",
            "to be tried again (retries, ",
            &place(&site, "retries="),
            "(tried once; last: as told: deferred)",
        ],
    );
    put("ring down.test deferall!1");
    until_answer_has(
        &site,
        "RING/down.test",
        &[
            "because destination ring/down.test is known to be unreachable: all of its mail \
             was deferred at once (deferall) by agent ",
            ": as told: deferall (tried once)",
        ],
    );
    // For new mail, the sentence names the recipient whose report is the reason.
    let down = put("ring down.test untried");
    let known = "because destination ring/down.test is known to be unreachable: all of its mail \
                 was deferred at once (deferall) by agent ";
    until_answer_has(&site, &down, &[known, " for S", ": as told: deferall", "(not tried yet)"]);
    // A deferred recipient delays no new mail for its host.
    put("ring deferred.test fine");
    until("it is delivered", || site.events().count("count") == 1);
    put("ring later.test retryat+7200!1");
    until_answer_has(
        &site,
        "ring/later.test",
        &["is known to be unreachable: the time of its next try was named (retryat) by agent "],
    );

    let slow = put("ring a.test wait!1");
    until_answer_has(&site, "ring/a.test", &["1 message is with the agent of process "]);
    until_answer_has(&site, &slow, &["ring/a.test is with the agent of process "]);
    let behind = put("ring a.test wait!2");
    until_answer_has(
        &site,
        "ring/a.test",
        &["waits in line: 1 of at most 1 agents are working on this destination (maxthr, "],
    );
    until_answer_has(&site, &behind, &["waits in line, next in line: "]);
    put("ring b.test wait!3");
    until_answer_has(
        &site,
        "ring/b.test",
        &[
            "waits for an agent: 1 of at most 1 agents of the ring run (maxring, ",
            &place(&site, "maxring=1"),
            " (not tried yet)",
        ],
    );
    put("channel a.test wait!4");
    until_answer_has(&site, "channel/a.test", &["is with the agent"]);
    put("channel b.test wait!5");
    until_answer_has(
        &site,
        "channel/b.test",
        &["1 of at most 1 agents of the channel run (maxchannel, ", &place(&site, "maxchannel=1")],
    );
    put("all b.test wait!6");
    until_answer_has(
        &site,
        "all/b.test",
        &[" of at most 1 agents in all run (maxta, ", &place(&site, "maxta=1")],
    );
    put("queue a.test u");
    until_answer_has(
        &site,
        "queue/a.test",
        &[
            "waits for a request for the host's mail, such as ETRN (queueonly, ",
            &place(&site, "\tqueueonly"),
        ],
    );
    put("bare a.test u");
    until_answer_has(&site, "bare/a.test", &["no clause says how to start one (command, "]);

    // The answer is the same for a spool id and for a number.
    let id = id_of(&site, &SpoolName::from_notified(behind.as_bytes()).expect("a name"));
    assert_eq!(why(&site, &id), why(&site, &behind));
    let (said, is_answer) = why(&site, "ring/nowhere.test");
    assert!(!is_answer && said.contains("no matching mail now: ring/nowhere.test"), "{said}");
    let (said, is_answer) = why(&site, "nonsense");
    assert!(!is_answer && said.contains("give a channel/host, a spool id or"), "{said}");
    site.write("go", "");
}

#[test]
fn scheduler_options_are_shown_as_reasons() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    site.put_quietly(&["c a.test u"]);
    for (option, reason) in [
        (&["-F"][..], "the scheduler starts no agents (option -F)"),
        (&["-p", "c/b.test"], "only c/b.test is served (option -p)"),
    ] {
        let daemon: Daemon<'_> = site.start_with(option);
        until_answer_has(&site, "c/a.test", &["c/a.test: 1 message waits for an agent: ", reason]);
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    }
    let (said, is_answer) = why(&site, "c/a.test");
    assert!(!is_answer && said.contains("the scheduler is not running"), "{said}");
}

/// The control socket is for the scheduler's own user; malformed requests have no effect.
#[test]
fn malformed_requests_to_control_socket_are_harmless() {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let mut daemon = site.start();
    let path = site.path("postoffice/.scheduler.control");
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let talk = |said: &[u8]| {
        let mut stream = UnixStream::connect(&path).expect("connected");
        stream.write_all(said).expect("said");
        stream.shutdown(std::net::Shutdown::Write).expect("closed");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("answered");
        String::from_utf8_lossy(&answer).into_owned()
    };
    let greeting = "version zsched 1.0\n";
    assert_eq!(talk(b""), greeting);
    assert_eq!(talk(b"SHOW WHY c/a.test"), greeting, "a line cut short is no request");
    let refused = "-no matching mail now: c/a.test\n";
    assert_eq!(talk(b"SHOW WHY c/a.test\r\n"), format!("{greeting}{refused}"));
    let many = "SHOW WHY c/a.test\n".repeat(5000);
    assert_eq!(talk(many.as_bytes()), format!("{greeting}{}", refused.repeat(5000)));
    let nonsense = talk(b"HELP\n\xff\0\nQUIT\nSHOW WHY c/a.test\n");
    assert!(nonsense.ends_with("REST=''\n+Bye bye\n"), "{nonsense}");
    let long = [b'x'; 5000];
    assert_eq!(talk(&long), format!("{greeting}-the request is too long\n"));
    daemon.assert_runs();
    let output = Command::new(zsched_tests::program("mailq"))
        .args(["--why", "c/a.test\nQUIT"])
        .stdin(Stdio::null())
        .output()
        .expect("mailq starts");
    assert_eq!(output.status.code(), Some(64));
}

/// Returns the spool id of a message.
fn id_of(site: &Site, name: &SpoolName) -> String {
    let message = std::fs::metadata(site.spool.message_file(name)).expect("it is there");
    let modified = Timestamp::from_parts(message.mtime(), message.mtime_nsec());
    SpoolId { number: name.number(), modified }.to_string()
}

/// In a ring whose work goes by messages, the reason names the messages ahead and the rule.
#[test]
fn message_order_is_shown_as_reason() {
    let site = Site::new(
        "ring/*\n\tmaxring=1 slot-cost=2 slot-discount=0 slot-loan=0 minimum-slots=0\n\
         \tcommand=\"${AGENTS}/count.py ring\"\n",
    );
    let _daemon = site.start();
    let recipients: Vec<String> = (0..10).map(|n| format!("ring h{n}.test wait!{n}")).collect();
    let bulk = site.put(&recipients.iter().map(String::as_str).collect::<Vec<_>>());
    until("the agent is at work", || site.events().count("take") == 1);
    let pair = site.put(&["ring a.test pair", "ring b.test pair"]);
    let single = site.put(&["ring c.test single"]);
    let (bulk, pair, single) = (id_of(&site, &bulk), id_of(&site, &pair), id_of(&site, &single));
    let line = place(&site, "slot-cost");
    until_answer_has(
        &site,
        &single,
        &[
            "ring/c.test waits for an agent: 1 of at most 1 agents of the ring run (maxring, ",
            &format!(
                "; 2 messages are before it (slot-cost, {line}; the current message is {bulk}, "
            ),
            "with 9 due; it has earned 0.5 slots: with 1 this one may preempt it (not ",
        ],
    );
    until_answer_has(
        &site,
        &pair,
        &[&format!(
            "; 1 message is before it (slot-cost, {line}; the current message is {bulk}, with 9 due; \
             it has earned 0.5 slots: with 2 this one may preempt it; {single} is to preempt it \
             next (not tried yet)"
        )],
    );
    until_answer_has(
        &site,
        &bulk,
        &[&format!("; its message is the current one (slot-cost, {line} ")],
    );

    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    let mut rank = |id: &str| {
        let answer = client.ask(&format!("SHOW JSON WHY {id}"));
        let last = answer.lines().last().expect("a line").to_string();
        let object: Value = serde_json::from_str(&last).expect("an object");
        assert_eq!(object["why"], "refused");
        object["rank"].clone()
    };
    let current = json!({ "id": bulk, "due": 9, "slots": 0.5, "needed": 2.0, "candidate": single });
    let line = line.trim_end_matches(')').to_string();
    assert_eq!(
        rank(&pair),
        json!({ "line": line, "before": 1, "priority": 5, "due": 2, "slots": 0.0, "blocked": false,
            "preempted_by": 0, "has_preempted": false, "current": current })
    );
    assert_eq!(rank(&bulk)["current"]["id"], bulk);
    site.write("go", "");
    site.until_empty();
}

#[test]
fn selections_are_explained() {
    let site = Site::new("*/*\n\texpiry=3d\nq/*\n\tqueueonly command=\"${AGENTS}/count.py q\"\n");
    let _daemon = site.start();
    site.put(&["q a.test 1@a", "q b.test 2@b"]);
    site.put(&["q a.test 3@a"]);
    until_answer_has(&site, "q/a.test", &["2 messages wait for a request"]);
    for (what, expected) in [
        ("*/a.test", &["q/a.test: 2 messages wait"][..]),
        ("q/*", &["q/a.test: 2 messages wait", "q/b.test: 1 message waits"]),
        ("recipient=2@b", &["q/b.test waits for a request"]),
        ("recipient=*@a", &["q/a.test waits for a request", "q/a.test waits for a request"]),
        ("message-id=<id@x> limit=1", &["q/"]),
        ("recipient=none@x", &[]),
    ] {
        let (said, is_answer) = why(&site, what);
        assert!(is_answer, "{what}: {said}");
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), expected.len(), "{what}: {said}");
        for (line, beginning) in lines.iter().zip(expected) {
            assert!(line.starts_with(beginning), "{what}: {line}");
        }
    }
}

#[test]
fn explanation_says_how_many_more_match() {
    let site = Site::new("*/*\n\texpiry=3d\nq/*\n\tqueueonly command=\"${AGENTS}/count.py q\"\n");
    let _daemon = site.start();
    let recipients: Vec<String> = (0..103).map(|n| format!("q h{n}.test u{n}@x")).collect();
    site.put(&recipients.iter().map(String::as_str).collect::<Vec<_>>());
    until_answer_has(&site, "q/h102.test", &["waits for a request"]);
    for (what, last) in [
        ("q/*", "... and 3 more destinations"),
        ("q/* older=0s", "... and 3 more rows"),
        ("recipient=*@x", "... and more"),
    ] {
        let (said, _) = why(&site, what);
        assert_eq!((said.lines().count(), said.lines().last()), (101, Some(last)), "{what}");
    }
    assert_eq!(why(&site, "q/* limit=7").0.lines().count(), 7);
}

#[test]
fn summary_warns_of_destinations_without_agents() {
    let site = Site::new(
        "*/*\n\texpiry=3d\nd/*\n\tinterval=1h command=\"${AGENTS}/count.py d\"\n\
         broken/*\n\tcommand=\"/no/such/program\"\n",
    );
    let _daemon = site.start();
    site.put(&["bare a.test 1", "broken b.test 2", "d c.test deferred!3", "d c.test 4"]);
    let summary = || {
        let mut client = Client::local(&site, "postoffice/.scheduler.control");
        client.ask("SHOW JSON SUMMARY")
    };
    until("both are named", || {
        let summary = summary();
        summary.contains("no command for */* (") && summary.contains("no agent of broken/* (")
    });
    let threads = || {
        let mut client = Client::local(&site, "postoffice/.scheduler.control");
        client.ask("SHOW JSON THREADS sort=undelivered")
    };
    until("one recipient is deferred", || threads().contains("\"host\":\"c.test\""));
    until("all that fail are counted", || {
        threads().lines().filter(|line| line.contains("\"undelivered\":1,")).count() == 3
    });
}
