//! `mailbox` and mbox files.

use crate::support::{Agent, MAILBOX, Spool, allow, control_file, offset, wait_until};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

/// Delivers `body` from `sender` to `recipient`. Returns the report.
fn deliver(spool: &Spool, sender: &str, recipient: &str, body: &str) -> String {
    spool.put("7", &control_file("7", sender, &[&format!("local h {recipient}")]), body);
    let answers = spool.deliver(&["-w", "0"], "7\th\n");
    answers.trim_start_matches("#hungry\n").trim_end_matches("#hungry\n").to_string()
}

/// Checks the dates of a mailbox's `From_` lines. Returns the mailbox without them.
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
fn message_is_written_with_envelope() {
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
fn message_is_preceded_by_empty_line() {
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
fn odd_sender_does_not_break_from_line() {
    let spool = Spool::new();
    deliver(&spool, r#"local - "joe\rd x"@x"#, "bob@x", "body\n");
    let after = spool.read("mail/bob");
    assert!(after.starts_with(r#"From "joe\rd_x"@x "#), "{after}");
    assert!(after.contains("\nReturn-Path: <\"joe\\rd x\"@x>\n"), "{after}");
}

#[test]
fn impossible_recipients_fail() {
    let spool = Spool::new();
    for (recipient, answer) in [
        ("/dev/null", "\t\tok3 discarded"),
        ("/tmp/file", "\t\terror2 cannot deliver to files and programs"),
        ("\"|/bin/prog -x\"", "\t\terror2 cannot deliver to files and programs"),
        ("../../etc/passwd", "\t\terror2 no such user"),
        (".profile@x", "\t\terror2 no such user"),
        ("bob.lock@x", "\t\terror2 no such user"),
        ("BOB.LOCK@x", "\t\terror2 there is no user BOB.LOCK here"),
        ("joe$@x", "\t\terror2 there is no user joe$ here"),
        ("-x@x", "\t\terror2 there is no user -x here"),
    ] {
        let report = deliver(&spool, "local - a@x", recipient, "body\n");
        assert!(report.contains(answer), "{recipient}: {report}");
    }
    assert!(spool.names("mail").is_empty());
    let note = &spool.lines("7", 'd')[0];
    assert!(note.contains("\t-x@x\x01failed\x015.1.1 (no such user)\x01"), "{note:?}");
}

#[test]
fn existing_mailbox_with_capitals_is_used() {
    let spool = Spool::new();
    spool.write("mail/Bob", "");
    deliver(&spool, "local - a@x", "Bob@x", "body\n");
    deliver(&spool, "local - a@x", "ANN@x", "body\n");
    deliver(&spool, "local - a@x", "ann@x", "body\n");
    assert_eq!(spool.names("mail"), ["Bob", "ann"]);
    assert_eq!(spool.read("mail/ann").matches("\nbody\n").count(), 2);
}

#[test]
fn links_and_special_files_are_refused() {
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
fn locked_mailbox_is_deferred() {
    let spool = Spool::new();
    spool.write("mail/bob.lock", "");
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tdeferred the mailbox is locked"), "{report}");
    assert_eq!(spool.names("mail"), ["bob.lock"]);
    fs::remove_file(spool.path("mail/bob.lock")).expect("unlock");
    // Now another program holds the kernel's lock.
    spool.write("mail/bob", "");
    let mailbox = fs::OpenOptions::new().write(true).open(spool.path("mail/bob")).expect("open");
    assert!(zsched_sys::try_posix_lock(&mailbox).expect("a lock"));
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
        agent.read_until("#hungry");
        agents.push((agent, orders));
    }
    for (agent, orders) in &mut agents {
        agent.send(orders);
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

#[test]
fn unreadable_folder_gets_message_once() {
    for options in [&[][..], &["-M"]] {
        let spool = Spool::new();
        spool.put("7", &control_file("7", "local - a@x", &["local h bob@x"]), "body\n");
        allow(spool.path("mail"), 0o333);
        let mail = spool.mail();
        let words = [&["-u", "-d", &mail], options].concat();
        let Some(answers) = spool.ordinary_session(MAILBOX, &words, "7\th\n") else { return };
        allow(spool.path("mail"), 0o755);
        assert!(answers.contains("\tok3 "), "{answers}");
        assert_eq!(spool.names("mail"), ["bob"]);
    }
}

/// Makes a file as old as `seconds`.
fn age(path: &std::path::Path, seconds: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("open");
    let time = std::time::SystemTime::now() - Duration::from_secs(seconds);
    file.set_modified(time).expect("set the time");
}

#[test]
fn old_lock_without_owner_is_broken_unless_mailbox_is_in_use() {
    let spool = Spool::new();
    spool.write("mail/bob.lock", "0");
    spool.write("mail/bob", "");
    age(&spool.path("mail/bob.lock"), 1000);
    let mailbox = fs::OpenOptions::new().write(true).open(spool.path("mail/bob")).expect("open");
    assert!(zsched_sys::try_posix_lock(&mailbox).expect("a lock"));
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    let place = spool.path("mail/bob.lock");
    let expected = format!("\tdeferred the mailbox is locked: {}\n", place.display());
    assert!(report.contains(&expected), "{report}");
    drop(mailbox);
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tok3 "), "{report}");
    assert_eq!(spool.names("mail"), ["bob"]);
}

#[test]
fn lock_older_than_its_process_is_broken() {
    let spool = Spool::new();
    // The number is that of this process by now.
    spool.write("mail/bob.lock", &format!("{}\n", std::process::id()));
    age(&spool.path("mail/bob.lock"), 1 << 29);
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tok3 "), "{report}");
}

/// Starts an agent with a large message, and kills it during the delivery.
///
/// A part of the message is in the mailbox then.
///
/// On a busy machine the agent may have exited by then; in that case this tries again.
fn kill_an_agent_at_work(spool: &Spool) {
    let control = control_file("7", "local - a@x", &["local h bob@x"]);
    let (mail, before) = (spool.mail(), spool.read("mail/bob"));
    wait_until("an agent is killed at work", || {
        spool.write("mail/bob", &before);
        spool.put("7", &control, &"From here on\n".repeat(4_000_000));
        let mut agent = Agent::start(spool, MAILBOX, &["-u", "-d", &mail]);
        agent.send("7\th\n");
        let length = || spool.path("mail/bob").metadata().expect("a mailbox").len();
        wait_until("a part is there", || length() > before.len() as u64 + 100_000);
        agent.signal("KILL");
        agent.wait();
        spool.path("mail/bob.lock").exists()
    });
}

#[test]
fn partial_message_of_killed_agent_is_removed() {
    let spool = Spool::new();
    let before = "From b@x Sat Nov 21 10:04:09 2026\n\nold\n";
    spool.write("mail/bob", before);
    kill_an_agent_at_work(&spool);
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tok3 "), "{report}");
    let after = spool.read("mail/bob");
    assert!(after.len() < 1000, "{} bytes", after.len());
    assert!(after.starts_with(&format!("{before}\nFrom a@x ")), "{after}");
    assert!(after.ends_with("\nbody\n\n"), "{after}");
    assert_eq!(spool.names("mail"), ["bob"]);
}

#[test]
fn partial_message_stays_if_others_wrote_since() {
    let spool = Spool::new();
    spool.write("mail/bob", "");
    kill_an_agent_at_work(&spool);
    // This program does not use dot locks.
    let message = "From c@x Sun Nov 22 10:04:09 2026\nSubject: other\n\n";
    let mut mailbox =
        fs::OpenOptions::new().append(true).open(spool.path("mail/bob")).expect("open");
    std::io::Write::write_all(&mut mailbox, message.as_bytes()).expect("write");
    let report = deliver(&spool, "local - a@x", "bob@x", "body\n");
    assert!(report.contains("\tok3 "), "{report}");
    let after = spool.read("mail/bob");
    assert!(after.contains(&format!("{message}From a@x ")), "{} bytes", after.len());
}

#[test]
fn wait_for_locked_mailbox_happens_once() {
    let spool = Spool::new();
    spool.write("mail/bob.lock", "");
    let mut orders = String::new();
    for name in ["1", "2", "3", "4", "5", "6"] {
        spool.put(name, &control_file(name, "local - a@x", &["local h bob@x"]), "body\n");
        orders += &format!("{name}\th\n");
    }
    let started = Instant::now();
    let answers = spool.deliver(&["-w", "2"], &orders);
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert_eq!(answers.matches("\tdeferred the mailbox is locked").count(), 6, "{answers}");
}

#[test]
fn existing_temporary_name_does_not_prevent_lock() {
    let spool = Spool::new();
    spool.put("7", &control_file("7", "local - a@x", &["local h bob@x"]), "body\n");
    let mail = spool.mail();
    let mut agent = Agent::start(&spool, MAILBOX, &["-u", "-d", &mail]);
    // Any user could make this in a folder that is writable for all, and only its owner may remove
    // it.
    let host = zsched_sys::host_name();
    let name = format!("mail/.lock.{}.{host}", agent.pid());
    fs::create_dir(spool.path(&name)).expect("make it");
    agent.send("7\th\n");
    let (answers, _) = agent.end();
    assert!(answers.contains("\tok3 "), "{answers}");
    assert!(spool.path(&name).exists());
}
