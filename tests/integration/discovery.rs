//! How control files are found: by datagram, by scan, on request; and the effect of start options.

use crate::support::{DEADLINE, Site, control_file, say, timeout, until, until_within};
use std::fs;
use std::time::{Duration, Instant};
use zsched_spool::HashLevel;

const COUNT: &str = "c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c\"\n";

/// No wait of any kind is between a datagram, the delivery and the empty spool.
#[test]
fn datagram_triggers_delivery_at_once() {
    let site = Site::new(COUNT);
    let _daemon = site.start();
    let mut delivered = Vec::new();
    let mut gone = Vec::new();
    for round in 0..21 {
        let started = Instant::now();
        site.put(&["c a.test u"]);
        until("it is delivered", || site.events().count("count") > round);
        delivered.push(started.elapsed());
        site.until_empty();
        gone.push(started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
    // The first message started the agent, a Python program.
    let (first_delivered, first_gone) = (delivered.remove(0), gone.remove(0));
    delivered.sort();
    gone.sort();
    say(&format!(
        "notify: to delivery {first_delivered:?} with a new agent, {:?} median, {:?} worst; to the \
         empty spool {first_gone:?}, {:?} median, {:?} worst",
        delivered[10], delivered[19], gone[10], gone[19]
    ));
    assert!(gone[10] < Duration::from_millis(500), "{gone:?}");
}

/// Waits for a regular scan: 10 scaled seconds.
#[test]
fn regular_scan_finds_files_in_all_folders() {
    let site = Site::with_level(HashLevel::Once, COUNT);
    let _daemon = site.start();
    let started = Instant::now();
    let below = site.put_quietly(&["c a.test u"]);
    assert!(below.path().contains('/'), "{below}");
    let top = control_file("4711", &["c b.test u"]);
    site.put_file("4711", top.as_bytes());
    site.put_file("Q/R/4712", control_file("4712", &["c d.test u"]).as_bytes());
    // The scheduler gets neither a notification nor a request to scan.
    let limit = timeout(10) + DEADLINE;
    until_within(limit, "all three are delivered", || site.events().count("count") == 3);
    say(&format!("found by the regular scan after {:?}", started.elapsed()));
    site.until_empty();
}

/// Routers may send no notice, and the kernel keeps only ten notices for a socket.
#[test]
fn files_without_a_notice_are_found_at_once() {
    let site = Site::new(COUNT);
    // The next regular scan is 10 s away.
    let _daemon = site.start_with(&["--timeouts-scale=1"]);
    site.put(&["c a.test u"]);
    until("the scan at the start is over", || site.events().count("count") == 1);
    let started = Instant::now();
    for _ in 0..100 {
        site.put_quietly(&["c a.test u"]);
    }
    until("all are delivered", || site.events().count("count") == 101);
    assert!(started.elapsed() < Duration::from_secs(5), "only by the regular scan");
    site.until_empty();
}

/// A hash folder without mail is not watched yet.
#[test]
fn sigalrm_scans_at_once() {
    let site = Site::with_level(HashLevel::Once, COUNT);
    // The next regular scan is 10 s away.
    let daemon = site.start_with(&["--timeouts-scale=1"]);
    let started = Instant::now();
    site.put_quietly(&["c a.test u"]);
    daemon.signal(libc::SIGALRM);
    until("it is delivered", || site.events().count("count") == 1);
    assert!(started.elapsed() < Duration::from_secs(5), "only by the regular scan");
}

#[test]
fn hostile_datagrams_are_harmless() {
    let site = Site::new(COUNT);
    // The next regular scan is 10 s away.
    let mut daemon = site.start_with(&["--timeouts-scale=1"]);
    site.put_file(".600", control_file("600", &["c a.test u"]).as_bytes());
    let path = |name: &str| site.path(&format!("postoffice/{name}"));
    fs::rename(path("queue/.600"), path("queue/600")).expect("a message file");
    // The kernel does not report a link.
    fs::hard_link(path("transport/.600"), path("transport/600")).expect("a control file");
    fs::remove_file(path("transport/.600")).expect("the other name");
    let long = [b"NEW 1".as_slice(), &[b'1'; 5000]].concat();
    for datagram in [
        &b""[..],
        b"NEW",
        b"NEW ",
        b"NEW  600",
        b"new 600",
        b"OLD 600",
        b"NEW x702",
        b"NEW 0600",
        b"NEW a/600",
        b"NEW A/B/C/600",
        b"NEW ../transport/600",
        b"NEW /etc/passwd",
        b"NEW 600\n",
        b"NEW 600\0",
        b"NEW A/../600",
        b"NEW \xff\xfe",
        b"NEW 99999999999999999999999",
        b"NEW 1",
        b"NEW 12345678901234567",
        b"\0\0\0\0\0\0",
        &long,
    ] {
        site.notify_bytes(datagram);
    }
    site.put(&["c b.test u"]);
    until("the good one is delivered", || site.events().count("count") == 1);
    until("only the other is left", || site.files("transport") == ["600"]);
    assert_eq!(site.events().count("job"), 1, "no datagram with a valid name");
    site.notify("NEW 600");
    until("the datagram is valid", || site.events().count("count") == 2);
    // Of twenty thousand names no file exists; one existing file is announced a hundred times.
    let name = site.put_quietly(&["c wait.test wait!u"]);
    for number in 0..20_000 {
        site.notify(&format!("NEW {}", 3_000_000_000u64 + number));
        if number % 200 == 0 {
            site.notify(&format!("NEW {name}"));
        }
    }
    daemon.assert_runs();
    until("it is loaded", || site.mailq().vertices.len() == 1);
    site.write("go", "");
    site.until_empty();
    assert_eq!(site.events().count("count"), 3);
    assert_eq!(site.logged("error"), 0, "{}", site.log());
}

/// With a limit of ten files for each scan, more scans follow at once.
#[test]
fn scan_with_small_limit_loads_all_files() {
    let site = Site::new("c/*\n\tcommand=\"discard -c c\"\n");
    for _ in 0..3000 {
        site.put_quietly(&["c a.test u"]);
    }
    let started = Instant::now();
    let _daemon = site.spawn(&["-E", "10,2"]);
    site.until_empty();
    until("the statistics log has all", || site.read("statistics").lines().count() == 3000);
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
}

#[test]
fn synchronous_start_loads_all_before_first_agent() {
    let site = Site::new("c/*\n\tcommand=\"${AGENTS}/bad.py early c\"\n");
    for host in 0..2000 {
        site.put_quietly(&[&format!("c {host}.test u")]);
    }
    let _daemon = site.spawn(&["-S"]);
    until("agents speak", || site.logged("the licence has expired") > 0);
    let log = site.log();
    let loaded = log.find("initial scan complete").expect("loaded by now");
    let first = log.find("the licence has expired").expect("until has waited for it");
    assert!(loaded < first, "{}", &log[..first]);
    assert_eq!(site.mailq().vertices.len(), 2000);
}

#[test]
fn frozen_scheduler_shows_mail_without_delivery() {
    let site = Site::new(COUNT);
    site.put_quietly(&["c a.test u"]);
    let daemon = site.start_with(&["-F"]);
    site.put(&["c b.test u"]);
    until("both are shown", || site.mailq().vertices.len() == 2);
    daemon.scan();
    site.put_quietly(&["c c.test u"]);
    daemon.scan();
    assert!(daemon.agents().is_empty());
    assert_eq!(site.events().0.len(), 0);
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    let _daemon = site.start();
    until("another start delivers", || site.events().count("count") == 3);
}

#[test]
fn option_p_serves_only_selected_destination() {
    let site = Site::new(COUNT);
    for host in ["a.test", "b.test"] {
        site.put_quietly(&[&format!("c {host} u"), &format!("d {host} u")]);
    }
    let daemon = site.start_with(&["-p", "C/B.test"]);
    until("the selected one is delivered", || site.events().count("count") == 1);
    site.put(&["c a.test u"]);
    daemon.scan();
    assert_eq!(site.events().count("count"), 1);
    assert!(site.events().about("job")[0].ends_with(" b.test"));
    let dump = site.mailq();
    let thread = dump.thread("c/a.test").expect("it is queued");
    assert!(thread.contains(" pend=procsel-mismatch"), "{thread}");
    until("the others are left", || site.files("transport").len() == 3);
}

#[test]
fn agents_are_started_at_the_rate_of_option_r() {
    let site = Site::new(COUNT);
    for host in 0..12 {
        site.put_quietly(&[&format!("c {host}.test wait!u")]);
    }
    let _daemon = site.start_with(&["-R", "2"]);
    let mut was_shown = false;
    until("six agents run", || {
        let dump = site.mailq();
        was_shown |= dump.report.iter().any(|line| line.contains(" pend=ForkRateLimit"));
        site.events().count("start") >= 6
    });
    assert!(was_shown, "the reason is shown");
    let events = site.events();
    let started: Vec<f64> = events.of("start").map(|event| event.time).collect();
    // Two start in the first second, two in the next, two in the one after that.
    assert!(started[5] - started[0] > 0.8, "{started:?}");
    site.write("go", "");
    site.until_empty();
}
