//! A queue that does not fit into memory: everything is delivered, once.

use crate::support::{Client, Site, processes, until, until_within};
use std::time::Duration;
use zsched_spool::SpoolName;

const LIMITS: &str = "PARAMmessage-active-limit=5\nPARAMmessage-recipient-limit=50\n\
                      PARAMmessage-recipient-minimum=3\n";

#[test]
fn kill_with_memory_limit_loses_nothing() {
    let site = Site::new(&format!(
        "{LIMITS}c/*\n\tmaxring=4 maxthr=2 overfeed=10 recipient-limit=100 refill-limit=20 \
         refill-delay=1s command=\"${{AGENTS}}/count.py c 0 c 0\"\n\
         d/*\n\tmaxring=2 recipient-limit=2000 command=\"discard -c d\"\n"
    ));
    let mut addresses = Vec::new();
    let mut put = |count: usize, hosts: usize| {
        let first = addresses.len();
        addresses.extend((first..first + count).map(|n| format!("u{n}")));
        let new = addresses[first..].iter().enumerate();
        let recipients: Vec<String> =
            new.map(|(n, address)| format!("c h{}.test {address}", n % hosts)).collect();
        site.put_quietly(&recipients.iter().map(String::as_str).collect::<Vec<_>>());
    };
    for n in 0..200 {
        put(1 + n % 4, 3);
        if n % 80 == 0 {
            put(1500, 7);
        }
    }
    // This is more than a megabyte, so the file is read in parts.
    let large: Vec<String> = (0..30_000).map(|n| format!("d h{}.test user{n}", n % 5)).collect();
    site.put_quietly(&large.iter().map(String::as_str).collect::<Vec<_>>());
    let daemon = site.spawn(&[]);
    until("something is delivered", || !site.events().deliveries().is_empty());
    daemon.kill();
    until("former agents have ended", || processes::working_in(&site.path("")).is_empty());
    let mut daemon = site.spawn(&[]);
    let limit = Duration::from_secs(120);
    until_within(limit, "no control file is left", || site.files("transport").is_empty());
    daemon.assert_runs();
    site.events().assert_once_each(addresses);
    assert_eq!(site.files("postman"), [""; 0]);
}

/// Puts twenty messages into the spool that are deferred at first.
fn put_slow(site: &Site) -> Vec<SpoolName> {
    let put = |n| site.put_quietly(&[&format!("c slow{n}.test deferred!{n}")]);
    (0..20).map(put).collect()
}

/// Puts twenty others into the spool, which are delivered.
fn put_good(site: &Site) {
    for n in 0..20 {
        site.put(&[&format!("c good{n}.test u{n}")]);
    }
    until("new mail gets through", || site.events().deliveries().len() >= 20);
}

#[test]
fn paged_out_mail_keeps_its_state_after_restart() {
    let site = Site::new(&format!(
        "{LIMITS}c/*\n\tinterval=1h retries=1 maxring=4 command=\"${{AGENTS}}/count.py c\"\n"
    ));
    let names = put_slow(&site);
    let until_most_rest = || {
        let mut client = Client::local(&site, "postoffice/.scheduler.control");
        let mut rests =
            |name: &&SpoolName| client.ask(&format!("SHOW WHY {name}")).contains("paged out until");
        until("most rest", || names.iter().filter(&mut rests).count() >= 15);
    };
    let daemon = site.start();
    put_good(&site);
    until_most_rest();
    let tries = site.events().count("take");
    assert_eq!(tries, 40);
    daemon.end(libc::SIGTERM);
    let mut daemon = site.start();
    until_most_rest();
    // Each was read again without a try; the former tries and their result are known.
    assert_eq!(site.events().count("take"), tries);
    let shown = site.mailq().vertices;
    let is_known = |text: &str| text.contains("as told: deferred");
    assert!(shown.iter().all(|vertex| is_known(&vertex.text)), "{shown:?}");
    daemon.assert_runs();
}

#[test]
fn paged_out_mail_is_loaded_on_request() {
    let site = Site::new(&format!(
        "{LIMITS}c/*\n\tinterval=1h retries=1 maxring=4 command=\"${{AGENTS}}/count.py c\"\n"
    ));
    let names = put_slow(&site);
    let mut daemon = site.start();
    put_good(&site);
    let good = || site.events().deliveries().len();
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    let mut rests =
        |name: &SpoolName| client.ask(&format!("SHOW WHY {name}")).contains("paged out until");
    let mut resting = Vec::new();
    until("many rest", || {
        resting = names.iter().filter(|name| rests(name)).collect();
        resting.len() >= 15
    });
    // From now on all tries succeed.
    site.write("open", "");
    let summary = client.ask("SHOW JSON SUMMARY");
    assert!(!summary.contains("\"resting\":0") && summary.contains("\"waiting\":0"), "{summary}");
    let wide = client.ask("DELETE d/* dry-run=yes");
    assert!(wide.contains("\"unseen\":"), "{wide}");
    let one = client.ask(&format!("RETRY id={}", resting[0]));
    assert!(one.contains("\"messages\":1,\"recipients\":1"), "{one}");
    until("one is delivered", || good() >= 21);
    for n in 0..20 {
        client.ask(&format!("ETRN slow{n}.test"));
    }
    until("all are delivered", || site.files("transport").is_empty());
    daemon.assert_runs();
}

#[test]
fn new_mail_gets_room_despite_many_retries() {
    let site = Site::new(&format!(
        "{LIMITS}c/*\n\tmaxring=2 command=\"${{AGENTS}}/count.py c 0.02\"\n\
         d/*\n\tcommand=\"${{AGENTS}}/count.py d\"\n"
    ));
    for number in 0..30 {
        site.put_quietly(&[&format!("c slow{}.test deferred!{number}", number % 3)]);
    }
    let mut daemon = site.start();
    until("retries are under way", || site.events().count("take") >= 30);
    for number in 0..5 {
        let before = site.events().count("take");
        site.put(&[&format!("d idle.test u{number}")]);
        until("new mail is delivered", || site.events().count("count") > number);
        let retries = site.events().count("take") - before;
        assert!(retries < 1000, "{retries} retries came first");
    }
    daemon.assert_runs();
}

/// A message is mostly on disk, with some recipients at an agent, when it is deleted. Then the
/// scheduler is killed.
#[test]
fn deleted_partial_message_stays_deleted_after_kill() {
    let site = Site::new(&format!(
        "{LIMITS}c/*\n\tmaxring=1 maxthr=1 packet=5 recipient-limit=50 refill-limit=20 refill-delay=0s \
         command=\"${{AGENTS}}/count.py c 2 c 0\"\n"
    ));
    let recipients: Vec<String> = (0..5000).map(|n| format!("c a.test u{n}")).collect();
    let spam = site.put_quietly(&recipients.iter().map(String::as_str).collect::<Vec<_>>());
    let daemon = site.start();
    until("an agent is at it", || site.events().count("take") > 0);
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    let done = client.order(&format!("DELETE id={spam}"));
    assert_eq!(done["messages"], 1);
    assert!(done["busy"].as_u64() > Some(0), "{done}");
    let orders = client.ask("SHOW JSON ORDERS");
    assert!(orders.contains("\"kind\":\"delete\""), "{orders}");
    let agents = daemon.agents();
    daemon.kill();
    agents.iter().for_each(|agent| drop(zsched_sys::send_signal(*agent, libc::SIGKILL)));
    until("the agent is gone", || processes::working_in(&site.path("")).is_empty());
    let text = site.read(&format!("postoffice/transport/{spam}"));
    assert!(text.matches("\nr ").count() > 1000, "most of it is untouched");
    let _daemon = site.start();
    until_within(Duration::from_secs(60), "it has left", || site.files("transport").is_empty());
    let delivered = site.events().deliveries().len();
    assert!(delivered <= 10, "{delivered} were delivered that an agent had, and no others");
    until("the order is over", || {
        Client::local(&site, "postoffice/.scheduler.control").ask("SHOW JSON ORDERS").is_empty()
    });
    assert_eq!(site.files("postman"), [""; 0], "no report is owed: {}", site.log());
}
