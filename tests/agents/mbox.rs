//! `mailbox` and mbox files.

use crate::support::{Agent, MAILBOX, Spool, control_file, offset};
use std::fs;
use std::process::Command;

/// Delivers `body` from `sender` to `recipient`; returns the report.
fn deliver(spool: &Spool, sender: &str, recipient: &str, body: &str) -> String {
    spool.put("7", &control_file("7", sender, &[&format!("local h {recipient}")]), body);
    let answers = spool.deliver(&["-w", "0"], "7\th\n");
    answers.trim_start_matches("#hungry\n").trim_end_matches("#hungry\n").to_string()
}

/// A mailbox with the dates of its `From_` lines taken out, once they have been looked at.
fn without_dates(mailbox: &str) -> String {
    let line = |line: &str| match line.strip_prefix("From ") {
        Some(rest) => {
            let (sender, date) = rest.split_once(' ').expect("a date behind the sender");
            let words: Vec<&str> = date.split_ascii_whitespace().collect();
            let [_weekday, _month, day, time, year] = words[..] else { panic!("{date}") };
            assert_eq!((date.len(), time.len(), year.len()), (24, 8, 4), "{date}");
            assert!((1..=31).contains(&day.parse::<u32>().expect("a day")), "{date}");
            format!("From {sender} DATE")
        }
        None => line.to_string(),
    };
    mailbox.lines().map(|text| line(text) + "\n").collect()
}

#[test]
fn a_message_is_written_with_its_envelope() {
    let spool = Spool::new();
    let report = deliver(&spool, "local - alice@example.org", "bob+list@x", "one\ntwo");
    assert!(report.contains("\t\tok3 delivered"), "{report}");
    deliver(&spool, "error <> <>", "bob", "From x\n>From y\n\n");
    expect_test::expect![[r#"
        From alice@example.org DATE
        Return-Path: <alice@example.org>
        Delivered-To: bob+list@x
        Subject: test

        one
        two

        From MAILER-DAEMON DATE
        Return-Path: <>
        Delivered-To: bob
        Subject: test

        >From x
        >>From y


    "#]]
    .assert_eq(&without_dates(&spool.read("mail/bob")));
    assert_eq!(spool.names("mail"), ["bob"]);
}

#[test]
fn a_message_begins_behind_an_empty_line_whatever_was_there() {
    for (before, gap) in
        [("x", "\n\n"), ("x\n", "\n"), ("x\n\n", ""), ("\n", ""), ("", ""), ("xy\n", "\n")]
    {
        let spool = Spool::new();
        spool.write("mail/bob", before);
        deliver(&spool, "local - a@x", "bob@x", "body\n");
        let after = spool.read("mail/bob");
        assert!(after.starts_with(&format!("{before}{gap}From a@x ")), "{after:?}");
        assert!(after.ends_with("\nbody\n\n"), "{after:?}");
    }
}

#[test]
fn senders_cannot_break_the_file() {
    let spool = Spool::new();
    deliver(&spool, r#"local - "joe\rd x"@x"#, "bob@x", "body\n");
    let after = spool.read("mail/bob");
    assert!(after.starts_with(r#"From "joe\rd_x"@x "#), "{after}");
    assert!(after.contains("\nReturn-Path: <\"joe\\rd x\"@x>\n"), "{after}");
}

#[test]
fn some_recipients_cannot_exist() {
    let spool = Spool::new();
    for (recipient, answer) in [
        ("/dev/null", "\t\tok3 discarded"),
        ("/tmp/file", "\t\terror2 cannot deliver to files and programs"),
        ("\"|/bin/prog -x\"", "\t\terror2 cannot deliver to files and programs"),
        ("../../etc/passwd", "\t\terror2 no such user"),
        (".profile@x", "\t\terror2 no such user"),
        ("bob.lock@x", "\t\terror2 no such user"),
        ("BOB.LOCK@x", "\t\terror2 there is no user BOB.LOCK here"),
    ] {
        let report = deliver(&spool, "local - a@x", recipient, "body\n");
        assert!(report.contains(answer), "{recipient}: {report}");
    }
    assert!(spool.names("mail").is_empty());
    let note = &spool.lines("7", 'd')[0];
    assert!(note.contains("\tBOB.LOCK@x\x01failed\x015.1.1 (no such user)\x01"), "{note:?}");
}

#[test]
fn case_matters_only_where_a_mailbox_has_some() {
    let spool = Spool::new();
    spool.write("mail/Bob", "");
    deliver(&spool, "local - a@x", "Bob@x", "body\n");
    deliver(&spool, "local - a@x", "ANN@x", "body\n");
    deliver(&spool, "local - a@x", "ann@x", "body\n");
    assert_eq!(spool.names("mail"), ["Bob", "ann"]);
    assert_eq!(spool.read("mail/ann").matches("\nbody\n").count(), 2);
}

#[test]
fn what_is_no_plain_mailbox_is_refused() {
    for (make, why) in [
        ("touch real; ln -s real bob", "symbolic link"),
        ("ln -s nowhere bob", "symbolic link"),
        ("touch real; ln real bob", "hard link"),
        ("mkfifo bob", "not a file"),
        ("ln -s /dev/null bob", "symbolic link"),
    ] {
        let spool = Spool::new();
        let made = Command::new("sh").args(["-c", make]).current_dir(spool.path("mail")).status();
        assert!(made.expect("sh starts").success());
        let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
        assert!(report.contains("\tdeferred the mailbox "), "{make}: {report}");
        assert!(report.contains(why), "{make}: {report}");
        assert!(!spool.path("mail/bob.lock").exists(), "{make}");
        assert!(!spool.path("mail/nowhere").exists(), "{make}");
    }
}

#[test]
fn a_locked_mailbox_is_left_for_later() {
    let spool = Spool::new();
    spool.write("mail/bob.lock", "");
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tdeferred the mailbox is locked"), "{report}");
    assert_eq!(spool.names("mail"), ["bob.lock"]);
    fs::remove_file(spool.path("mail/bob.lock")).expect("unlock");
    // Now by a program that uses the kernel's lock.
    spool.write("mail/bob", "");
    let mailbox = fs::OpenOptions::new().write(true).open(spool.path("mail/bob")).expect("open");
    assert!(zsched::sys::try_posix_lock(&mailbox).expect("a lock"));
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tdeferred the mailbox is locked"), "{report}");
    drop(mailbox);
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tok3 "), "{report}");
    assert_eq!(spool.names("mail"), ["bob"]);
}

#[test]
fn concurrent_deliveries_do_not_mix() {
    const JOBS: usize = 25;
    let spool = Spool::new();
    let mail = spool.mail();
    let mut agents = Vec::new();
    for agent in 0..2 {
        let mut orders = String::new();
        for job in 0..JOBS {
            let name = (100 * agent + job + 1).to_string();
            let line = format!("body of {name}, line after line\n");
            spool.put(
                &name,
                &control_file(&name, "local - a@x", &["local bob bob@x"]),
                &line.repeat(3000),
            );
            orders += &format!("{name}\tbob\n");
        }
        let mut agent = Agent::start(&spool, MAILBOX, &["-u", "-d", &mail]);
        agent.hear("#hungry");
        agents.push((agent, orders));
    }
    for (agent, orders) in &mut agents {
        agent.tell(orders);
    }
    for (agent, _) in agents {
        let (answers, _) = agent.end();
        assert_eq!(answers.matches("\tok3 ").count(), JOBS, "{answers}");
    }
    let mailbox = spool.read("mail/bob");
    let messages: Vec<&str> = mailbox.split("\n\nFrom a@x ").collect();
    assert_eq!(messages.len(), 2 * JOBS);
    for message in messages {
        let (_, body) = message.split_once("\n\n").expect("headers, then a body");
        let first = body.lines().next().expect("a line");
        assert!(body.trim_end().lines().all(|line| line == first), "mixed up: {first}");
        assert_eq!(body.trim_end().lines().count(), 3000);
    }
    assert_eq!(spool.names("mail"), ["bob"]);
}

#[test]
fn recipients_are_reported_last_first() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["local h ann@x", "local h bob@x"]);
    spool.put("7", &control, "body\n");
    let answers = spool.deliver(&[], "7\th\n");
    let places = [1, 0]
        .map(|index| format!("7/{}\t\tok3 delivered to the mailbox\n", offset(&control, index)));
    assert_eq!(answers, format!("#hungry\n{}#hungry\n", places.concat()));
}
