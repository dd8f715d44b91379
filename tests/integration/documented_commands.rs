//! The commands of the documents, run as they stand.

use crate::support::{Site, control_file, until};
use std::collections::HashSet;
use std::fs::{self, File};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, SystemTime};

const CLAUSES: &str = "*/*\n\texpiry=3650d queueonly command=\"${AGENTS}/count.py any\"\n\
     smtp/*\nsmtp/*.example.org\n";
/// The message that examples are about: `S10101639AbmKUKEJuveqC`.
const NUMBER: &str = "10101639";
const ARRIVED: Duration = Duration::new(1_795_255_449, 852_372_354);

/// Commands that end with another status than 0 here.
const OTHER_STATUS: [(&str, i32); 6] = [
    // There is no terminal.
    ("mailq top", 64),
    // Nothing listens there.
    (OTHER_PORT, 69),
    // They need more words.
    ("mailq release", 64),
    ("mailq trace", 64),
    // The message is old enough for a warning.
    ("mailq check --warn-age 1h --crit-count 10000", 1),
    // No such agent runs.
    ("mailq retire 4712", 1),
];

/// It asks the port of another installation, which this machine may have.
const OTHER_PORT: &str = "mailq -p 10174";

/// Returns the commands of a document in Markdown: what is in backticks and begins with `mailq `.
fn in_backticks(text: &str) -> Vec<String> {
    // Blocks of code are in lines of their own.
    let spans = text.lines().filter(|line| !line.starts_with("    "));
    let spans = spans.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| is_mailq(span)).map(str::to_string).collect()
}

/// Returns the commands of a manual page: its displayed lines that begin with `mailq`.
fn displayed(page: &str) -> Vec<String> {
    let lines = page.lines().filter_map(|line| line.strip_prefix(".Dl "));
    let plain = |line: &str| line.replace("\\-", "-").replace("\\(aq", "'").replace("\\(dq", "\"");
    lines.map(plain).filter(|line| is_mailq(line)).collect()
}

fn is_mailq(text: &str) -> bool {
    text == "mailq" || text.starts_with("mailq ")
}

/// Words in capitals stand for others.
fn has_placeholder(command: &str) -> bool {
    let is_placeholder =
        |word: &str| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase());
    command.split(|c: char| !c.is_ascii_alphanumeric()).any(is_placeholder)
}

#[test]
fn commands_of_documents_run_as_they_stand() {
    let site = Site::new("");
    site.write("scheduler.cf", &format!("PARAMmailqsock=TCP:0\n{CLAUSES}"));
    site.add_zenv(&format!("STATUSLOG={}", site.path("status").display()));
    let recipients = [
        "smtp mx.example.org bob@example.net",
        "smtp mail.example.org carol@mail.example.org",
        "smtp old-relay.example.org dave@old-relay.example.org",
    ];
    let control = control_file(NUMBER, &recipients).replace("<id@x>", "<1@example.org>");
    site.put_file(NUMBER, control.as_bytes());
    let message = File::options().write(true).open(site.path("postoffice/queue/10101639"));
    let arrived = SystemTime::UNIX_EPOCH + ARRIVED;
    message.expect("the message file").set_modified(arrived).expect("its time is set");
    let daemon = site.start();
    until("it is loaded", || site.log().contains("initial scan complete"));
    let log = site.log();
    let (_, port) = log.split_once("MAILQ is served on TCP 127.0.0.1:").expect("a port");
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    site.add_zenv(&format!("MAILQPORT={port}"));
    let programs = zsched_tests::program("mailq");
    let programs = programs.parent().expect("a folder").display();
    let read =
        |path: &str| fs::read_to_string(zsched_tests::source().join(path)).expect("a document");
    let mut commands = in_backticks(&read("docs/operating.md"));
    commands.extend(displayed(&read("man/mailq.1")));
    let mut seen = HashSet::new();
    commands.retain(|command| !has_placeholder(command) && seen.insert(command.clone()));
    assert!(commands.len() > 40, "{commands:?}");
    if TcpStream::connect("127.0.0.1:10174").is_ok() {
        commands.retain(|command| command != OTHER_PORT);
    }
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", &command])
            .env("PATH", format!("{programs}:/usr/bin:/bin"))
            .env("ZCONFIG", site.path("zmailer.conf"))
            .stdin(std::process::Stdio::null())
            .output()
            .expect("sh starts");
        let expected = OTHER_STATUS.iter().find(|(other, _)| *other == command);
        let said = String::from_utf8_lossy(&output.stderr);
        // The queue has little mail.
        let finds_nothing = said.contains("no matching mail now");
        let expected = expected.map_or(i32::from(finds_nothing), |(_, status)| *status);
        assert_eq!(output.status.code(), Some(expected), "{command}: {said}");
    }
    drop(daemon);
}
