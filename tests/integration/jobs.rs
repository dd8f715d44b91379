//! Work chosen by message: the order of a real agent's jobs.

use crate::support::{Site, until};

/// Returns the first characters of the addresses, in the order of delivery.
fn sequence(site: &Site) -> String {
    let events = site.events();
    events.of("count").filter_map(|event| event.address().chars().next()).collect()
}

/// Puts a message into the spool, with each recipient at another host.
fn put(site: &Site, message: usize, hosts: usize) {
    let recipients: Vec<String> =
        (0..hosts).map(|host| format!("c h{message}-{host}.test {message}-{host}")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    site.put_quietly(&recipients);
}

#[test]
fn small_messages_preempt_large_one() {
    let site = Site::new(
        "c/*\n\tmaxring=1 slot-cost=2 slot-discount=50 slot-loan=0 minimum-slots=0\n\
         \tcommand=\"${AGENTS}/count.py c\"\n",
    );
    put(&site, 1, 10);
    put(&site, 2, 2);
    put(&site, 3, 2);
    // No agent is started before everything is loaded.
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

/// Returns the number of deliveries of the large message during message 2.
///
/// They are those between the first and the last delivery of message 2.
fn large_deliveries_between(site: &Site) -> usize {
    let sequence = sequence(site);
    let (first, last) = (sequence.find('2'), sequence.rfind('2'));
    let between = first.zip(last).and_then(|(first, last)| sequence.get(first..last));
    between.expect("message 2 was delivered").matches('w').count()
}

/// Returns that number for a large message and a preempting second one.
///
/// The large message fills its ring.
///
/// Of the second one only little is in memory when it preempts the first.
fn preempt_with_reserve(extra: u32) -> usize {
    let site = Site::new(&format!(
        "PARAMmessage-active-limit=20\nPARAMmessage-recipient-limit=20\n\
         PARAMmessage-recipient-minimum=2\n\
         c/*\n\tmaxring=1 recipient-limit=200 extra-recipient-limit={extra} refill-limit=10\n\
         \tslot-cost=2 slot-discount=100 minimum-slots=0 command=\"${{AGENTS}}/count.py c 0.01\"\n"
    ));
    let bulk: Vec<String> = (0..400).map(|n| format!("c h1-{n}.test wait!1-{n}")).collect();
    site.put_quietly(&bulk.iter().map(String::as_str).collect::<Vec<_>>());
    let _daemon = site.start();
    until("the ring is full", || site.mailq().vertices.len() >= 200);
    let loaded = site.mailq().vertices.len();
    put(&site, 2, 40);
    until("some of the other is loaded", || site.mailq().vertices.len() == loaded + 2);
    site.write("go", "");
    until("it is delivered", || sequence(&site).matches('2').count() == 40);
    large_deliveries_between(&site)
}

#[test]
fn preempting_message_is_loaded_from_reserve() {
    let (with, without) = (preempt_with_reserve(100), preempt_with_reserve(0));
    assert!(with <= 10, "{with} of the large message in between");
    // Without the reserve it is read in steps of two, and the agent goes on with the large message
    // during most steps. Their number depends on the time of a step and that of a delivery.
    assert!(
        without > with,
        "in small steps {without} of the large message in between, else {with}"
    );
}
