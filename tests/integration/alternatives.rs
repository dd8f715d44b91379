//! Alternatives (`X` lines): one after the other is tried, and only the last failure is reported.

use crate::report_crashes::{assert_reported_once, with_router};
use crate::support::{ReadReport, Site, generator, until, until_within};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

const AGENTS: &str = "PARAMglobal-report-interval=1s\n\
     c/*\n\tmaxring=3 maxthr=2 overfeed=10 expiry=90d command=\"${AGENTS}/outcome.py c 0.001\"\n";

/// A control file with recipients of channel `c`; a class is a list of users.
fn with_classes(name: &str, recipients: &[&str], classes: &[Vec<String>]) -> String {
    let mut text = format!("@ 0x00000007\ni {name}\no 0\nl <{name}@x>\ns local - sender@x 0\n");
    for user in recipients {
        text += &format!("r           c a.test {user} 65534\n");
    }
    for (class, users) in classes.iter().enumerate() {
        for (n, user) in users.iter().enumerate() {
            text += &format!("X {class} c h{}.test {user} 65534\n", n % 3);
        }
    }
    text + "m\nSubject: test\n\n"
}

/// The number of ends of each recipient, from the events of the agents.
fn ends(site: &Site) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    for event in site.events().of("end") {
        let user = event.about.split(' ').nth(1).unwrap_or_default();
        *ends.entry(user.to_string()).or_default() += 1;
    }
    ends
}

fn classes(classes: &[&[&str]]) -> Vec<Vec<String>> {
    classes.iter().map(|users| users.iter().map(|user| user.to_string()).collect()).collect()
}

#[test]
fn next_alternative_is_tried_after_failure() {
    let site = Site::new(AGENTS);
    let all = classes(&[
        &["error!1a", "error2!1b", "1c", "1d"],
        &["error!2a", "silent!2b", "error2!2c"],
        &["3a", "error!3b"],
        &["error!4a"],
    ]);
    site.put_file("7", with_classes("7", &["5a"], &all).as_bytes());
    let _daemon = site.start();
    let report = site.until_submission();
    site.until_empty();
    let read = ReadReport::of(&report);
    let mut failed = read.recipients();
    failed.sort_unstable();
    assert_eq!(failed, ["error!4a", "error2!2c"]);
    let tried = ["1c", "3a", "5a", "error!1a", "error!2a", "error!4a"];
    let tried = tried.iter().chain(&["error2!1b", "error2!2c", "silent!2b"]);
    let expected: BTreeMap<String, usize> = tried.map(|user| (user.to_string(), 1)).collect();
    assert_eq!(ends(&site), expected);
    assert_eq!(site.files("postman"), [""; 0]);
    for user in expected.keys() {
        site.until_logged(&format!("to=<{user}>"), 1);
    }
}

/// Recipients that other programs wrote as `X` lines only, and a large file that is read in parts.
#[test]
fn message_of_alternatives_only_is_delivered_with_memory_limit() {
    let limits = "PARAMmessage-active-limit=5\nPARAMmessage-recipient-limit=20\n\
                  PARAMmessage-recipient-minimum=3\n";
    let site = Site::new(&format!("{limits}{AGENTS}"));
    let class = |n: usize| vec![format!("error!{n}a"), format!("{n}b"), format!("{n}c")];
    let all: Vec<Vec<String>> = (0..200).map(class).collect();
    site.put_file("7", with_classes("7", &[], &all[..30]).as_bytes());
    // More than a megabyte.
    let users: Vec<String> = (0..60).map(|n| format!("{}{n}", "x".repeat(20_000))).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    site.put_file("8", with_classes("8", &users, &all[30..]).as_bytes());
    let _daemon = site.start();
    until_within(Duration::from_secs(120), "the spool is empty", || site.is_empty());
    let ends = ends(&site);
    assert!(ends.values().all(|times| *times == 1), "{ends:?}");
    for n in 0..200 {
        for (user, is_tried) in
            [(format!("error!{n}a"), true), (format!("{n}b"), true), (format!("{n}c"), false)]
        {
            assert_eq!(ends.contains_key(&user), is_tried, "{user}");
        }
    }
    assert_eq!(site.files("postman"), [""; 0]);
    assert_eq!(site.files("router"), [""; 0]);
}

#[test]
fn expire_order_ends_all_alternatives_and_delete_order_ends_class() {
    let site = Site::new(AGENTS);
    let all = classes(&[&["deferred!1a", "deferred!1b", "deferred!1c"]]);
    for name in ["7", "8"] {
        site.put_file(name, with_classes(name, &[], &all).as_bytes());
    }
    let _daemon = site.start();
    let mailq = |order: &str, name: &str| {
        let output = Command::new(zsched_tests::program("mailq"))
            .args([order, "-Z"])
            .arg(site.path("zmailer.conf"))
            .arg(name)
            .output()
            .expect("mailq starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    until("both were tried", || ends(&site).get("deferred!1a").is_some_and(|times| *times > 1));
    mailq("delete", "7");
    until("it is gone", || site.files("transport") == ["8"]);
    mailq("expire", "8");
    let report = site.until_submission();
    site.until_empty();
    assert_eq!(ReadReport::of(&report).recipients(), ["deferred!1c"]);
    assert!(!ends(&site).contains_key("deferred!1b"), "it was not tried any more");
}

/// Each class has one delivery or one report, whenever the scheduler is killed.
#[test]
fn kills_leave_one_end_for_each_class() {
    let mut random = generator("kills while alternatives are tried");
    let site = Site::new(AGENTS);
    let (mut failing, mut expected, mut count) = (Vec::new(), BTreeMap::new(), 0);
    let reports = with_router(&site, || {
        for _ in 0..40 {
            for _ in 0..random.usize(3..8) {
                let mut all = Vec::new();
                for _ in 0..random.usize(1..4) {
                    let words: Vec<usize> =
                        (0..random.usize(1..5)).map(|_| random.usize(0..4)).collect();
                    let mut user = |word: &usize| {
                        count += 1;
                        ["error!", "error2!", "silent!", ""][*word].to_string() + &count.to_string()
                    };
                    let users: Vec<String> = words.iter().map(&mut user).collect();
                    let delivered = words.iter().position(|word| *word == 3);
                    let tried = delivered.map_or(users.len(), |at| at + 1);
                    expected.extend(users[..tried].iter().map(|user| (user.clone(), 1)));
                    failing.extend(users.last().filter(|_| delivered.is_none()).cloned());
                    all.push(users);
                }
                let name = site.put_quietly(&["c z.test gone"]);
                count += 1;
                let text = with_classes(&name.path(), &[&format!("r{count}")], &all);
                expected.insert(format!("r{count}"), 1);
                site.write(&format!("postoffice/transport/{}", name.path()), &text);
            }
            let daemon = site.spawn(&[]);
            std::thread::sleep(Duration::from_millis(random.u64(20..150)));
            daemon.kill();
        }
        let daemon = site.spawn(&[]);
        let is_over =
            || site.files("transport").is_empty() && site.files(".scheduler.outbox").is_empty();
        until_within(Duration::from_secs(120), "no control file is left", is_over);
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    });
    assert_eq!(ends(&site), expected);
    assert_reported_once(&reports, &failing);
    for folder in ["transport", "queue", "postman", "router", ".scheduler.outbox"] {
        assert_eq!(site.files(folder), [""; 0], "{folder}");
    }
}
