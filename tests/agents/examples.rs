//! The example agents in `docs/examples/agents`. Their readers copy them, so they must be correct.

use crate::support::{Agent, Spool, control_file, not_run, offset};
use std::process::Command;

/// Program that the agents run: it logs recipient and message, and its status depends on the user.
const PROGRAM: &str = r#"#!/bin/sh
{ echo "to: $1"; cat; echo .; } >>delivered
case $1 in
    fail*) echo "we do not like"; echo "this user"; exit 67 ;;
    later*) echo "busy"; exit 75 ;;
esac
"#;

/// Returns the example agents that can run here.
fn agents() -> Vec<String> {
    let path = |name| format!("{}/docs/examples/agents/{name}", zsched_tests::source().display());
    let mut agents = vec![path("deliver.sh")];
    match Command::new("python3").arg("--version").output() {
        Ok(output) if output.status.success() => agents.push(path("deliver.py")),
        _ => not_run("deliver.py: there is no python3"),
    }
    agents
}

fn spool() -> Spool {
    let spool = Spool::new();
    spool.write("program", PROGRAM);
    crate::support::allow(spool.path("program"), 0o755);
    spool
}

fn session(spool: &Spool, agent: &str, input: &str) -> String {
    let program = spool.path("program").to_string_lossy().into_owned();
    spool.session(agent, &["demo", &program], input)
}

#[test]
fn each_result_is_reported_noted_and_marked() {
    for agent in agents() {
        let spool = spool();
        let recipients = [
            "demo H ok%s@x | NOTIFY=SUCCESS",
            "demo h fail@x | NOTIFY=FAILURE",
            "demo h later@x",
            "demo other ok@x",
            "else h ok@x",
        ];
        let control = control_file("7-x", "local - a@x", &recipients);
        spool.put("7-x", &control, "body\n\nFrom me\n");
        let answers = session(&spool, &agent, "7-x\th\n#idle\n");
        let [ok, failed, later] = [0, 1, 2].map(|index| offset(&control, index));
        for line in [
            format!("7/{ok}\tok%s@x\x01delivered\x012.0.0\x01x-local; 250"),
            format!("7/{failed}\t\terror2 we do not like"),
            format!("7/{later}\tlater@x\x01delayed\x014.3.0\x01x-local; 451"),
        ] {
            assert!(answers.contains(&line), "{agent}: {line:?} in {answers:?}");
        }
        assert_eq!(answers.lines().count(), 6, "{agent}: {answers:?}");
        assert!(answers.ends_with("#hungry\n#hungry\n"), "{agent}: {answers:?}");
        let tags: Vec<String> = spool.lines("7-x", 'r').iter().map(|r| r[..12].into()).collect();
        let [done, gone, open] = ["r+          ", "r-          ", "r           "];
        assert_eq!(tags, [done, gone, open, open, open], "{agent}");
        let note = &spool.lines("7-x", 'd')[0];
        let headers = control.find("m\nSubject").expect("headers") + 2;
        let notify = control.find("N NOTIFY=FAILURE").expect("an N line");
        assert!(note.starts_with(&format!("d {failed}:{headers}:{notify}::1")), "{note:?}");
        assert!(note.contains("\tfail@x\x01failed\x015.3.0\x01x-local; 550"), "{note:?}");
        let fields = note.split('\t').nth(1).expect("notary data").split('\x01').count();
        assert_eq!(fields, 5, "{note:?}");
        let got = spool.read("transport/delivered");
        let message = "to: ok%s@x\nSubject: test\n\nbody\n\nFrom me\n.\n";
        assert!(got.contains(message), "{agent}: {got:?}");
        // All other bytes of the control file are unchanged.
        let after = spool.read("transport/7-x");
        assert_eq!(after.len() - note.len() - 1, control.len(), "{agent}");
        zsched_format::control_file::parse(after.into_bytes()).expect("a good control file");
    }
}

#[test]
fn recipients_of_other_agents_are_left_alone() {
    for agent in agents() {
        let spool = spool();
        let control = control_file("7", "local - a@x", &["demo h u@x"]);
        let locked = control.replace("r           demo", "r~     1    demo");
        spool.put("7", &locked, "body\n");
        let answers = session(&spool, &agent, "7\th\nnothing\th\n");
        let expected = "#hungry\n#resync 7\n#hungry\n#resync nothing\n#hungry\n";
        assert_eq!(answers, expected, "{agent}");
        assert_eq!(spool.read("transport/7"), locked, "{agent}");
        assert!(!spool.path("transport/delivered").exists());
    }
}

#[test]
fn missing_message_is_a_failure() {
    for agent in agents() {
        let spool = spool();
        spool.write("transport/7", &control_file("7", "local - a@x", &["demo h u@x"]));
        let answers = session(&spool, &agent, "7\th\n");
        assert!(answers.contains("\t\terror2 the message is missing"), "{agent}: {answers:?}");
        assert!(spool.lines("7", 'r')[0].starts_with("r- "), "{agent}");
        assert!(!spool.path("transport/delivered").exists());
    }
}

#[test]
fn end_of_input_ends_agent() {
    for agent in agents() {
        let spool = spool();
        let control = control_file("7", "local - a@x", &["demo h u@x"]);
        spool.put("7", &control, "body\n");
        for input in ["", "\n", "\n7\th\n", "7\th"] {
            assert_eq!(session(&spool, &agent, input), "#hungry\n", "{agent}: {input:?}");
        }
        assert_eq!(spool.read("transport/7"), control, "{agent}");
        // The agent also exits when its scheduler is gone.
        Agent::start(&spool, &agent, &["demo", "true"]).disconnect(|| {});
    }
}

#[test]
fn addresses_that_look_like_options_are_refused() {
    for agent in agents() {
        let spool = spool();
        let control = control_file("7", "local - a@x", &["demo h -oQ/tmp@x", "demo h ok@x"]);
        spool.put("7", &control, "body\n");
        let answers = session(&spool, &agent, "7\th\n");
        assert!(
            answers.contains("\t\terror2 addresses that begin with a dash"),
            "{agent}: {answers}"
        );
        assert!(answers.contains("\tok "), "{agent}: {answers}");
        let tags: Vec<String> = spool.lines("7", 'r').iter().map(|r| r[..2].into()).collect();
        assert_eq!(tags, ["r-", "r+"], "{agent}");
        let got = spool.read("transport/delivered");
        assert!(got.contains("to: ok@x\n") && !got.contains("-oQ"), "{agent}: {got}");
    }
}

#[test]
fn malformed_lines_do_not_stop_others() {
    for agent in agents() {
        let spool = spool();
        let recipients = ["other", "demo", "demo h", "demo h ok@x", "other h"];
        let control = control_file("7", "local - a@x", &recipients).replace(" 0\n", "\n");
        let control = control.replace("ok@x\n", "ok@x 0\n").replace("o 6\n", "o 6\no six\no \n");
        spool.put("7", &control, "body\n");
        let answers = session(&spool, &agent, "7\th\n");
        assert_eq!(answers.matches("\tok ").count(), 1, "{agent}: {answers}");
        assert!(answers.ends_with("#hungry\n"), "{agent}: {answers}");
        let got = spool.read("transport/delivered");
        assert_eq!(got, "to: ok@x\nSubject: test\n\nbody\n.\n", "{agent}");
    }
}

#[test]
fn control_file_without_body_offset_is_deferred() {
    for agent in agents() {
        let spool = spool();
        let control = control_file("7", "local - a@x", &["demo h ok@x"]);
        let control = control.replace("o 6\n", "o six\n");
        spool.put("7", &control, "body\n");
        let answers = session(&spool, &agent, "7\th\n");
        assert!(answers.contains("\tdeferred "), "{agent}: {answers}");
        assert_eq!(spool.read("transport/7"), control, "{agent}");
        assert!(!spool.path("transport/delivered").exists());
    }
}

#[test]
fn lock_has_pid_of_agent() {
    for agent in agents() {
        let spool = spool();
        spool.write("program", "#!/bin/sh\ncat >/dev/null\ngrep '^r~' 7 | cut -c 2-8 >lock\n");
        spool.put("7", &control_file("7", "local - a@x", &["demo h u@x"]), "body\n");
        let program = spool.path("program").to_string_lossy().into_owned();
        let mut process = Agent::start(&spool, &agent, &["demo", &program]);
        process.send("7\th\n");
        process.read_until("7/");
        let field = zsched_format::control_file::PidField::from_pid(process.pid()).0;
        let lock = format!("~{}\n", String::from_utf8_lossy(&field));
        process.end();
        assert_eq!(spool.read("transport/lock"), lock, "{agent}");
    }
}

/// Runs Python with a pid of seven digits; the script can import our modules in `folder`.
fn run_with_long_pid(spool: &Spool, folder: &str, script: &str) {
    let folder = format!("{}/{folder}", zsched_tests::source().display());
    let script = format!("import os, sys; os.getpid = lambda: 4194304; {script}");
    let status = Command::new("python3")
        .args(["-B", "-c", &script])
        .env("PYTHONPATH", folder)
        .current_dir(spool.path("transport"))
        .status();
    assert!(status.expect("python3 starts").success());
}

#[test]
fn lock_has_first_digits_of_long_pid() {
    if agents().len() < 2 {
        return;
    }
    let control = control_file("7", "local - a@x", &["demo h u@x"]);
    let place = offset(&control, 0);
    for (folder, script) in [
        ("docs/examples/agents", format!("import deliver; deliver.lock(os.open('7', 2), {place})")),
        (
            "tests/data/integration/agents",
            format!("import wire; wire.ControlFile('7').take({place})"),
        ),
    ] {
        let spool = spool();
        spool.put("7", &control, "body\n");
        run_with_long_pid(&spool, folder, &script);
        assert_eq!(&spool.lines("7", 'r')[0][..8], "r~419430", "{folder}");
    }
}

#[test]
fn failure_without_room_for_note_is_deferred() {
    // In sh, the signal of such a write ends the agent.
    for agent in agents().into_iter().filter(|agent| agent.ends_with(".py")) {
        let spool = spool();
        spool.write("program", "#!/bin/sh\necho no\nexit 1\n");
        let control = control_file("7", "local - a@x", &["demo h u@x"]);
        let room = 4 * 512 - 10 - control.len();
        let control =
            control.replace("Subject: test", &format!("Subject: {}", "x".repeat(room + 4)));
        spool.put("7", &control, "body\n");
        let program = spool.path("program").to_string_lossy().into_owned();
        let mut process = Agent::start_after(&spool, "ulimit -f 4", &agent, &["demo", &program]);
        process.send("7\th\n");
        let (answers, status) = process.end();
        assert!(status.success(), "{status}: {answers}");
        assert!(answers.contains("\tdeferred cannot note this: no\n"), "{answers}");
        assert_eq!(spool.read("transport/7"), control);
    }
}
