//! Messages that take the place of older ones of the same user (`x` lines).

use crate::report_crashes::with_router;
use crate::support::{Site, control_file, generator, until, until_within};
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

const AGENTS: &str = "PARAMglobal-report-interval=1s\n\
     c/*\n\tmaxring=3 maxthr=2 overfeed=10 expiry=90d command=\"${AGENTS}/outcome.py c 0.001\"\n";
/// `daemon` has an account on each system.
const USER: u32 = 1;

/// Puts a message of a user into the spool. Its Message-ID is `<NAME@x>`.
fn put(site: &Site, owner: u32, name: &str, recipients: &[&str], obsoletes: &[&str]) {
    let lines: String = obsoletes.iter().map(|old| format!("x <{old}@x>\n")).collect();
    let text = control_file(name, recipients);
    let text = text.replacen("l <id@x>\n", &format!("l <{name}@x>\n{lines}"), 1);
    // The file of a higher number is a later one.
    static HOURS_AGO: LazyLock<SystemTime> =
        LazyLock::new(|| SystemTime::now() - Duration::from_secs(10_000));
    let time = *HOURS_AGO + Duration::from_secs(name.parse().expect("a number"));
    site.put_prepared_file(name, text.as_bytes(), |message| {
        chown(message, Some(owner), None).expect("given away");
        set_modified(message, time);
    });
}

fn set_modified(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path);
    file.and_then(|file| file.set_modified(time)).expect("set");
}

/// The number of deliveries or other last ends of a recipient.
fn ends(site: &Site, user: &str) -> usize {
    let is_of = |about: &str| about.split(' ').nth(1) == Some(user);
    site.events().of("end").filter(|event| is_of(&event.about)).count()
}

fn mailq(site: &Site, arguments: &[&str]) -> String {
    let output = Command::new(zsched_tests::program("mailq"))
        .args(arguments)
        .arg("-Z")
        .arg(site.path("zmailer.conf"))
        .output()
        .expect("mailq starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn message_takes_place_of_older_one_of_same_user_if_configured() {
    if !zsched_sys::users::is_root() {
        return;
    }
    for switch in [0, 1] {
        let site = Site::new(&format!("PARAMobey-obsoletes={switch}\n{AGENTS}"));
        put(&site, USER, "11", &["c a.test deferred!1", "c a.test 1"], &[]);
        put(&site, 2, "12", &["c a.test deferred!2"], &[]);
        put(&site, USER, "13", &["c a.test deferred!3"], &[]);
        let by_smtp = site.path("postoffice/queue/13");
        let text = fs::read_to_string(&by_smtp).expect("text");
        let time = fs::metadata(&by_smtp).and_then(|file| file.modified()).expect("a time");
        fs::write(&by_smtp, format!("rcvdfrom h\nwith SMTP\nenv-end\n{text}")).expect("written");
        set_modified(&by_smtp, time);
        site.add_zenv(&format!("STATUSLOG={}", site.path("status").display()));
        let daemon = site.start();
        until("the older one is delivered in part", || ends(&site, "1") == 1);
        put(&site, USER, "14", &["c a.test new"], &["11", "12", "13"]);
        site.notify("NEW 14");
        until("the new one is delivered", || ends(&site, "new") == 1);
        let left = if switch == 0 { vec!["11", "12", "13"] } else { vec!["12", "13"] };
        until("only others are left", || site.files("transport") == left);
        daemon.until_log_is_complete();
        assert_eq!(site.logged(": obsoleted by S14"), switch, "{}", site.log());
        assert_eq!(site.files("router"), [""; 0], "no report");
        if switch == 1 {
            until("the end is traced", || {
                let trace = mailq(&site, &["trace", "deferred!1"]);
                trace.contains("deleted by S14") && trace.contains(", which obsoletes it")
            });
        }
    }
}

/// The older message is on disk only, as memory is limited.
#[test]
fn paged_out_message_is_obsoleted() {
    if !zsched_sys::users::is_root() {
        return;
    }
    let limits = "PARAMobey-obsoletes=1\nPARAMmessage-active-limit=3\n";
    let site = Site::new(&format!("{limits}{AGENTS}"));
    let olds: Vec<String> = (11..31).map(|number| number.to_string()).collect();
    for name in &olds {
        put(&site, USER, name, &[&format!("c a.test deferred!{name}")], &[]);
    }
    let _daemon = site.start();
    let is_tried = |name: &String| ends(&site, &format!("deferred!{name}")) > 0;
    until("all were tried", || olds.iter().all(is_tried));
    for old in &olds {
        let (name, user) = (format!("1{old}"), format!("c b.test new{old}"));
        put(&site, USER, &name, &[&user], &[old]);
        site.notify(&format!("NEW {name}"));
    }
    site.until_empty();
    assert!(olds.iter().all(|old| ends(&site, &format!("new{old}")) == 1));
    assert_eq!(site.files("router"), [""; 0], "no report");
}

/// Each new message is delivered once. Each older one ends without a report, or stays complete.
#[test]
fn kills_lose_neither_message() {
    if !zsched_sys::users::is_root() {
        return;
    }
    let mut random = generator("kills while messages are obsoleted");
    let site = Site::new(&format!("PARAMobey-obsoletes=1\n{AGENTS}"));
    let mut number = 1000;
    let mut pairs = Vec::new();
    let reports = with_router(&site, || {
        for _ in 0..30 {
            let mut next = || {
                number += 1;
                number.to_string()
            };
            let olds: Vec<String> = (0..random.usize(1..6)).map(|_| next()).collect();
            for old in &olds {
                put(&site, USER, old, &[&format!("c a.test deferred!{old}")], &[]);
            }
            let comes_later = random.bool();
            let daemon = site.start();
            if comes_later {
                std::thread::sleep(Duration::from_millis(random.u64(0..100)));
            }
            for old in olds {
                let new = next();
                put(&site, USER, &new, &[&format!("c b.test new{new}")], &[&old]);
                site.notify(&format!("NEW {new}"));
                pairs.push((old, new));
            }
            std::thread::sleep(Duration::from_millis(random.u64(0..150)));
            daemon.kill();
        }
        let daemon = site.start();
        let is_delivered = |new: &String| ends(&site, &format!("new{new}")) > 0;
        until_within(Duration::from_secs(120), "all new ones are delivered", || {
            pairs.iter().all(|(_, new)| is_delivered(new))
        });
        until("they have left", || {
            let left = site.files("transport");
            left.iter().all(|name| pairs.iter().any(|(old, _)| old == name))
        });
        assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    });
    assert_eq!(reports, [""; 0]);
    let left = site.files("transport");
    assert_eq!(site.files("queue"), left, "both files, or none");
    assert!(left.len() < pairs.len(), "none was obsoleted");
    for (_, new) in &pairs {
        // An agent that is killed between delivery and tag delivers again.
        assert_eq!(ends(&site, &format!("new{new}")), 1, "{new}");
    }
    assert_eq!(site.files("postman"), [""; 0]);
}
