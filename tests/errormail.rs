//! `errormail`.

use std::os::unix::fs::MetadataExt;
use zsched_tests::agent_session::{Agent, Spool, allow, control_file, offset};

const ERRORMAIL: &str = env!("CARGO_BIN_EXE_errormail");

/// Runs the agent with a ZENV file, whose `MAILSHARE` is the folder of the spool.
fn session(spool: &Spool, input: &str) -> String {
    let zenv = format!("MAILSHARE={}\nORGDOMAIN=relay.test\n", spool.path("").display());
    spool.write("zenv", &zenv);
    let preparation = format!("export ZCONFIG={} TZ=UTC", spool.path("zenv").display());
    let mut agent = Agent::start_after(spool, &preparation, ERRORMAIL, &[]);
    agent.send(input);
    let (answers, status) = agent.end();
    assert!(status.success(), "{status}, after {answers:?}");
    answers
}

/// The reports in `router/`.
fn reports(spool: &Spool) -> Vec<String> {
    spool.names("router").iter().map(|name| spool.read(&format!("router/{name}"))).collect()
}

#[test]
fn recipients_of_one_sender_are_in_one_report() {
    let spool = Spool::new();
    let recipients = [
        "error unresolvable a@x | ORCPT=rfc822;list+40x",
        "error unresolvable b@x | NOTIFY=SUCCESS,FAILURE",
        "error unresolvable c@x | NOTIFY=NEVER",
        "error header d@x",
    ];
    let control = control_file("7", "local - sender@x", &recipients);
    spool.put("7", &control, "body\n");
    let answers = session(&spool, "7\tunresolvable\n");
    let names = spool.names("router");
    let [name] = &names[..] else { panic!("{names:?}") };
    let metadata = spool.path(&format!("router/{name}")).metadata().expect("a report");
    assert_eq!((metadata.ino().to_string(), metadata.mode() & 0o777), (name.clone(), 0o640));
    let report = &reports(&spool)[0];
    assert!(report.starts_with("rcvdfrom STDIN (errormail@"), "{report}");
    for part in [
        ")\nchannel error\nerrormsg\ntodsn NOTIFY=NEVER ORCPT=rfc822;sender@x\nto <sender@x>\nenv-end\n",
        "\nTo: <sender@x>\n",
        "\nFrom: \"Mail Delivery System\" <postmaster@relay.test>\n",
        "\nSubject: Unresolvable mail address\n",
        "\nReporting-MTA: dns; relay.test\n",
        "\nOriginal-Recipient: rfc822; list@x\nFinal-Recipient: rfc822; a@x\nAction: failed\n\
         Status: 5.1.0 (unresolvable)\nDiagnostic-Code: x-local; 500 (unresolvable)\n",
        "\nFinal-Recipient: rfc822; b@x\n",
        "Content-Type: message/rfc822\n",
        "\n\nSubject: test\n\nbody\n\n--S7",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
    assert!(!report.contains("c@x") && !report.contains("d@x"), "{report}");
    for (index, text) in [(0, "ok3 S"), (1, "ok3 S"), (2, "ok3 not reported: ")] {
        let line = format!("7/{}\t\t{text}", offset(&control, index));
        assert!(answers.contains(&line), "{line}: {answers:?}");
    }
    assert!(answers.contains(&format!("ok3 S{name}")), "{answers:?}");
    let tags: Vec<String> =
        spool.lines("7", 'r').iter().map(|line| line[..2].to_string()).collect();
    assert_eq!(tags, ["r+", "r+", "r+", "r "]);
    assert!(spool.lines("7", 'd').is_empty(), "nobody else tells the sender");
    assert!(spool.names("public").is_empty());
}

#[test]
fn form_of_the_operator_is_used() {
    let spool = Spool::new();
    std::fs::create_dir(spool.path("forms")).expect("made");
    let form = "HDR From: The Post Office <postmaster>\nADR Bcc: <archive@x>\n\
        SUB Subject: Kein Anschluss\n\nUnter dieser Adresse.\n";
    spool.write("forms/unresolvable", form);
    let control = control_file("7", "local - sender@x", &["error unresolvable a@x"]);
    spool.put("7", &control.replace("\nm\n", "\nR HDRS\nm\n"), "body\n");
    session(&spool, "7\tunresolvable\n");
    let report = &reports(&spool)[0];
    for part in [
        "\nto <archive@x>\n",
        "\nFrom: The Post Office <postmaster>\nSubject: Kein Anschluss\n",
        "\nUnter dieser Adresse.\n",
        "Content-Type: text/rfc822-headers\n",
    ] {
        assert!(report.contains(part), "{part}\n{report}");
    }
}

#[test]
fn form_of_the_language_of_the_sender_is_used() {
    let spool = Spool::new();
    std::fs::create_dir_all(spool.path("forms/de")).expect("made");
    spool.write("forms/unresolvable", "\nNo connection.\n");
    spool.write("forms/de/unresolvable", "\nKein Anschluss.\n");
    for (number, header, text) in
        [("7", "Accept-Language: fr, de-CH\n", "Kein Anschluss."), ("8", "", "No connection.")]
    {
        let control = control_file(number, "local - sender@x", &["error unresolvable a@x"]);
        spool.put(number, &control.replace("\nm\n", &format!("\nm\n{header}")), "body\n");
        session(&spool, &format!("{number}\tunresolvable\n"));
        assert!(reports(&spool).iter().any(|report| report.contains(text)), "{text}");
    }
}

#[test]
fn form_with_a_mistake_is_named_in_the_log() {
    let spool = Spool::new();
    std::fs::create_dir(spool.path("forms")).expect("made");
    spool.write("forms/header", "SUB Wrong\n");
    let control = control_file("7", "local - sender@x", &["error header a@x"]);
    spool.put("7", &control, "body\n");
    let answers = session(&spool, "7\theader\n");
    assert!(answers.contains("/forms/header: 1:5: expected a header"), "{answers}");
    assert!(reports(&spool)[0].contains("\nSubject: Invalid header of your mail\n"));
}

#[test]
fn report_about_a_report_is_not_sent() {
    let spool = Spool::new();
    spool.put("7", &control_file("7", "error <> <>", &["error unresolvable a@x"]), "body\n");
    let answers = session(&spool, "7\tunresolvable\n");
    assert!(answers.contains("\tok3 not reported: the message is a report itself"), "{answers}");
    assert!(spool.names("router").is_empty());
}

#[test]
fn name_of_form_cannot_leave_the_folder() {
    let spool = Spool::new();
    spool.write("secret", "a secret\n");
    spool.put("7", &control_file("7", "local - sender@x", &["error ../secret a@x"]), "body\n");
    session(&spool, "7\t../secret\n");
    let report = &reports(&spool)[0];
    assert!(report.contains("\nSubject: Your mail could not be sent\n"), "{report}");
    assert!(!report.contains("a secret"), "{report}");
}

#[test]
fn large_message_goes_back_as_headers() {
    let spool = Spool::new();
    let control = control_file("7", "local - sender@x", &["error unresolvable a@x"]);
    spool.put("7", &control, &"x".repeat(1024 * 1024 + 1));
    session(&spool, "7\tunresolvable\n");
    let report = &reports(&spool)[0];
    assert!(report.contains("Content-Type: text/rfc822-headers\n") && report.len() < 10_000);
}

#[test]
fn report_that_cannot_be_handed_over_defers() {
    let spool = Spool::new();
    let control = control_file("7", "local - sender@x", &["error unresolvable a@x"]);
    spool.put("7", &control, "body\n");
    allow(spool.path("router"), 0o555);
    let Some(answers) = spool.ordinary_session(ERRORMAIL, &[], "7\tunresolvable\n") else {
        return;
    };
    allow(spool.path("router"), 0o755);
    assert!(answers.contains("\tdeferred cannot hand the report to the router: "), "{answers}");
    assert!(spool.names("router").is_empty() && spool.names("public").is_empty());
    assert_eq!(spool.read("transport/7"), control);
    let answers = session(&spool, "7\tunresolvable\n");
    assert!(answers.contains("\tok3 S"), "{answers}");
    assert_eq!(spool.names("router").len(), 1);
}
