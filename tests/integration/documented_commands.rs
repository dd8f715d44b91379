//! The commands of the documents, run as they stand.

use crate::support::{Site, control_file};
use std::collections::HashSet;
use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
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

/// Programs whose commands are run.
const PROGRAMS: [&str; 6] = ["mailq", "router", "schedsim", "scheduler", "sendmail", "submit"];

/// Commands that are not run.
const NOT_RUN: [&str; 7] = [
    // They run until they are ended; `quick_start` has tests of the first.
    "scheduler --quick-start",
    "scheduler -n",
    // It writes into the spool of this machine.
    "submit -Z /etc/zmailer.conf -t -oi < message",
    // They name a subcommand or an option, without its words.
    "schedsim run",
    "schedsim replay --cf",
    "scheduler --init",
    "scheduler -t",
];

/// Returns the commands of a document in Markdown: what is in backticks.
fn in_backticks(text: &str) -> Vec<String> {
    // Blocks of code are in lines of their own.
    let spans = text.lines().filter(|line| !line.starts_with("    "));
    let spans = spans.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| is_command(span)).map(str::to_string).collect()
}

/// Returns the commands of a manual page: its displayed lines.
fn displayed(page: &str) -> Vec<String> {
    let lines = page.lines().filter_map(|line| line.strip_prefix(".Dl "));
    let plain = |line: &str| line.replace("\\-", "-").replace("\\(aq", "'").replace("\\(dq", "\"");
    lines.map(plain).filter(|line| is_command(line)).collect()
}

/// Returns true for a pipeline whose last command is one of the programs.
///
/// The name of a program alone names it, but `mailq` does so seldom.
fn is_command(text: &str) -> bool {
    let command = text.rsplit("| ").next().unwrap_or_default();
    let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
    let is_complete = program == "mailq" || !arguments.is_empty();
    is_complete && PROGRAMS.contains(&program) && !NOT_RUN.contains(&text)
}

/// Makes the files that the commands name.
fn make_named_files(site: &Site) {
    let source = zsched_tests::source();
    for (name, example) in [("now.cf", "one-agent.cf"), ("planned.cf", "ten-agents.cf")] {
        let example = source.join("docs/examples/simulation").join(example);
        fs::copy(example, site.path(name)).expect("a configuration");
    }
    let world = "length = \"10m\"\n[[host]]\nname = \"*\"\n\
         [[mail]]\nchannel = \"smtp\"\nhost = \"a.example\"\nper_minute = 5\n";
    site.write("world.toml", world);
    site.write("message", "To: list@example.org\nSubject: news\n\nNone.\n");
    fs::create_dir_all(site.path("var")).expect("a folder");
    symlink(site.path("postoffice"), site.path("var/postoffice")).expect("a link");
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
    make_named_files(&site);
    site.add_zenv(&format!("MAILSHARE={}", site.path("").display()));
    fs::create_dir_all(site.path("postoffice/public")).expect("a folder");
    // The second one renames the recording of the first.
    let recording = site.path("recording").display().to_string();
    let first = site.start_with(&["--record", &recording]);
    assert_eq!(first.end(libc::SIGTERM).code(), Some(0));
    site.write("log", "");
    let daemon = site.start_with(&["--record", &recording]);
    let log = site.log();
    let (_, port) = log.split_once("MAILQ is served on TCP 127.0.0.1:").expect("a port");
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    site.add_zenv(&format!("MAILQPORT={port}"));
    let programs = zsched_tests::program("mailq");
    let programs = programs.parent().expect("a folder").display();
    let read =
        |path: &str| fs::read_to_string(zsched_tests::source().join(path)).expect("a document");
    let mut commands = in_backticks(&read("docs/operating.md"));
    for page in ["mailq.1", "schedsim.1", "scheduler.8", "sendmail.1", "submit.1"] {
        commands.extend(displayed(&read(&format!("man/{page}"))));
    }
    let mut seen = HashSet::new();
    commands.retain(|command| !has_placeholder(command) && seen.insert(command.clone()));
    assert!(commands.len() > 40, "{commands:?}");
    if TcpStream::connect("127.0.0.1:10174").is_ok() {
        commands.retain(|command| command != OTHER_PORT);
    }
    for command in commands {
        let output = Command::new("sh")
            .args(["-c", &command])
            .current_dir(site.path(""))
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
