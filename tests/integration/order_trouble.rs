//! Orders under adverse conditions: kills, full disks, clients that disconnect, users without
//! rights, malformed requests.

use crate::support::{
    Client, DEADLINE, Site, allow, hold_for, is_root, not_run, say, timeout, until, until_within,
};
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const CLAUSES: &str = "*/*\n\tinterval=1h retries=1 expiry=3d\n\
     c/*\n\tidlemax=1h command=\"${AGENTS}/count.py c\"\n\
     q/*\n\tqueueonly command=\"${AGENTS}/count.py q\"\n";

/// Each request, with the attribute that it needs.
const REQUESTS: [(&str, &str); 12] = [
    ("HOLD", "HOLD x/*"),
    ("HOLD", "RELEASE x/*"),
    ("RETRY", "RETRY x/*"),
    ("EXPIRE", "EXPIRE x/*"),
    ("DELETE", "DELETE x/*"),
    ("REROUTE", "REROUTE x/*"),
    ("SET", "SET ring=c/* maxring=5"),
    ("SET", "UNSET ring=c/* maxring"),
    ("AGENTS", "RETIRE 1"),
    ("LOG", "LOG info"),
    ("RELOAD", "RELOAD"),
    ("HOLD", "RELEASE ALL"),
];

fn control(site: &Site) -> Client<UnixStream> {
    Client::local(site, "postoffice/.scheduler.control")
}

#[test]
fn order_needs_its_attribute() {
    let attributes =
        ["HOLD", "RETRY", "EXPIRE", "DELETE", "REROUTE", "SET", "AGENTS", "LOG", "RELOAD"];
    let site = Site::new(CLAUSES);
    let mut accounts = "views:x:SNMP QQ TT WHY ETRN KILL EVENTS:\n".to_string();
    for attribute in attributes {
        accounts += &format!("{attribute}:x:{attribute}:\n");
        let others: Vec<&str> =
            attributes.into_iter().filter(|other| *other != attribute).collect();
        accounts += &format!("not-{attribute}:x:{}:\n", others.join(" "));
    }
    site.write("auth", &accounts);
    allow(site.path("auth"), 0o600);
    let parameters = "PARAMmailqsock=TCP:0\nPARAMauthfile=\"${SITE}/auth\"\n";
    site.write("scheduler.cf", &format!("{parameters}{CLAUSES}"));
    let mut daemon = site.start();
    let mut clients: std::collections::BTreeMap<String, _> = Default::default();
    let mut ask = |user: &str, request: &str| {
        let client = clients.entry(user.to_string()).or_insert_with(|| {
            let mut client = Client::of(&site);
            assert_eq!(client.log_in(user, "x"), "+OK\n");
            client
        });
        client.ask(request)
    };
    for (attribute, request) in REQUESTS {
        let unknown = "-MAILQ2 Unknown command, or refused by access control";
        assert!(ask("views", request).starts_with(unknown), "{request}");
        let answer = ask(&format!("not-{attribute}"), request);
        assert!(answer.starts_with(unknown), "{request}: {answer}");
        let answer = ask(attribute, request);
        assert!(
            !answer.starts_with(unknown) && !answer.starts_with("-at byte"),
            "{request}: {answer}"
        );
    }
    // With user and peer.
    site.until_logged("request by HOLD from 127.0.0.1: \"HOLD x/*\"", 1);
    daemon.assert_runs();
}

#[test]
fn holds_and_limits_survive_a_kill() {
    let site = Site::new(CLAUSES);
    let message = site.put_quietly(&["q m.test kept"]);
    let daemon = site.start();
    let mut client = control(&site);
    client.order("HOLD c/*.test reason=\"a \\\"reason\\\"\"");
    client.order(&format!("HOLD id={message}"));
    client.order("SET ring=q/* maxring=3 for=1h");
    // An answered order is stored, so it survives the kill.
    daemon.kill();
    site.put_quietly(&["c a.test u", "c b.other v"]);
    let daemon = site.start();
    until("what is not held is delivered", || site.events().count("count") == 1);
    let mut client = control(&site);
    client.order("RETRY */*");
    let waits = || site.events().count("count") == 1;
    hold_for(Duration::from_millis(300), "what is held stays", waits);
    assert_eq!(client.refused("HOLD c/*.test"), "already held");
    let orders = client.ask("SHOW JSON ORDERS");
    assert_eq!(orders.lines().count(), 3, "{orders}");
    assert!(orders.contains("a \\\"reason\\\"") && orders.contains("maxring"), "{orders}");
    client.order("RELEASE ALL");
    daemon.kill();
    let _daemon = site.start();
    let mut client = control(&site);
    client.order("RETRY */*");
    until("all is delivered", || site.events().count("count") >= 3);
    // A kill may have come between the removal of the two files of a released message.
    until("nothing is left", || site.is_empty());
}

/// The scheduler is killed at any moment during a series of orders.
///
/// Each answered order is in force after the next start, unless it was undone.
#[test]
fn answered_orders_survive_kills_at_any_moment() {
    let seed = std::env::var("ZSCHED_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    say(&format!("orders and kills: ZSCHED_SEED={seed}"));
    let mut random = fastrand::Rng::with_seed(seed);
    let site = Site::new(CLAUSES);
    // The answered orders, and the last one, which may be in force or not.
    let (mut held, mut last) = (std::collections::BTreeSet::new(), None);
    for _ in 0..12 {
        let daemon = site.start();
        let mut client = control(&site);
        let in_force = client.ask("SHOW JSON ORDERS");
        let is_in_force = |number: &u32| in_force.contains(&format!("\"q/h{number}.test\""));
        if let Some(number) = last.take() {
            held.remove(&number);
            held.extend(is_in_force(&number).then_some(number));
        }
        let lost: Vec<&u32> = held.iter().filter(|number| !is_in_force(number)).collect();
        assert!(lost.is_empty(), "{lost:?} of {} are lost: {in_force}", held.len());
        let count = in_force.lines().filter(|line| line.contains(".test")).count();
        assert_eq!(count, held.len(), "{in_force}");
        for _ in 0..random.usize(5..60) {
            let number = random.u32(0..100);
            let is_held = held.contains(&number);
            let verb = if is_held { "RELEASE" } else { "HOLD" };
            client.order(&format!("{verb} q/h{number}.test"));
            if is_held {
                held.remove(&number)
            } else {
                held.insert(number)
            };
        }
        // The kill comes at any moment of one more order.
        let number = random.u32(100..200);
        client.send(&format!("HOLD q/h{number}.test\n"));
        last = Some(number);
        std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
        daemon.kill();
        if random.bool() {
            // This simulates a kill in the middle of a write.
            let path = site.path("postoffice/.scheduler.orders");
            let file = std::fs::File::options().append(true).open(path).expect("it is there");
            (&file).write_all(b"{\"hold\":{\"scope\":{\"destinations\":\"q").expect("written");
        }
    }
}

/// A small file system for the whole spool.
struct SmallDisk(std::path::PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn unstored_orders_are_in_force() {
    if !is_root() {
        return not_run("a full disk: only root can mount a small one");
    }
    let site = Site::new(CLAUSES);
    let postoffice = site.path("postoffice");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=512k,mode=755", "small"]).arg(&postoffice);
    if !mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return not_run("a full disk: a small one cannot be mounted here");
    }
    let disk = SmallDisk(postoffice.clone());
    site.spool.create().expect("a spool");
    site.put_quietly(&["q a.test u"]);
    let daemon = site.start();
    let mut client = control(&site);
    let fill = std::fs::File::create(postoffice.join("fill")).expect("a file");
    while (&fill).write(&[b'x'; 512]).is_ok() {}
    let answer = client.refused("HOLD q/*");
    assert!(answer.starts_with("in force, but could not be stored: "), "{answer}");
    until("it is logged", || site.logged("overrides cannot be stored") >= 1);
    client.order("RETRY */*");
    hold_for(Duration::from_millis(300), "it is in force", || site.events().count("count") == 0);
    assert_eq!(client.refused("HOLD q/*"), "already held");
    // The scheduler tries again every 30 scaled seconds.
    std::fs::remove_file(postoffice.join("fill")).expect("removed");
    drop(fill);
    let stored = || site.read("postoffice/.scheduler.orders").contains("\"q/*\"");
    until_within(timeout(30) + DEADLINE, "it is stored", stored);
    daemon.kill();
    let _daemon = site.start();
    let mut client = control(&site);
    client.order("RETRY */*");
    hold_for(Duration::from_millis(300), "it is held", || site.events().count("count") == 0);
    client.order("RELEASE q/*");
    client.order("RETRY */*");
    until("it is delivered", || site.events().count("count") == 1);
    drop(disk);
}

/// An order stops when its client disconnects; the log tells how far it came.
#[test]
fn order_stops_when_client_disconnects() {
    let site = Site::new(CLAUSES);
    for _ in 0..2500 {
        site.put_quietly(&["q a.test u"]);
    }
    let mut daemon = site.start();
    let mut client = control(&site);
    until("all is loaded", || client.ask("SHOW SNMP").contains("Rcpnts: 2500"));
    let mut leaving = control(&site);
    leaving.send("DELETE */*\n");
    drop(leaving);
    until("it is noticed", || {
        site.logged("disconnected; \"DELETE */*\" stopped: 500 messages") == 1
    });
    let left = client.order("RETRY */* dry-run=yes")["messages"].as_u64().expect("a number");
    assert!((1..=2000).contains(&left), "{left}");
    // An order of a client that only shuts down its sending side is carried out.
    let mut patient = control(&site);
    patient.send("DELETE */*\n");
    patient.stream.get_mut().shutdown(Shutdown::Write).expect("closed");
    let answer = patient.line();
    assert!(answer.starts_with(&format!("+OK {{\"messages\":{left},")), "{answer}");
    site.until_empty();
    daemon.assert_runs();
}

/// Several orders are given at a time while mail is delivered.
#[test]
fn concurrent_orders_do_not_disturb_delivery() {
    let site = Site::new(CLAUSES);
    for number in 0..1500 {
        site.put_quietly(&[&format!("q h{}.test u", number % 300)]);
    }
    let mut daemon = site.start();
    let mut clients: Vec<_> = (0..12).map(|_| control(&site)).collect();
    until("all is loaded", || clients[0].ask("SHOW SNMP").contains("Rcpnts: 1500"));
    for (number, client) in clients.iter_mut().enumerate() {
        let request = match number % 4 {
            // The hold is for one channel: the new mail has the same sender and must not be held.
            0 => "HOLD q/* sender=sender@*",
            1 => "RELEASE older=0s",
            2 => "RETRY recipient=nobody",
            _ => "DELETE sender=nobody",
        };
        client.send(&format!("{request}\nSHOW SNMP\n"));
    }
    site.put(&["c a.test now"]);
    until("new mail is delivered", || site.events().count("count") == 1);
    for client in &mut clients {
        let answer = client.line();
        assert!(answer.starts_with("+OK {"), "{answer}");
        assert_eq!(client.line(), "+OK until LF.LF\n");
    }
    clients.truncate(0);
    let mut client = control(&site);
    client.ask("RELEASE ALL");
    assert_eq!(client.order("DELETE */*")["messages"], 1500);
    site.until_empty();
    daemon.assert_runs();
}

#[test]
fn malformed_requests_are_refused_with_position() {
    let site = Site::new(CLAUSES);
    site.put_quietly(&["q a.test u"]);
    let mut daemon = site.start();
    let mut client = control(&site);
    let long = "x".repeat(600);
    for (request, at) in [
        ("HOLD", 4),
        ("HOLD reason=x", 13),
        ("HOLD \"a/b", 5),
        ("HOLD a/b \"c\"d", 12),
        ("HOLD a/b c/d", 9),
        ("HOLD a/b foo=1", 13),
        ("HOLD a", 5),
        ("HOLD /", 5),
        ("HOLD a/[", 5),
        ("HOLD ALL", 5),
        ("HOLD id=x", 8),
        ("HOLD id=99999999999999999999999", 8),
        ("HOLD a/b\x01", 8),
        ("HOLD a/b dry-run=2", 17),
        ("HOLD a/b id=1 id=2", 14),
        ("HOLD ring=c/* q/*", 14),
        ("RELEASE", 7),
        ("RELEASE ALL ALL", 12),
        ("RETRY", 5),
        ("DELETE dry-run=yes", 18),
        ("EXPIRE older=1x", 13),
        ("EXPIRE older=-1", 13),
        ("EXPIRE older=99999999999999999999d", 13),
        ("REROUTE sender=", 15),
        ("RETIRE", 6),
        ("RETIRE x", 7),
        ("RETIRE -1", 7),
        ("RETIRE 99999999999999", 7),
        ("RELOAD now", 7),
        ("SET ring=c/* maxring=99999999999", 21),
        ("SET x maxthr=1", 4),
        ("SET ring=c/* maxring=1 for=x", 27),
        (&format!("DELETE sender={long}"), 14),
        (&format!("HOLD a/b reason={long}"), 16),
    ] {
        let answer = client.refused(request);
        assert!(answer.starts_with(&format!("at byte {at}: ")), "{request:?}: {answer}");
    }
    client.stream.get_mut().write_all(b"HOLD a/\xff\n").expect("said");
    assert_eq!(client.line(), "-at byte 7: this is not UTF-8\n");
    assert_eq!(client.ask("SHOW JSON ORDERS"), "", "nothing of it was done");
    assert_eq!(client.order("RETRY */* dry-run=yes")["messages"], 1);
    daemon.assert_runs();
}
