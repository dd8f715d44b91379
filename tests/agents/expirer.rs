//! `expirer`.

use crate::support::{Agent, EXPIRER, Spool, control_file, offset};

const RECIPIENTS: [&str; 5] = [
    "smtpx [127.0.0.66] a@dead.test",
    "smtpx [127.0.0.66] b@dead.test | NOTIFY=NEVER",
    "smtpx [127.0.0.67] c@dead.test",
    "smtp [127.0.0.66] d@dead.test",
    "local h e@x",
];

/// A spool whose message 7 has no message file, and its control file.
fn spool() -> (Spool, String) {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &RECIPIENTS);
    spool.write("transport/7", &control);
    (spool, control)
}

fn tags(spool: &Spool) -> String {
    spool.lines("7", 'r').iter().map(|line| &line[1..2]).collect()
}

#[test]
fn recipients_of_channel_and_host_fail_with_notes() {
    let (spool, control) = spool();
    let answers = spool.session(EXPIRER, &["-h", "[127.0.0.66]", "-c", "smtpx"], "7\n");
    let text = "error2 expired by the administrator";
    let reports = [1, 0].map(|index| format!("7/{}\t\t{text}\n", offset(&control, index)));
    assert_eq!(answers, format!("#hungry\n{}#hungry\n", reports.concat()));
    assert_eq!(tags(&spool), "--   ");
    let notes = spool.lines("7", 'd');
    let data = "failed\x015.4.7 (expired by the administrator)\x01\
                x-local; 554 (expired by the administrator)\x01\texpired by the administrator";
    for (note, user) in notes.iter().zip(["b@dead.test", "a@dead.test"]) {
        assert!(note.ends_with(&format!("\t{user}\x01{data}")), "{note}");
    }
    assert_eq!(notes.len(), 2);
}

#[test]
fn job_of_scheduler_expires_its_host() {
    for (options, expected) in [(&["-c", "smtpx"][..], "  -  "), (&[], "  -  ")] {
        let (spool, _) = spool();
        spool.session(EXPIRER, options, "7\t[127.0.0.67]\n");
        assert_eq!(tags(&spool), expected, "{options:?}");
    }
    let (spool, _) = spool();
    spool.session(EXPIRER, &[], "7\t[127.0.0.66]\n");
    assert_eq!(tags(&spool), "-- - ", "without -c, of any channel");
    spool.session(EXPIRER, &[], "7\n");
    assert_eq!(tags(&spool), "-----", "without a host, the whole message");
}

#[test]
fn text_and_status_are_options() {
    let (spool, _) = spool();
    let options = ["-c", "local", "-m", "the list is closed", "--status", "5.7.1"];
    let answers = spool.session(EXPIRER, &options, "7\th\n");
    assert!(answers.contains("\t\terror2 the list is closed\n"), "{answers}");
    assert!(spool.lines("7", 'd')[0].contains("\x015.7.1 (the list is closed)\x01"));
    for wrong in ["4.4.7", "5.7", "5.7.1 x", "no"] {
        let (answers, status) = Agent::start(&spool, EXPIRER, &["--status", wrong]).end();
        assert_eq!(status.code(), Some(64), "{wrong}");
        assert!(answers.contains("not a status code"), "{answers}");
    }
}

#[test]
fn silent_removal_owes_no_report() {
    let (spool, _) = spool();
    let answers = spool.session(EXPIRER, &["-s", "-l", "/log/expirer", "-c", "smtpx"], "7\n");
    assert_eq!(answers.matches("\terror2 expired").count(), 3, "{answers}");
    assert_eq!((tags(&spool).as_str(), spool.lines("7", 'd').len()), ("---  ", 0));
}

#[test]
fn recipient_of_other_agent_is_left_alone() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["local h a@x", "local h b@x"]);
    let control = control.replacen("r           local h a@x", "r~     1    local h a@x", 1);
    spool.write("transport/7", &control);
    spool.session(EXPIRER, &["-c", "local"], "7\th\n");
    let lines = ["r~     1    local h a@x 0", "r-          local h b@x 0"];
    assert_eq!(spool.lines("7", 'r'), lines);
}
