//! The program in the place of ZMailer's agent `smtp`: it gets the bytes that a real scheduler has
//! sent, on a command line from there, and its reports are compared with the recorded ones.

use crate::peer::{Peer, Script, say};
use regex::Regex;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SMTP: &str = env!("CARGO_BIN_EXE_smtp");

fn recordings() -> PathBuf {
    zsched_tests::source().join("tests/data/compat")
}

/// The recorded sessions of agents for the channel `smtpx`, without suffix.
fn sessions() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for run in ["run1", "run2", "run3"] {
        let files = fs::read_dir(recordings().join("ta-sessions").join(run)).expect("recordings");
        let files = files.map(|file| file.expect("a file").path());
        found.extend(files.filter(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            name.starts_with("smtpx.") && name.ends_with(".s2t")
        }));
    }
    found.sort();
    found.into_iter().map(|path| path.with_extension("")).collect()
}

/// A spool with these messages, as the router wrote them.
fn spool(messages: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["transport", "queue", "public", "router"] {
        fs::create_dir(folder.path().join(name)).expect("make a folder");
    }
    for message in messages {
        let text = control_file(message);
        let lines = String::from_utf8_lossy(&text);
        let start = lines.lines().find_map(|line| line.strip_prefix("o ")).expect("an offset");
        let start: usize = start.parse().expect("a number");
        let body = format!("{}Gr\u{fc}\u{df}e\n", "-".repeat(start));
        fs::write(folder.path().join("transport").join(message), &text).expect("write a file");
        fs::write(folder.path().join("queue").join(message), body).expect("write a file");
    }
    folder
}

/// The first state of a control file.
fn control_file(message: &str) -> Vec<u8> {
    let mut files = Vec::new();
    for part in ["control-files", "control-files-after"] {
        collect(&recordings().join(part), &mut files);
    }
    let is_it = |path: &&PathBuf| {
        let path = path.to_string_lossy();
        path.ends_with(&format!("transport.{message}"))
            || (path.contains("control-files-after/") && path.contains(&format!("/{message}/01.")))
    };
    files.sort();
    fs::read(files.iter().find(is_it).expect(message)).expect("a control file")
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path().is_dir() {
            true => collect(&entry.path(), files),
            false => files.push(entry.path()),
        }
    }
}

/// What the recorded agent has written, from the log of a session.
fn recorded_output(log: &str) -> String {
    let quoted = log.lines().filter_map(|line| line.split_once(" T->S ").map(|(_, text)| text));
    quoted.map(|text| unescaped(&text[1..text.len() - 1])).collect()
}

/// The text of a string in Python's notation.
fn unescaped(text: &str) -> String {
    let escape = Regex::new(r"\\(x[0-9a-f]{2}|.)").expect("a pattern");
    let replaced = |found: &regex::Captures<'_>| match &found[1] {
        "n" => "\n".to_string(),
        "r" => "\r".to_string(),
        "t" => "\t".to_string(),
        "x01" => "\u{1}".to_string(),
        other => other.to_string(),
    };
    escape.replace_all(text, replaced).into_owned()
}

/// The arguments of the recorded agent, with another port and log.
fn arguments(log: &str, port: u16) -> Vec<String> {
    let line = log.lines().next().expect("a line");
    let words: Vec<&str> = line.split('\'').skip(1).step_by(2).skip(1).collect();
    let words = words.iter().take_while(|word| !word.starts_with("/opt/zm/spool"));
    let mut arguments: Vec<String> = words.map(ToString::to_string).collect();
    for at in 1..arguments.len() {
        match &*arguments[at - 1] {
            "-p" => arguments[at] = port.to_string(),
            "-l" => arguments[at] = "/dev/null".to_string(),
            _ => {}
        }
    }
    arguments
}

/// A report: notary data, status word and text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    notary: Vec<String>,
    status: String,
    text: String,
}

/// The first report about each recipient, by id and offset. Ports, sizes, process ids are `N`.
fn reports(output: &str) -> BTreeMap<String, Report> {
    let mut found = BTreeMap::new();
    for line in output.lines() {
        let mut columns = line.splitn(3, '\t');
        let (Some(id), Some(notary), Some(rest)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let (status, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let notary = normalized(notary);
        let fields = notary.split('\u{1}').filter(|_| !notary.is_empty());
        let notary = fields.map(str::to_string).collect();
        let report = Report { notary, status: status.to_string(), text: normalized(text) };
        found.entry(id.to_string()).or_insert(report);
    }
    found
}

/// A text with `N` for what differs each time, and SIZE in front of BODY, as this agent says it.
fn normalized(text: &str) -> String {
    let mut text = text.to_string();
    for (pattern, replacement) in [
        (r"\|\d+([|)\]])", "|N$1"),
        (r"(SIZE=|accepted |smtp\[)\d+", "${1}N"),
        (r"BODY=8BITMIME SIZE=N", "SIZE=N BODY=8BITMIME"),
    ] {
        let pattern = Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, replacement).into_owned();
    }
    text
}

/// A peer that answers as the recorded one.
fn live_peer() -> Peer {
    let refused = say("550 5.1.1 no such user here");
    let script = Script::offering(&["8BITMIME", "SIZE", "DSN", "ENHANCEDSTATUSCODES"])
        .on("MAIL", say("250 2.1.0 ok"))
        .on("RCPT To:<temp1", say("450 4.2.1 mailbox busy"))
        .on("RCPT To:<reject1@", refused.clone())
        .on("RCPT To:<reject9@", refused)
        .on("RCPT", say("250 2.1.5 ok"))
        .on("DATA", say("354 go ahead"))
        .on(".", say("250 2.6.0 accepted 288 bytes"));
    // Nothing listens on this port of 127.0.0.66 and 127.0.0.67.
    Peer::serve(TcpListener::bind("127.0.0.1:0").expect("a free port"), script)
}

/// Runs the program in a spool. Returns what it writes.
fn run(spool: &Path, arguments: &[String], input: &[u8]) -> String {
    fs::write(spool.join("input"), input).expect("write a file");
    let output = Command::new(SMTP)
        .args(arguments)
        .env("ZCONFIG", "/dev/null")
        .current_dir(spool.join("transport"))
        .stdin(Stdio::from(fs::File::open(spool.join("input")).expect("a file")))
        .output()
        .expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{:?} {error}", output.status);
    String::from_utf8(output.stdout).expect("a text")
}

fn check(case: &str, ours: &Report, recorded: &Report) {
    match &*recorded.status {
        // Ours names the relay, for `window-key=mx`.
        "ok3" | "error2" => {
            // The original shows the first recipient's RCPT to all.
            let rcpt = Regex::new("RCPT To:<[^>]*>").expect("a pattern");
            let [ours_said, recorded_said] =
                [ours, recorded].map(|report| rcpt.replace(&report.text, "RCPT To:<N>"));
            assert_eq!((&*ours.status, ours_said), (&*recorded.status, recorded_said), "{case}");
            assert_eq!((ours.notary.len(), recorded.notary.len()), (6, 0), "{case}");
            assert!(ours.notary[4].starts_with("X-IP-addr; [127.0.0.1] ("), "{case}: {ours:?}");
        }
        // The original calls a deferral a failure, and has no comment on its status.
        "deferred" => {
            let mut expected = recorded.clone();
            assert_eq!((&*expected.notary[1], &*expected.notary[2]), ("failed", "4.2.1"), "{case}");
            expected.notary[1] = "delayed".to_string();
            expected.notary[2] = "4.2.1 (mailbox busy)".to_string();
            assert_eq!(*ours, expected, "{case}");
        }
        // It puts off the others of the host by `retryat`, has a status of class 5 for it, and a
        // port of this end, where it has none.
        "deferall" | "retryat" => {
            assert_eq!(ours.status, "deferall", "{case}");
            assert_eq!(ours.notary.len(), recorded.notary.len(), "{case}");
            assert_eq!(ours.notary[0], recorded.notary[0], "{case}");
            assert_eq!(ours.notary[1], "delayed", "{case}");
            assert!(ours.notary[2].starts_with("4.4.1 (connect to "), "{case}: {ours:?}");
            assert!(recorded.notary[2].starts_with("5.4.1 ("), "{case}");
            for text in [&ours.notary[3], &ours.text, &recorded.notary[3], &recorded.text] {
                assert!(text.contains("connect to 127.0.0.6"), "{case}: {text}");
                assert!(text.contains("Connection refused"), "{case}: {text}");
            }
            let host = recorded.notary[4].split_once('|').expect("an address").0;
            assert!(ours.notary[4].starts_with(host), "{case}: {ours:?}");
            assert_eq!(ours.notary[5], recorded.notary[5], "{case}");
        }
        other => panic!("{case}: {other}"),
    }
}

#[test]
fn program_takes_the_place_of_the_recorded_agent() {
    let peer = live_peer();
    let (mut statuses, mut count) = (BTreeMap::new(), 0);
    // What the original adds where the sender has said nothing (against RFC 3461, 5.2.1).
    let added = Regex::new(r" NOTIFY=FAILURE ORCPT=rfc822;[^\r ]+").expect("a pattern");
    for session in sessions() {
        let read = |suffix: &str| {
            fs::read(session.with_file_name(format!(
                "{}.{suffix}",
                session.file_name().expect("a name").to_string_lossy()
            )))
        };
        let (input, log) = (read("s2t").expect("a recording"), read("log").expect("a recording"));
        let log = String::from_utf8(log).expect("a text");
        let jobs = String::from_utf8(input.clone()).expect("a text");
        let ids = jobs.lines().filter_map(|line| line.split_once('\t').map(|(id, _)| id));
        let mut ids: Vec<&str> = ids.collect();
        ids.sort();
        ids.dedup();
        let spool = spool(&ids);
        let output = run(spool.path(), &arguments(&log, peer.address.port()), &input);
        let recorded = recorded_output(&log);
        let hungry = |text: &str| text.lines().filter(|line| *line == "#hungry").count();
        let case = session.display();
        // The recorded agent was killed in some sessions.
        assert!(hungry(&output) >= hungry(&recorded), "{case}: {output}");
        assert_eq!(hungry(&output), 1 + jobs.lines().filter(|line| !line.is_empty()).count());
        let ours = reports(&output);
        for (id, mut report) in reports(&recorded) {
            report.text = added.replace_all(&report.text, "").into_owned();
            let found = ours.get(&id).unwrap_or_else(|| panic!("{case}: no report of {id}"));
            check(&format!("{case} {id}"), found, &report);
            *statuses.entry(report.status).or_insert(0) += 1;
        }
        count += 1;
    }
    assert_eq!(count, 17);
    let kinds: Vec<&str> = statuses.keys().map(|status| &**status).collect();
    assert_eq!(kinds, ["deferall", "deferred", "error2", "ok3", "retryat"], "{statuses:?}");
}

/// The session by hand, after which the control file has the data of the failure.
#[test]
fn control_file_is_left_as_by_the_recorded_agent() {
    let (peer, spool) = (live_peer(), spool(&["10101249"]));
    let port = peer.address.port().to_string();
    let options = ["-c", "smtpx", "-x", "-X", "-p", &port, "-h", "zm.example.test"];
    run(spool.path(), &options.map(str::to_string), b"10101249\t[127.0.0.1]\n");
    let after = fs::read_to_string(spool.path().join("transport/10101249")).expect("a file");
    let tags: String =
        after.lines().filter(|line| line.starts_with('r')).map(|line| &line[1..2]).collect();
    assert_eq!(tags, "+- ");
    let line = after.lines().find(|line| line.starts_with("d ")).expect("a d line");
    let (head, rest) = line.split_once('\t').expect("columns");
    let (notary, text) = rest.split_once('\t').expect("columns");
    // Offsets of the recipient, its headers and its notary data; no time to live; the time.
    let time = Regex::new(r"^d 286:480:342::\d+$").expect("a pattern");
    assert!(time.is_match(head), "{head}");
    let notary = normalized(notary);
    let fields: Vec<&str> = notary.split('\u{1}').collect();
    let remote = "X-IP-addr; [127.0.0.1] (127.0.0.1|N|127.0.0.1|N)";
    let user = "reject1@a.live.test";
    // The original has no comment on the status.
    let status = "5.1.1 (no such user here)";
    let diagnostic = "smtp; 550 (no such user here)";
    assert_eq!(fields, [user, "failed", status, diagnostic, remote, "smtp[N]"]);
    assert_eq!(
        normalized(text),
        "\r<<- MAIL From:<games@zm.example.test> SIZE=N BODY=8BITMIME ENVID=live-ENV RET=FULL\
         \r->> 250 2.1.0 ok\r<<- RCPT To:<reject1@a.live.test> NOTIFY=SUCCESS,FAILURE,DELAY \
         ORCPT=rfc822;reject1@a.live.test\r->> 550 5.1.1 no such user here"
    );
}
