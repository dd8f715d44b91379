//! The example agents in `docs/examples/agents`: they speak the protocol that their readers copy.

use crate::support::{Agent, Spool, control_file, not_run, offset};
use std::process::Command;

/// What the agents run: notes whom it got what for, and does what the name of the user asks for.
const PROGRAM: &str = r#"#!/bin/sh
{ echo "to: $1"; cat; echo .; } >>delivered
case $1 in
    fail*) echo "we do not like"; echo "this user"; exit 67 ;;
    later*) echo "busy"; exit 75 ;;
esac
"#;

/// The example agents that can run here.
fn agents() -> Vec<String> {
    let path = |name| format!("{}/docs/examples/agents/{name}", env!("CARGO_MANIFEST_DIR"));
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
fn each_outcome_is_reported_noted_and_marked() {
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
        // The control file has the same bytes as before where nothing had to change.
        let after = spool.read("transport/7-x");
        assert_eq!(after.len() - note.len() - 1, control.len(), "{agent}");
        zsched::control_file::parse(after.into_bytes()).expect("a good control file");
    }
}

#[test]
fn recipients_of_others_are_left_alone() {
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
fn a_message_that_is_gone_is_a_failure() {
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
fn the_end_is_understood() {
    for agent in agents() {
        let spool = spool();
        let control = control_file("7", "local - a@x", &["demo h u@x"]);
        spool.put("7", &control, "body\n");
        for input in ["", "\n", "\n7\th\n", "7\th"] {
            assert_eq!(session(&spool, &agent, input), "#hungry\n", "{agent}: {input:?}");
        }
        assert_eq!(spool.read("transport/7"), control, "{agent}");
        // However it ends, it does.
        Agent::start(&spool, &agent, &["demo", "true"]).abandon();
    }
}
