//! `runner` with programs that follow its protocol, and with some that do not.

use crate::support::{Agent, RUNNER, Spool, control_file, not_run, offset, wait_until};
use std::fs;
use std::process::Command;

/// A program that answers each message with its process id and the fields of the request.
const ECHO: &str = "#!/bin/sh
while IFS= read -r line; do
    case $line in '#ping') echo 0 ;; *) echo \"0 $$ $line\" | tr '\\t' '|' ;; esac
done
";

struct Place {
    spool: Spool,
}

impl Place {
    fn new(program: &str) -> Place {
        let spool = Spool::new();
        spool.write("program", program);
        crate::support::allow(spool.path("program"), 0o755);
        fs::create_dir(spool.path("tmp")).expect("make a folder");
        crate::support::allow(spool.path("tmp"), 0o1777);
        Place { spool }
    }

    /// Puts a message for these users of a host into the queue.
    fn put(&self, name: &str, host: &str, users: &[&str]) -> String {
        let recipients: Vec<String> =
            users.iter().map(|user| format!("list {host} {user}")).collect();
        let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
        let control = control_file(name, "smtp - bob@y.test", &recipients);
        self.spool.put(name, &control, "body\n");
        control
    }

    fn start(&self, options: &[&str]) -> Agent {
        let path = |name| self.spool.path(name).to_string_lossy().into_owned();
        let (folder, program) = (path("tmp"), path("program"));
        let user = format!("{}", zsched_sys::users::effective_user());
        let command = ["--user", &user, "--directory", &folder];
        let end = ["--command", &program, &path("")];
        Agent::start(&self.spool, RUNNER, &[&command, options, &end].concat())
    }

    /// Runs the agent until the end of its input.
    fn session(&self, options: &[&str], input: &str) -> String {
        let mut agent = self.start(options);
        agent.send(input);
        let (answers, status) = agent.end();
        assert_eq!(status.code(), Some(0), "{answers}");
        assert_eq!(self.spool.names("tmp"), [""; 0], "nothing is left");
        answers
    }
}

/// The texts of the reports in the answers of an agent.
fn texts(answers: &str) -> Vec<&str> {
    answers.lines().filter_map(|line| line.split('\t').nth(2)).collect()
}

#[test]
fn program_stays_for_all_messages() {
    let place = Place::new(ECHO);
    place.put("7", "x.test/talk/list", &["talk@x.test", "other@x.test"]);
    place.put("8", "x.test/-/majordomo", &["majordomo@x.test"]);
    let jobs = "7\tx.test/talk/list\n#idle\n#idle\n8\tx.test/-/majordomo\n";
    let answers = place.session(&[], jobs);
    let texts = texts(&answers);
    let fields: Vec<Vec<&str>> = texts.iter().map(|text| text.split('|').collect()).collect();
    // In reverse order of the file, as all agents.
    let without_path: Vec<String> = fields.iter().map(|fields| fields[1..].join(" ")).collect();
    assert_eq!(
        without_path,
        [
            "x.test talk list bob@y.test other@x.test",
            "x.test talk list bob@y.test talk@x.test",
            "x.test - majordomo bob@y.test majordomo@x.test"
        ]
    );
    let pid = |fields: &[&str]| fields[0].split(' ').nth_back(1).map(str::to_string);
    assert!(pid(&fields[0]).is_some() && fields.iter().all(|f| pid(f) == pid(&fields[0])));
    assert_eq!(answers.matches("#hungry\n").count(), 5);
    for name in ["7", "8"] {
        assert!(place.spool.lines(name, 'r').iter().all(|line| line.starts_with("r+")));
    }
}

#[test]
fn per_message_option_starts_program_for_each() {
    let place = Place::new("#!/bin/sh\nread -r line\necho \"0 $$\"\n");
    place.put("7", "x.test/talk/list", &["a@x.test", "b@x.test"]);
    let answers = place.session(&["--per-message"], "7\tx.test/talk/list\n");
    let texts = texts(&answers);
    assert!(texts.len() == 2 && texts[0] != texts[1], "{texts:?}");
    // Without an answer the exit status counts.
    for (status, word) in [(0, "ok3 "), (67, "error2 "), (75, "deferred ")] {
        let place = Place::new(&format!("#!/bin/sh\nread -r line\nexit {status}\n"));
        place.put("7", "x.test/talk/list", &["a@x.test"]);
        let answers = place.session(&["--per-message"], "7\tx.test/talk/list\n");
        assert!(answers.contains(&format!("\t{word}")), "{status}: {answers}");
    }
}

#[test]
fn message_file_is_the_message_without_from_line() {
    let program = "#!/bin/sh
while IFS=\"$(printf '\\t')\" read -r path rest; do cat \"$path\" >\"$1/copy\"; echo 2.1.5 kept; done
";
    let place = Place::new(program);
    place.put("7", "x.test/talk/list", &["talk@x.test"]);
    let answers = place.session(&[], "7\tx.test/talk/list\n");
    assert!(answers.contains("\tok3 kept"), "{answers}");
    assert_eq!(place.spool.read("copy"), "Subject: test\n\nbody\n");
}

#[test]
fn program_that_fails_is_replaced() {
    // The first message of each program is answered, the second kills it.
    let program = "#!/bin/sh\nread -r line; echo 0 $$; read -r line; exit 3\n";
    let place = Place::new(program);
    place.put("7", "x.test/talk/list", &["a@x", "b@x", "c@x", "d@x"]);
    let answers = place.session(&[], "7\tx.test/talk/list\n");
    let words: Vec<&str> =
        texts(&answers).iter().filter_map(|text| text.split(' ').next()).collect();
    assert_eq!(words, ["ok3", "deferred", "ok3", "deferred"], "{answers}");
    assert!(answers.contains("ended (exit status: 3) without an answer"), "{answers}");
}

#[test]
fn program_that_does_not_answer_in_time_is_ended() {
    let place = Place::new("#!/bin/sh\necho $$ >>\"$1/pids\"\nexec sleep 1000\n");
    place.put("7", "x.test/talk/list", &["a@x"]);
    let answers = place.session(&["--timeout", "1"], "7\tx.test/talk/list\n");
    assert!(answers.contains("\tdeferred program did not answer in time"), "{answers}");
    for pid in place.spool.read("pids").lines() {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} still runs");
    }
}

#[test]
fn idle_program_that_does_not_answer_is_replaced() {
    // It answers messages, but no question.
    let program = "#!/bin/sh
while read -r line; do
    case $line in '#ping') exec sleep 1000 ;; *) echo \"0 $$\" ;; esac
done
";
    let place = Place::new(program);
    place.put("7", "x.test/talk/list", &["a@x"]);
    place.put("8", "x.test/talk/list", &["a@x"]);
    let jobs = "7\tx.test/talk/list\n#idle\n8\tx.test/talk/list\n#idle\n";
    let answers = place.session(&["--ping-timeout", "1"], jobs);
    let texts = texts(&answers);
    assert!(texts.len() == 2 && texts[0] != texts[1], "{answers}");
    assert!(texts.iter().all(|text| text.starts_with("ok3 ")), "{answers}");
    assert_eq!(answers.matches("#hungry\n").count(), 5, "the agent itself lives");
}

#[test]
fn answer_without_question_is_never_the_status_of_a_message() {
    // It says two lines at once: the second would be taken for the answer about the next message.
    let program = "#!/bin/sh\nwhile read -r line; do printf '0 %s\\n67 lie\\n' $$; done\n";
    let place = Place::new(program);
    place.put("7", "x.test/talk/list", &["a@x", "b@x", "c@x"]);
    let answers = place.session(&[], "7\tx.test/talk/list\n");
    let texts = texts(&answers);
    assert!(texts.len() == 3 && texts.iter().all(|text| text.starts_with("ok3 ")), "{answers}");
}

#[test]
fn wrong_hosts_and_answers_have_clear_outcomes() {
    let place = Place::new("#!/bin/sh\nwhile read -r line; do echo what; done\n");
    for (name, host, expected) in [
        ("7", "x.test", "error2 the host is not of the form domain/list/function"),
        ("8", "x.test/../list", "error2 the list in the host is not a name"),
        ("9", "x.test/talk/steal", "error2 steal is not a function of lists here"),
        ("10", "x.test/talk/list", "deferred program gave an answer without a status: what"),
    ] {
        place.put(name, host, &["a@x"]);
        let answers = place.session(&[], &format!("{name}\t{host}\n"));
        assert!(answers.contains(expected), "{host}: {answers}");
    }
}

/// Returns the programs in the manual page: literal text that begins with `#!`.
fn programs_of_manual() -> Vec<String> {
    let page = zsched_tests::source().join("man/runner.8");
    let page = fs::read_to_string(page).expect("a manual page");
    let blocks = page.split(".Bd -literal\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split(".Ed\n").next());
    let programs = blocks.filter(|block| block.starts_with("#!"));
    programs
        .map(|text| text.replace("\\e", "\\").replace("\\-", "-").replace("\\(aq", "'"))
        .collect()
}

#[test]
fn programs_of_manual_page_work() {
    let programs = programs_of_manual();
    assert_eq!(programs.len(), 2, "one in Python and one in shell");
    for program in programs {
        let interpreter = program.lines().next().unwrap_or_default();
        if interpreter.ends_with("python3") && Command::new("python3").arg("-V").output().is_err() {
            not_run("the program in Python: there is no python3");
            continue;
        }
        let place = Place::new(&program);
        let control = place.put("7", "x.test/talk/list", &["talk@x.test"]);
        let control = control.replace("bob@y.test", "<>").replace("i 7\n", "i 8\n");
        place.spool.put("8", &control.replace("s smtp - <>", "s error - -"), "body\n");
        let jobs = "7\tx.test/talk/list\n#idle\n8\tx.test/talk/list\n#idle\n";
        let answers = place.session(&[], jobs);
        let texts = texts(&answers);
        assert!(texts[0].starts_with("ok3 "), "{interpreter}: {answers}");
        assert!(texts[1].starts_with("error2 "), "{interpreter}: {answers}");
        let kept = place.spool.read("talk.list");
        assert!(kept.contains("Subject: test\n\nbody\n"), "{interpreter}: {kept}");
    }
}

#[test]
fn stopped_agent_finishes_the_present_message() {
    let program = "#!/bin/sh
while read -r line; do : >\"$1/begun\"; read -r go <\"$1/gate\"; echo 0; done
";
    let place = Place::new(program);
    let gate = place.spool.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo").success());
    let control = place.put("7", "x.test/talk/list", &["a@x", "b@x", "c@x"]);
    let mut agent = place.start(&[]);
    agent.send("7\tx.test/talk/list\n");
    wait_until("the program works", || place.spool.path("begun").exists());
    agent.signal("TERM");
    fs::write(&gate, "go\n").expect("written");
    let (answers, status) = agent.end();
    assert_eq!(status.code(), Some(0));
    assert_eq!(texts(&answers).len(), 1, "{answers}");
    let tags: Vec<String> =
        place.spool.lines("7", 'r').iter().map(|line| line[1..2].to_string()).collect();
    assert_eq!(tags, [" ", " ", "+"], "the last line of the file comes first");
    assert!(answers.contains(&format!("7/{}\t", offset(&control, 2))), "{answers}");
    assert_eq!(place.spool.names("tmp"), [""; 0], "nothing is left");
}
