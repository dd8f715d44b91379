//! Our agents, killed or stopped in the middle of a job with very many recipients.

use crate::support::{Daemon, Site, processes, say, until, until_within};
use std::collections::BTreeMap;
use std::time::Duration;
use zsched_sys::send_signal;

const HOSTS: [&str; 2] = ["a.test", "b.test"];
const RECIPIENTS: usize = 2000;
const LARGE_JOB_DEADLINE: Duration = Duration::from_secs(300);

/// Creates a site where `mailbox` delivers to 20 mailboxes.
///
/// The only retry time is `interval`.
fn site(interval: &str) -> Site {
    let command = "mailbox -c c -u -d ${SITE}/mail";
    Site::new(&format!("c/*\n\tinterval={interval} maxthr=1 command=\"{command}\"\n"))
}

/// Puts one message into the spool, with recipients for two hosts in turn.
fn put_one_for_all(site: &Site) {
    let recipient = |n: usize| format!("c {} box{}+{n}@x", HOSTS[n % 2], n % 20);
    let recipients: Vec<String> = (0..RECIPIENTS).map(recipient).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    site.put_quietly(&recipients);
}

/// Returns how often each address was delivered to.
fn deliveries(site: &Site) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for mailbox in 0..20 {
        let text = site.read(&format!("mail/box{mailbox}"));
        for line in text.lines().filter_map(|line| line.strip_prefix("Delivered-To: ")) {
            *all.entry(line.to_string()).or_insert(0) += 1;
        }
    }
    all
}

/// Returns the tags of all recipients.
fn tags(site: &Site) -> Vec<u8> {
    let name = site.files("transport").concat();
    let text = site.read(&format!("postoffice/transport/{name}"));
    let lines = text.lines().filter(|line| line.starts_with('r'));
    lines.map(|line| line.as_bytes()[1]).collect()
}

/// Waits until each host has `count` more deliveries, so that every agent is at work.
fn until_more_are_delivered(site: &Site, count: usize) {
    let delivered = || {
        let mut of_hosts = [0; HOSTS.len()];
        for address in deliveries(site).keys() {
            let number = address.trim_end_matches("@x").rsplit('+').next().expect("a number");
            of_hosts[number.parse::<usize>().expect("a number") % HOSTS.len()] += 1;
        }
        of_hosts
    };
    let enough = delivered().map(|before| (before + count).min(RECIPIENTS / HOSTS.len()));
    until_within(LARGE_JOB_DEADLINE, "more are delivered", || {
        delivered().iter().zip(enough).all(|(delivered, enough)| *delivered >= enough)
    });
}

/// Returns the addresses in the list of possible duplicates.
fn listed(site: &Site) -> Vec<String> {
    let text = site.read("postoffice/.scheduler.duplicates");
    let address = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["address"].as_str().expect("an address").to_string()
    };
    text.lines().map(address).collect()
}

fn kill_all(site: &Site, daemon: Daemon<'_>) -> usize {
    let agents = daemon.agents();
    daemon.kill();
    agents.iter().for_each(|agent| drop(send_signal(*agent, libc::SIGKILL)));
    until("the agents are gone", || processes::working_in(&site.path("")).is_empty());
    agents.len()
}

#[test]
fn kills_within_large_jobs_list_one_possible_duplicate_per_agent() {
    let site = site("1s");
    put_one_for_all(&site);
    let mut killed = 0;
    for round in 0..6 {
        let daemon = site.start();
        until_more_are_delivered(&site, 50);
        if round % 2 == 0 {
            for agent in daemon.agents() {
                drop(send_signal(agent, libc::SIGKILL));
                killed += 1;
            }
            until_more_are_delivered(&site, 10);
        }
        killed += kill_all(&site, daemon);
        if round == 0 {
            assert!(tags(&site).contains(&b' '), "all was delivered before the first kill");
        }
    }
    let daemon = site.start();
    until_within(LARGE_JOB_DEADLINE, "the spool is empty", || site.is_empty());
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));

    let deliveries = deliveries(&site);
    assert_eq!(deliveries.len(), RECIPIENTS, "every recipient is delivered to");
    let listed = listed(&site);
    let doubled: Vec<&String> =
        deliveries.iter().filter(|(_, times)| **times > 1).map(|(address, _)| address).collect();
    assert!(doubled.iter().all(|address| listed.contains(address)), "{doubled:?}, {listed:?}");
    say(&format!(
        "kills within large jobs: {killed} agents, {} listed, {} doubled",
        listed.len(),
        doubled.len()
    ));
    assert!(listed.len() <= killed, "{killed} agents were killed: {listed:?}");
}

#[test]
fn sigterm_to_an_agent_within_a_large_job_leaves_the_rest_due_at_once() {
    let site = site("1h");
    put_one_for_all(&site);
    let daemon = site.start();
    for _ in 0..3 {
        until_more_are_delivered(&site, 50);
        daemon.agents().iter().for_each(|agent| drop(send_signal(*agent, libc::SIGTERM)));
    }
    until("it is seen", || site.logged("ended with status 0") > 0);
    until_within(LARGE_JOB_DEADLINE, "the spool is empty", || site.is_empty());
    assert_eq!(daemon.end(libc::SIGTERM).code(), Some(0));
    let deliveries = deliveries(&site);
    assert_eq!((deliveries.len(), deliveries.values().sum()), (RECIPIENTS, RECIPIENTS));
    assert!(listed(&site).is_empty());
}

#[test]
fn sigquit_to_the_scheduler_stops_agents_within_a_large_job() {
    let site = site("1h");
    put_one_for_all(&site);
    let daemon = site.start();
    until_more_are_delivered(&site, 50);
    assert_eq!(daemon.end(libc::SIGQUIT).code(), Some(0));
    let tags = tags(&site);
    assert!(!tags.contains(&b'~'), "a recipient is still locked");
    assert!(tags.contains(&b' '), "the agents have worked on to the end of their jobs");

    // Recipients without a report do not wait for the retry time.
    let _daemon = site.start();
    until_within(LARGE_JOB_DEADLINE, "the spool is empty", || site.is_empty());
    let deliveries = deliveries(&site);
    assert_eq!((deliveries.len(), deliveries.values().sum()), (RECIPIENTS, RECIPIENTS));
    assert!(listed(&site).is_empty());
}
