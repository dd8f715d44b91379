//! From `submit` into a mailbox.

use crate::support::{Site, control_file, is_root, until};
use std::fs;
use std::path::Path;
use zsched_spool::HashLevel;

const MAILBOXES: &str = "\
local/*
\tcommand=\"mailbox -u -d ${SITE}/mail\"
maildir/*
\tcommand=\"mailbox -u -M -c maildir -d ${SITE}/mail\"
count/*
\tcommand=\"${AGENTS}/count.py count\"
discard/*
\tcommand=\"discard\"
";

#[test]
fn one_message_reaches_its_recipients_on_all_channels() {
    let site = Site::new(MAILBOXES);
    let daemon = site.start();
    site.submit(&["-f", "erna@x", "alice", "bob"], "Subject: lunch\n\nAt noon.\nFrom here.\n");
    site.put(&[
        "local - alice",
        "maildir - carol",
        "maildir - dave",
        "count a.test one@a.test",
        "count b.test two@b.test",
        "discard - anybody",
    ]);
    site.until_empty();
    let alice = site.read("mail/alice");
    assert_eq!(alice.matches("\nFrom ").count() + 1, 2, "two messages: {alice}");
    assert!(alice.starts_with("From erna@x "), "{alice}");
    assert!(alice.contains("Subject: lunch\n") && alice.contains("\n\nAt noon.\n>From here.\n"));
    assert!(alice.contains("This is the body.\n"));
    assert!(site.read("mail/bob").contains("At noon."));
    for name in ["carol", "dave"] {
        let new = site.path(&format!("mail/{name}/new"));
        let letters: Vec<_> = fs::read_dir(new).expect("a Maildir").collect();
        assert_eq!(letters.len(), 1, "{name}");
    }
    site.events().assert_once_each(["one@a.test".to_string(), "two@b.test".to_string()]);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
}

/// `sendmail -v` shows this file and waits for its end.
#[test]
fn verbose_file_ends_when_message_leaves() {
    let site = Site::new(MAILBOXES);
    fs::write(site.path("postoffice/public/v_1"), "").expect("written");
    let text = control_file("101", &["local - alice", "discard - anybody"]);
    let text = text.replacen("i 101", "v ../public/v_1\ni 101", 1);
    let _daemon = site.start();
    site.put_file("101", text.as_bytes());
    if is_root() {
        // The router owns the control file; the user owns the message and follows the other file.
        for path in ["postoffice/queue/101", "postoffice/public/v_1"] {
            std::os::unix::fs::chown(site.path(path), Some(1), None).expect("given to a user");
        }
    }
    site.notify("NEW 101");
    until("the last line is written", || {
        site.read("postoffice/public/v_1").contains("scheduler done with 101\n")
    });
    let shown = site.read("postoffice/public/v_1");
    let lines: Vec<&str> = shown.lines().collect();
    assert!(shown.contains("DIAG: <alice> ok3 delivered"), "{shown}");
    assert!(lines.last().is_some_and(|line| line.starts_with("scheduler done")), "{shown}");
    assert_eq!(shown.matches("scheduler done").count(), 1, "{shown}");
}

#[test]
fn reports_are_sent_only_if_notify_requests_them() {
    let site = Site::new(MAILBOXES);
    let _daemon = site.start();
    site.put(&["local - |x | NOTIFY=SUCCESS", "local - |y | NOTIFY=DELAY"]);
    site.until_empty();
    assert_eq!(site.files("postman"), [""; 0]);
    assert_eq!(site.files("router"), [""; 0]);
    // Requested reports of failures and successes are sent.
    site.put(&["local - |x | NOTIFY=SUCCESS,FAILURE"]);
    site.put(&["local - alice | NOTIFY=SUCCESS"]);
    site.until_empty();
    let reports = site.submissions();
    assert_eq!(reports.len(), 2, "{reports:?}");
    for action in ["\nAction: failed\n", "\nAction: delivered\n"] {
        assert!(reports.iter().any(|report| report.contains(action)), "{reports:?}");
    }
}

/// The lines are `<spoolid> <dt1> <dt2> <state> <channel>/<host>`.
#[test]
fn statistics_log_has_line_for_each_recipient() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    let name = site.put(&["c A.test u1", "c a.test u2", "c b.test ok2!u3", "c b.test error2!u4"]);
    until("the message has left", || site.files("transport").is_empty());
    let mut states = Vec::new();
    until("all lines are written", || site.read("statistics").lines().count() == 4);
    for line in site.read("statistics").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, before, here, state, destination] = words[..] else { panic!("{line:?}") };
        let after_number = id.strip_prefix(&format!("S{}", name.number()));
        let time = after_number.unwrap_or_else(|| panic!("{id} begins with S and the number"));
        assert!(time.starts_with("Ab") && matches!(time.len(), 8 | 13), "{id}");
        for seconds in [before, here] {
            let seconds: i64 = seconds.parse().expect("seconds");
            assert!((0..30).contains(&seconds), "{line}");
        }
        states.push(format!("{state} {destination}"));
    }
    states.sort();
    assert_eq!(states, ["error2 c/b.test", "ok2 c/b.test", "ok3 c/a.test", "ok3 c/a.test"]);
}

#[test]
fn spools_with_and_without_levels_are_served() {
    for (level, option) in
        [(HashLevel::Flat, &[][..]), (HashLevel::Once, &["-H"]), (HashLevel::Twice, &["-HH"])]
    {
        let site = Site::with_level(level, MAILBOXES);
        let name = site.submit(&[option, &["early"]].concat(), "before the start\n");
        assert_eq!(name.matches('/').count(), option.concat().matches('H').count(), "{name}");
        let _daemon = site.start();
        site.submit(&[option, &["late"]].concat(), "after the start\n");
        site.until_empty();
        assert!(site.read("mail/early").contains("before the start"));
        assert!(site.read("mail/late").contains("after the start"));
    }
}

/// SCHEDULERDIRHASH overrides -H.
///
/// A control file at the top is moved down with its message file, even if the folder does not exist
/// yet.
#[test]
fn files_at_the_top_are_moved_down() {
    let site = Site::new("stay/*\n\tqueueonly command=\"discard -c stay\"\n");
    site.add_zenv("SCHEDULERDIRHASH=2");
    let daemon = site.start_with(&["-H"]);
    for name in ["4711", "15582-abc"] {
        site.put_file(name, control_file(name, &["stay a.test u"]).as_bytes());
        site.notify(&format!("NEW {name}"));
    }
    // A file that is in any folder stays there.
    site.put_file("I/777", control_file("777", &["stay b.test u"]).as_bytes());
    site.notify("NEW I/777");
    until("all are loaded", || site.mailq().vertices.len() == 3);
    let expected = ["B/I/15582-abc", "I/777", "Z/F/4711"];
    assert_eq!(site.files("transport"), expected);
    assert_eq!(site.files("queue"), expected);
    let mut shown: Vec<String> =
        site.mailq().vertices.into_iter().map(|vertex| vertex.file).collect();
    shown.sort();
    assert_eq!(shown, expected);
    site.put_file("9-etrn", b"T a.test [192.0.2.1]\n");
    fs::remove_file(site.path("postoffice/queue/9-etrn")).expect("requests have no message");
    daemon.signal(libc::SIGALRM);
    until("those for a.test are gone", || site.files("transport") == ["I/777"]);
    until("their messages, too", || site.files("queue") == ["I/777"]);
}

#[test]
fn names_with_suffix_after_number_are_accepted() {
    let site = Site::new(MAILBOXES);
    site.put_file("701-abc", control_file("701-abc", &["count a.test u"]).as_bytes());
    let _daemon = site.start();
    site.until_empty();
    let events = site.events();
    assert_eq!(events.about("job"), ["701-abc a.test"]);
    assert!(events.about("count")[0].starts_with("701/"), "{events:?}");
}

#[test]
fn files_with_other_names_are_left_alone() {
    let site = Site::new(MAILBOXES);
    let good = control_file("5", &["discard - u"]);
    let odd = ["x702", ".5", "-5", "core", "a/5", "AB/5", "A/B/C/5", "5 6", "A/.5", "5\n"];
    for name in odd {
        site.put_file(name, good.as_bytes());
    }
    let transport = site.path("postoffice/transport");
    fs::create_dir(transport.join("123")).expect("a folder");
    std::os::unix::fs::symlink("x702", transport.join("124")).expect("a link");
    let status = std::process::Command::new("mkfifo").arg(transport.join("125")).status();
    assert!(status.expect("mkfifo starts").success());
    let mut before = site.files("transport");
    let daemon = site.start();
    // A datagram does not make these names valid.
    for name in odd.iter().copied().chain(["123", "124", "125"]) {
        site.notify(&format!("NEW {name}"));
    }
    daemon.scan();
    let mut after = site.files("transport");
    before.sort();
    after.sort();
    assert_eq!(after, before);
    assert!(Path::new(&transport.join("123")).is_dir());
    assert_eq!(site.logged("error"), 0, "{}", site.log());
    // These look like mistakes, so the log has them.
    for name in ["5 6", "5^J", "A/B/C"] {
        let line = format!("transport/{name} is ignored: ");
        site.until_logged(&line, 1);
    }
    site.until_logged("is ignored: ", 3);
    // The scheduler still works.
    site.put(&["count - u"]);
    until("a good one is delivered", || site.events().count("count") == 1);
}
