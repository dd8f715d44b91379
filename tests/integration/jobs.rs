//! Work chosen by message: what a real agent is given, one job after the other.

use crate::support::{Site, until};

/// The first characters of the addresses, in the order in which they were delivered.
fn sequence(site: &Site) -> String {
    let events = site.events();
    events.of("count").filter_map(|event| event.address().chars().next()).collect()
}

/// Recipients of a message, each at a host of its own.
fn put(site: &Site, message: usize, hosts: usize) {
    let recipients: Vec<String> =
        (0..hosts).map(|host| format!("c h{message}-{host}.test {message}-{host}")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    site.put_quietly(&recipients);
}

#[test]
fn small_messages_slip_past_a_large_one() {
    let site = Site::new(
        "c/*\n\tmaxring=1 slot-cost=2 slot-discount=50 slot-loan=0 minimum-slots=0\n\
         \tcommand=\"${AGENTS}/count.py c\"\n",
    );
    put(&site, 1, 10);
    put(&site, 2, 2);
    put(&site, 3, 2);
    // Nothing starts before everything is loaded.
    let _daemon = site.start_with(&["-S"]);
    site.until_empty();
    assert_eq!(sequence(&site), "11221111331111");
}

#[test]
fn urgent_messages_go_first() {
    let site = Site::new("c/*\n\tmaxring=1 job-order\n\tcommand=\"${AGENTS}/count.py c\"\n");
    let _daemon = site.start();
    site.put(&["c a.test wait!first"]);
    until("the agent is at work", || site.events().count("take") == 1);
    for number in 1..=3 {
        site.put(&[&format!("c b{number}.test {number}")]);
    }
    let urgent = |priority: &'static str, name: &'static str| {
        let host = format!("{name}.test");
        site.submit(&["--priority", priority, "-c", "c", "-n", &host, name], "Subject: x\n\nx\n");
    };
    urgent("9", "late");
    urgent("0", "urgent");
    until("all are loaded", || site.mailq().vertices.len() == 6);
    site.write("go", "");
    site.until_empty();
    assert_eq!(sequence(&site), "wu123l");
}
