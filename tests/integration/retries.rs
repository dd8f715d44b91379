//! Retry times and expiry.

use crate::support::{Site, until};

const COUNT: &str = "c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c\"\n";

/// Returns the times at which an address was tried.
fn times_of(site: &Site, address: &str) -> Vec<f64> {
    let events = site.events();
    events.of("take").filter(|event| event.address() == address).map(|event| event.time).collect()
}

#[test]
fn deferred_recipients_are_retried_at_intervals() {
    let site = Site::new("c/*\n\tinterval=1s retries=\"1 2\" command=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    site.put(&["c a.test deferred!1", "c a.test 2"]);
    let shown = site.until_shown("as told: deferred (retry in ");
    // Each report counts as a try here, as with the original. The next try may have happened
    // already.
    let tries = |shown: &str| shown.rsplit_once("tries=")?.1.trim_end_matches(')').parse().ok();
    assert!(shown.starts_with("as told: deferred (retry in "), "{shown}");
    assert!(tries(&shown).is_some_and(|tries: u32| tries >= 2), "{shown}");
    until("it was tried four times", || times_of(&site, "deferred!1").len() >= 4);
    let times = times_of(&site, "deferred!1");
    let waits: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().all(|wait| *wait > 0.9), "{waits:?}");
    assert!(waits[..2].iter().sum::<f64>() > 2.0, "one interval, then two: {waits:?}");
    site.write("open", "");
    site.until_empty();
    site.events().assert_once_each(["deferred!1".to_string(), "2".to_string()]);
}

/// A hundred threads that fail all the time do not delay others.
#[test]
fn failing_destinations_do_not_delay_others() {
    let site = Site::new("c/*\n\tmaxring=3 idlemax=1h command=\"${AGENTS}/count.py c\"\n");
    for host in 0..100 {
        site.put_quietly(&[&format!("c {host}.test deferred!{host}")]);
    }
    let _daemon = site.start();
    until("all have been tried", || site.events().count("take") >= 100);
    for round in 0..5 {
        let before = std::time::Instant::now();
        site.put(&[&format!("c good{round}.test good{round}")]);
        until("it is delivered", || site.events().count("count") == round + 1);
        assert!(before.elapsed().as_secs() < 5, "{:?}", before.elapsed());
    }
    let tried = site.events().count("take");
    until("the others are tried on and on", || site.events().count("take") > tried + 100);
    site.write("open", "");
    site.until_empty();
    assert_eq!(site.events().deliveries().len(), 105);
}

#[test]
fn retryat_sets_time_of_next_try() {
    let site = Site::new(COUNT);
    let _daemon = site.start();
    site.put(&["c a.test retryat+3!1"]);
    let shown = site.until_shown("as told: retryat (retry in ");
    assert!(!shown.contains("+3"), "{shown}");
    // All mail of the host waits.
    site.put(&["c a.test 2"]);
    until("both wait", || site.mailq().thread("c/a.test").is_some_and(|line| line.contains("N=2")));
    until("it is tried again", || times_of(&site, "retryat+3!1").len() == 2);
    let times = times_of(&site, "retryat+3!1");
    let wait = times[1] - times[0];
    assert!((2.9..8.0).contains(&wait), "{wait}");
    let second = times_of(&site, "2");
    assert!(second.iter().all(|time| time - times[0] > 2.9), "{second:?}");
}

/// After `deferall` no other mail is tried for that host until a request.
#[test]
fn deferall_stops_tries_until_etrn() {
    let site = Site::new(COUNT);
    for number in 0..5 {
        site.put_quietly(&[&format!("c a.test deferall!{number}")]);
    }
    let daemon = site.start_with(&["-S"]);
    until("all wait for the same reason", || {
        let dump = site.mailq();
        dump.vertices.iter().filter(|v| v.text.starts_with("as told: deferall (retry in ")).count()
            == 5
    });
    site.put(&["c a.test new"]);
    site.put(&["c b.test other"]);
    until("another host is served", || site.events().count("count") == 1);
    assert_eq!(site.events().count("take"), 2, "only one was tried in vain: {:?}", site.events());
    site.write("open", "");

    // A request works with and without a datagram. Hosts are compared without case.
    site.put_file("9001-etrn", b"T A.Test [192.0.2.1]\n");
    std::fs::remove_file(site.path("postoffice/queue/9001-etrn")).expect("it has no message");
    site.notify("NEW 9001-etrn");
    site.until_empty();
    site.until_logged("ETRN a.test: 1 destination", 1);
    std::fs::remove_file(site.path("open")).expect("closed again");
    site.put(&["c a.test deferall!last"]);
    site.until_shown("as told: deferall");
    site.write("open", "");
    site.put_file("9002", b"T a.test\n");
    std::fs::remove_file(site.path("postoffice/queue/9002")).expect("it has no message");
    daemon.signal(libc::SIGALRM);
    site.until_empty();
    assert_eq!(site.events().deliveries().len(), 8);
}

#[test]
fn queueonly_waits_for_request() {
    let site = Site::new("c/*\n\tqueueonly command=\"${AGENTS}/count.py c\"\n");
    let daemon = site.start();
    site.put(&["c a.test 1"]);
    site.put(&["c b.test 2"]);
    until("both are loaded", || site.mailq().vertices.len() == 2);
    daemon.scan();
    site.until_shown("(activation pending, thread inactive");
    assert!(daemon.agents().is_empty());
    site.put_file("9001-etrn", b"T a.test\n");
    site.notify("NEW 9001-etrn");
    until("that host is served", || site.events().count("count") == 1);
    until("the request is removed", || !site.files("transport").contains(&"9001-etrn".to_string()));
    daemon.scan();
    site.events().assert_once_each(["1".to_string()]);
}

#[test]
fn queueonly_with_interval_is_tried_without_request() {
    let site = Site::new(
        "c/*\n\tqueueonly interval=2s retries=1 command=\"${AGENTS}/count.py c\"\n\
         d/*\n\tqueueonly command=\"${AGENTS}/count.py d\"\n",
    );
    let daemon = site.start();
    site.put(&["c a.test deferred!1", "d a.test 2"]);
    until("it is tried", || site.events().count("take") == 1);
    until("it is tried again", || site.events().count("take") == 2);
    site.write("open", "");
    until("it is delivered", || site.events().count("count") == 1);
    daemon.scan();
    site.events().assert_once_each(["deferred!1".to_string()]);
}

/// Expired mail is reported to the sender.
#[test]
fn expired_mail_is_reported() {
    let site = Site::new("c/*\n\tinterval=1s expiry=3s command=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    site.put(&["c a.test deferred!1", "c b.test 2"]);
    site.put(&["c d.test deferred!3 | NOTIFY=NEVER"]);
    until("they have left", || site.is_empty());
    // The other message has NOTIFY=NEVER.
    let report = site.until_submission();
    assert_eq!(report.matches("\nAction: failed\n").count(), 1, "{report}");
    for text in [
        "\nFinal-Recipient: x-local; deferred!1\n",
        "\nStatus: 5.4.7 ",
        "      expired after ",
        "problem was:\n      as told: deferred",
        "\nThis is the body.\n",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
    assert_eq!(site.files("postman"), [""; 0]);
    until("both expiries are written", || site.read("statistics").matches(" expire ").count() >= 2);
    let statistics = site.read("statistics");
    assert_eq!(statistics.matches(" expire c/a.test\n").count(), 1, "{statistics}");
    assert_eq!(statistics.matches(" expire c/d.test\n").count(), 1, "{statistics}");
    // It has expired no earlier than configured.
    let times = times_of(&site, "deferred!1");
    assert!(times.len() >= 2, "{times:?}");
    let line = statistics.lines().find(|line| line.contains(" expire c/a")).expect("counted");
    let age: i64 = line.split(' ').nth(2).expect("a time").parse().expect("seconds");
    assert!((3..12).contains(&age), "{line}");
}

/// An untried recipient expires `expiry2` later.
#[test]
fn untried_recipients_expire_after_expiry2() {
    let site = Site::new(
        "c/*\n\tqueueonly expiry=1s expiry2=2s command=\"${AGENTS}/count.py c\"\n\
         d/*\n\tqueueonly expiry=1s command=\"${AGENTS}/count.py d\"\n",
    );
    let _daemon = site.start();
    let name = site.put(&["c a.test u"]);
    let other = site.put(&["d a.test u"]);
    until("it has expired", || site.read("statistics").contains(" expire c/a.test\n"));
    let statistics = site.read("statistics");
    let age: i64 = statistics.split(' ').nth(2).expect("a time").parse().expect("seconds");
    assert!((3..12).contains(&age), "{statistics}");
    until("it has left", || !site.files("transport").contains(&name.path()));
    let report = site.until_submission();
    assert!(report.contains("      expired after "), "{report}");
    // The default of `expiry2` is a day.
    assert_eq!(site.files("transport"), [other.path()]);
    assert_eq!(site.events().0.len(), 0);
}
