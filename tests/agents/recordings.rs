//! Sessions recorded with ZMailer's agents. Ours must give the same answers and leave the same
//! control file; the wording of texts may differ.

use crate::support::{EXPIRER, HOLD, MAILBOX, PIPE, Spool, errormail};
use std::fs;

fn data(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/agents/{name}", zsched_tests::source().display());
    fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(name: &str) -> String {
    String::from_utf8_lossy(&data(name)).into_owned()
}

/// Returns the comparable parts of an agent's answers.
///
/// They are the protocol words, and of reports the recipient, action, enhanced status and status
/// word.
fn essence_of_answers(answers: &str) -> Vec<String> {
    let lines = answers.lines().filter(|line| !line.starts_with("# "));
    lines.map(|line| if line.starts_with('#') { line.into() } else { essence(line, 2) }).collect()
}

/// Returns the comparable parts of a line with notary data.
///
/// They are all fields before the notary data, its action and enhanced status, and the first word
/// of each field behind it.
fn essence(line: &str, fields: usize) -> String {
    let mut parts: Vec<&str> = line.split('\t').collect();
    let notary: Vec<&str> = parts[1].split('\x01').collect();
    let action = notary.get(1).copied().unwrap_or_default();
    let status = notary.get(2).and_then(|status| status.split(' ').next()).unwrap_or_default();
    let notary = format!("{action} {status} {}", notary.len());
    parts[1] = &notary;
    parts.truncate(fields + 1);
    let word = parts.get(2).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    format!("{} | {notary} | {word}", parts[0])
}

/// Returns a control file without the times and texts of its `d` lines.
fn essence_of_file(file: &str) -> String {
    let line = |line: &str| match line.strip_prefix("d ").and_then(|rest| rest.split_once("::")) {
        Some((place, rest)) => {
            let (_time, notary) = rest.split_once('\t').expect("a TAB behind the time");
            let (notary, _text) = notary.split_once('\t').expect("a TAB behind the notary data");
            format!("d {}", essence(&format!("{place}\t{notary}\t"), 2))
        }
        None => line.to_string(),
    };
    file.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn library_answers_probes_as_recorded() {
    for number in 1..=9 {
        let spool = Spool::new();
        let file = |kind| format!("probes/{number}.{kind}");
        spool.write(&format!("transport/{number}"), &text(&file("controlfile")));
        if number != 8 {
            spool.write(&format!("queue/{number}"), &"0123456\n".repeat(6));
        }
        let answers = spool.session(HOLD, &[], &text(&file("stdin")));
        let (mut said, mut recorded) = (text(&file("stdout")), text(&file("controlfile-after")));
        if number == 9 {
            // The submission keeps the wish for a report of success. The original reports it, too.
            said = said.replace("ok2", "ok3");
            recorded.truncate(recorded.find("\nd ").expect("a report") + 1);
        }
        assert_eq!(essence_of_answers(&answers), essence_of_answers(&said), "probe {number}");
        let after = spool.read(&format!("transport/{number}"));
        assert_eq!(essence_of_file(&after), essence_of_file(&recorded), "probe {number}");
    }
}

#[test]
fn missing_message_is_noted_as_recorded() {
    let spool = Spool::new();
    spool.write("transport/8", &text("probes/8.controlfile"));
    spool.session(HOLD, &[], "8\ttimeout:2100000000\n");
    let note = &spool.lines("8", 'd')[0];
    assert!(note.starts_with("d 46:90:-1::"), "{note:?}");
    assert!(note.contains("\t\x01failed\x01\x01\x01\t"), "{note:?}");
}

/// Creates a spool with the two recorded messages.
fn recorded_spool() -> Spool {
    let spool = Spool::new();
    for name in ["10101639", "10101649"] {
        let copy = |from: &str, to: &str| {
            let file = data(&format!("by-hand/{name}.{from}"));
            fs::write(spool.path(&format!("{to}/{name}")), file).expect("copy");
        };
        copy("controlfile", "transport");
        copy("message", "queue");
    }
    spool
}

fn check_by_hand(session: &str, program: &str, arguments: &[&str]) {
    let spool = recorded_spool();
    let mail = spool.mail();
    let arguments: Vec<&str> =
        arguments.iter().map(|word| if *word == "MAIL" { &mail } else { *word }).collect();
    let answers = spool.session(program, &arguments, &text(&format!("by-hand/{session}.stdin")));
    let recorded = text(&format!("by-hand/{session}.stdout"));
    assert_eq!(essence_of_answers(&answers), essence_of_answers(&recorded), "{session}");
    let path = format!("{}/tests/data/agents/by-hand/{session}", zsched_tests::source().display());
    if let Ok(recorded) = fs::read_to_string(format!("{path}.controlfile-after")) {
        assert_eq!(spool.read("transport/10101639"), recorded, "{session}");
    }
}

#[test]
fn manual_sessions_equal_recordings() {
    for session in ["hold", "hold-emptyline", "hold-partial", "hold-withoutchannelmatch", "nofile"]
    {
        check_by_hand(session, HOLD, &[]);
    }
    check_by_hand("mailbox", MAILBOX, &["-u", "-d", "MAIL"]);
    check_by_hand("errormail", errormail(), &[]);
}

/// The options are those of the recording, behind the file, which is the installation's there.
#[test]
fn manual_session_of_sm_equals_recording() {
    let conf = tempfile::NamedTempFile::new().expect("a file");
    fs::write(conf.path(), "uucp\tU\t/bin/true\t\tuux - -r -a$g -gC $h!rmail ($u)\n")
        .expect("written");
    let path = conf.path().to_string_lossy().into_owned();
    check_by_hand("sm", PIPE, &["-f", &path, "-8c", "uucp", "uucp"]);
}

/// The status code is an option of ours.
#[test]
fn manual_session_of_expirer_equals_recording() {
    let spool = recorded_spool();
    let options = ["-h", "[127.0.0.66]", "-c", "smtpx", "--status", "5.7.0"];
    let answers = spool.session(EXPIRER, &options, &text("by-hand/expirer.stdin"));
    let recorded = text("by-hand/expirer.stdout");
    assert_eq!(essence_of_answers(&answers), essence_of_answers(&recorded));
    let recorded = text("by-hand/expirer.controlfile-after");
    assert_eq!(essence_of_file(&spool.read("transport/10101639")), essence_of_file(&recorded));
}

/// Returns the words of a text, of which blanks and cases may differ.
fn words(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn error_message_has_the_facts_of_the_recorded_one() {
    let path = format!("{}/tests/data/compat/dsn/10085042", zsched_tests::source().display());
    let recorded = fs::read_to_string(path).expect("a recording");
    let spool = recorded_spool();
    spool.session(errormail(), &[], &text("by-hand/errormail.stdin"));
    let names = spool.names("router");
    let [name] = &names[..] else { panic!("{names:?}") };
    let report = spool.read(&format!("router/{name}"));
    let envelope = |text: &str| -> Vec<String> {
        let lines = text.lines().skip(1).take_while(|line| *line != "env-end");
        lines.map(|line| line.replace("RFC822", "rfc822")).collect()
    };
    assert_eq!(envelope(&report), envelope(&recorded));
    for fact in [
        "channel error",
        "Final-Recipient: RFC822; nobody@unroutable.example.org",
        "Action: failed",
        "Diagnostic-Code: X-LOCAL; 500 (unresolvable)",
        "Subject: Unresolvable mail address",
        "To: lots@zm.example.test, (comment) a@x.dead.test",
        "body line 1\nbody line 2\n",
    ] {
        let fact = words(fact);
        assert!(words(&recorded).contains(&fact), "{fact}: {recorded}");
        assert!(words(&report).contains(&fact), "{fact}: {report}");
    }
}

#[test]
fn requested_success_is_noted_as_recorded() {
    let spool = recorded_spool();
    spool.deliver(&[], "10101649\tnews@zm.example.test\n");
    let recorded = "d 560:667:626::1\tnews@zm.example.test\x01delivered\x012.2.0 (x)\x01x\x01\tOk";
    let note = &spool.lines("10101649", 'd')[0];
    assert_eq!(essence_of_file(note), essence_of_file(recorded));
    assert!(note.contains("\tnews@zm.example.test\x01delivered\x012.2.0 ("), "{note:?}");
}
