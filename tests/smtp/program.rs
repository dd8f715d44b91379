//! The program itself: its options, its pauses, its end.

use crate::peer::{Action, Peer, Script};
use crate::support::{SENDER, control_file};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use zsched_smtp::configuration::Configuration;

const SMTP: &str = env!("CARGO_BIN_EXE_smtp");
/// Time after which a test gives up.
const DEADLINE: Duration = Duration::from_secs(30);

/// The program, with a spool.
struct Program {
    spool: TempDir,
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(arguments: &[&str]) -> Program {
        let spool = tempfile::tempdir().expect("a folder");
        for folder in ["transport", "queue", "public", "router"] {
            fs::create_dir(spool.path().join(folder)).expect("make a folder");
        }
        let mut child = Command::new(SMTP)
            .args(arguments)
            .env("ZCONFIG", "/dev/null")
            .current_dir(spool.path().join("transport"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Program { spool, child, input, output }
    }

    /// Puts a message into the queue, and gives it to the program.
    fn give(&mut self, host: &str) {
        self.give_for(host, &["ann@b.test"]);
    }

    fn give_for(&mut self, host: &str, users: &[&str]) {
        let file = control_file(host, SENDER, users);
        fs::write(self.spool.path().join("queue/4711"), "Hello\n").expect("write a file");
        fs::write(self.spool.path().join("transport/4711"), file).expect("write a file");
        self.say(&format!("4711\t{host}\n"));
    }

    fn say(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is open");
        input.write_all(text.as_bytes()).expect("the program reads");
    }

    /// Returns the next line that has this text.
    fn read_until(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let count = self.output.read_line(&mut line).expect("the program writes");
            assert!(count > 0, "the program has ended without {text}");
            if line.contains(text) {
                return line;
            }
        }
    }

    fn tag(&self) -> char {
        self.tags().chars().next().expect("a recipient")
    }

    /// The tags of all recipients.
    fn tags(&self) -> String {
        let text = fs::read_to_string(self.spool.path().join("transport/4711")).expect("a file");
        let lines = text.lines().filter(|line| line.starts_with('r'));
        lines.filter_map(|line| line.chars().nth(1)).collect()
    }

    fn end(mut self) -> bool {
        drop(self.input.take());
        self.wait()
    }

    fn wait(&mut self) -> bool {
        let mut status = None;
        wait_until("the program ends", || {
            status = self.child.try_wait().expect("it is our child");
            status.is_some()
        });
        status.is_some_and(|status| status.success())
    }
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn commands(peer: &Peer) -> Vec<String> {
    peer.seen().commands
}

#[test]
fn session_is_ended_after_a_pause_and_at_the_end() {
    let peer = Peer::start(Script::offering(&["PIPELINING"]));
    let folder = tempfile::tempdir().expect("a folder");
    let configuration = folder.path().join("smtp-ta.conf");
    fs::write(&configuration, "[session]\nidle-time = \"1s\"\n").expect("write a file");
    let mut program = Program::start(&["-S", configuration.to_str().unwrap(), "-h", "me.test"]);
    program.read_until("#hungry");
    program.give(&peer.host());
    let report = program.read_until("ok3");
    assert!(report.contains("X-IP-addr; [127.0.0.1] (127.0.0.1|"), "{report:?}");
    program.read_until("#hungry");
    assert_eq!(program.tag(), '+');
    program.say("#idle\n");
    peer.wait_for_quits(1);
    assert_eq!(commands(&peer)[0], "EHLO me.test");
    // The end of the input ends the next session at once.
    program.give(&peer.host());
    program.read_until("ok3");
    assert!(program.end());
    peer.wait_for_quits(2);
}

#[test]
fn signal_ends_a_wait_and_leaves_the_recipient_to_another_agent() {
    let peer = Peer::start(Script::default().on("RCPT", Action::Stall));
    let mut program = Program::start(&[]);
    program.read_until("#hungry");
    program.give(&peer.host());
    wait_until("RCPT", || commands(&peer).iter().any(|it| it.starts_with("RCPT")));
    assert_eq!(program.tag(), '~');
    let pid = program.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    assert!(program.wait());
    assert_eq!(program.tag(), ' ');
}

#[test]
fn signal_in_a_transaction_leaves_all_of_its_recipients() {
    let users = ["ann@b.test", "bob@b.test", "eve@b.test"];
    let peer = Peer::start(Script::default().on("DATA", Action::Stall));
    let mut program = Program::start(&[]);
    program.read_until("#hungry");
    program.give_for(&peer.host(), &users);
    wait_until("DATA", || commands(&peer).iter().any(|it| it == "DATA"));
    assert_eq!(program.tags(), "~~~");
    let pid = program.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    assert!(program.wait());
    assert_eq!(program.tags(), "   ");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut program.output, &mut rest).expect("the program writes");
    assert_eq!(rest, "", "nothing is reported");
}

#[test]
fn end_of_the_time_for_a_job_is_named() {
    let peer = Peer::start(Script::default().on("RCPT", Action::Stall));
    let mut program = Program::start(&["-T", "job=1s"]);
    program.give(&peer.host());
    program.read_until("the time for the job is over");
    assert!(program.end());
}

#[test]
fn log_has_the_dialogue() {
    let peer = Peer::start(Script::default());
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut program = Program::start(&["-sl", log.to_str().unwrap()]);
    program.give(&peer.host());
    program.read_until("ok3");
    assert!(program.end());
    let log = fs::read_to_string(log).expect("the log");
    for line in ["#\tjob 4711 for [127.0.0.1]:", "r\t220 peer.test", "w\tMAIL From:<alice@a.test>"]
    {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn probe_shows_the_dialogue_and_sends_nothing() {
    let peer = Peer::start(Script::offering(&["PIPELINING", "SIZE 1000"]));
    let probe = |host: &str| {
        let output = Command::new(SMTP).args(["--probe", host]).output().expect("it starts");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (is_good, text) = probe(&peer.host());
    assert!(is_good, "{text}");
    for line in ["<- 220 peer.test ESMTP", "<- 250 SIZE 1000", "takes mail", "-> QUIT"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(commands(&peer).iter().all(|command| !command.starts_with("MAIL")));
    let busy = Peer::start(Script::default().on("GREETING", crate::peer::say("421 4.3.2 busy")));
    let (is_good, text) = probe(&busy.host());
    assert!(!is_good && text.contains("mail would wait: 4.3.2"), "{text}");
}

#[test]
fn letters_of_original_mean_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let secrets = folder.path().join("secrets");
    fs::write(&secrets, "* [127.0.0.1] YW5u c2VjcmV0\n").expect("write a file");
    let secrets = secrets.to_str().expect("a name");
    let peer = Peer::start(Script::offering(&["AUTH PLAIN"]));
    let mut program = Program::start(&["-1vvd", "-L", "[127.0.0.5]", "-A", secrets, "-O", "x"]);
    for _ in 0..2 {
        program.give(&peer.host());
        let report = program.read_until("ok3");
        assert!(report.contains("|127.0.0.5|"), "{report:?}");
    }
    assert!(program.end());
    assert_eq!(peer.seen().sessions, 2);
    assert!(commands(&peer).contains(&"AUTH PLAIN AGFubgBzZWNyZXQ=".to_string()));
    // Only connects.
    let output = Command::new(SMTP).args(["-D", &peer.host()]).output().expect("it starts");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("takes mail"), "{text}");
}

#[test]
fn wrong_options_and_configurations_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let bad = folder.path().join("bad.conf");
    fs::write(&bad, "[session]\nrecipients = 1\nrecipient = 2\n").expect("write a file");
    let bad = bad.to_str().unwrap();
    for (arguments, status, text) in [
        (&["-T", "connn=1s"][..], 64, "connn is none of conn greet"),
        (&["-T", "0"], 64, "no time of at least one second"),
        (&["-h", "a b"], 64, "is no host name"),
        (&["-L", ""], 64, "-L : "),
        (&["-S", "/nonexistent"], 78, "/nonexistent: No such file"),
        (&["-S", bad, "--check"], 78, "bad.conf:3:1: unknown field `recipient`"),
    ] {
        let output = Command::new(SMTP).args(arguments).output().expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}

#[test]
fn example_is_a_configuration() {
    let text = zsched_tests::source().join("docs/smtp-ta.conf.example");
    let text = fs::read_to_string(text).expect("the example");
    let folder = tempfile::tempdir().expect("a folder");
    // The commented settings, too.
    let all = text.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    });
    for text in [text.clone(), all.collect::<Vec<_>>().join("\n")] {
        let path = folder.path().join("smtp-ta.conf");
        fs::write(&path, text).expect("write a file");
        let arguments = ["-S", path.to_str().unwrap(), "--check"];
        let output = Command::new(SMTP).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The keys of a table, from what is said about an unknown one.
fn keys(before: &str, after: &str) -> Vec<String> {
    let text = format!("{before}nonsense = 1{after}\n");
    let parsed = Configuration::parse(Path::new("x"), &text);
    let error = parsed.expect_err("an unknown key").to_string();
    let (_, expected) = error.split_once("expected ").expect(&error);
    expected.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn example_and_manual_have_every_key() {
    let read = |name: &str| {
        let path = zsched_tests::source().join(name);
        fs::read_to_string(path).expect("a document")
    };
    let (example, page) = (read("docs/smtp-ta.conf.example"), read("man/smtp.8"));
    let mut count = 0;
    for (table, before, after) in [
        ("session", "[session]\n", ""),
        ("host", "[[host]]\n", ""),
        ("reply-patterns", "[[reply-patterns]]\n", ""),
        ("dns", "[dns]\n", ""),
        ("routing", "[routing]\n", ""),
        ("routing.smarthost", "[[routing.smarthost]]\n", ""),
        ("routing.source", "[[routing.source]]\n", ""),
        ("routing.source", "[[routing.source]]\naddresses = [{ ", "}]"),
        ("tls", "[tls]\n", ""),
        ("tls", "[tls]\nclient-certificate = { ", "}"),
        ("tls.policy", "[[tls.policy]]\n", ""),
    ] {
        // All rules of the table, with their commented lines.
        let is_head = |line: &str| line.trim_matches(['#', '[', ']']) == table;
        let of_example: String = example
            .split("\n\n")
            .filter(|part| part.lines().any(|line| line.contains('[') && is_head(line)))
            .collect();
        let mut items = page.split("\n.It Li [");
        let of_page =
            items.find(|item| item.trim_start_matches('[').starts_with(&format!("{table}]")));
        let of_page = of_page.unwrap_or_default();
        for key in keys(before, after) {
            let is_table =
                matches!((table, &*key), ("routing", "smarthost" | "source") | ("tls", "policy"));
            let words = |text: &str| text.split([' ', '\n', '#', '{']).any(|word| word == key);
            assert!(is_table || words(&of_example), "the example has no {key} in {table}");
            assert!(is_table || words(of_page), "smtp.8 has no {key} in {table}");
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

#[test]
fn manual_has_every_option() {
    use clap::CommandFactory;
    let page = zsched_tests::source().join("man/smtp.8");
    let page = fs::read_to_string(page).expect("the manual").replace('\\', "");
    let words: Vec<&str> = page.split([' ', '\n', ',']).collect();
    for argument in zsched_smtp::options::SmtpOptions::command().get_arguments() {
        if let Some(long) = argument.get_long() {
            assert!(words.contains(&&*format!("-{long}")), "smtp.8 has no --{long}");
        }
        if let Some(short) = argument.get_short() {
            let is_there = words.iter().any(|word| *word == short.to_string());
            assert!(is_there, "smtp.8 has no -{short}");
        }
    }
}
