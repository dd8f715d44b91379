//! Limits on the number of agents, counted as processes of the system.

use crate::support::{Client, Daemon, Event, Site, allow, until};

/// Waits until everything is delivered, and checks the number of agents all the time.
#[track_caller]
fn finish(site: &Site, daemon: &Daemon<'_>, limit: usize) {
    site.write("go", "");
    until("everything is delivered", || {
        let agents = daemon.agents();
        assert!(agents.len() <= limit, "{} agents at a time: {agents:?}", agents.len());
        assert!(site.mailq().total("Kids") <= limit);
        site.is_empty()
    });
    let most = site.events().most_at_a_time(|_| true);
    assert!(most <= limit, "{most} by their own count");
}

/// Waits until the maximum number of agents is at work.
///
/// No further one is about to start then.
#[track_caller]
fn until_full(site: &Site, daemon: &Daemon<'_>, limit: usize, shown: &str) {
    until("as many as there may be are at work", || site.events().count("take") == limit);
    assert_eq!(daemon.agents().len(), limit);
    let dump = site.mailq();
    assert_eq!(dump.total("Kids"), limit);
    let waiting = dump.report.iter().filter(|line| line.contains(shown)).count();
    assert!(waiting > 0, "nobody has {shown:?}: {:#?}", dump.report);
}

/// Puts messages for hosts of a channel into the spool; each takes until the test writes `go`.
fn put_hosts(site: &Site, channel: &str, hosts: usize) {
    for host in 0..hosts {
        site.put_quietly(&[&format!("{channel} {host}.test wait!{channel}{host}")]);
    }
}

#[test]
fn maxta_counts_all_agents() {
    let site = Site::new(
        "*/*\n\tmaxta=4 idlemax=1h\n\
         a/*\n\tcommand=\"${AGENTS}/count.py a\"\n\
         b/*\n\tcommand=\"${AGENTS}/count.py b\"\n",
    );
    put_hosts(&site, "a", 15);
    put_hosts(&site, "b", 15);
    let daemon = site.start();
    until_full(&site, &daemon, 4, " pend=>MaxTA");
    assert!(site.mailq().vertices.iter().any(|vertex| vertex.text.contains("(waiting for slot")));
    finish(&site, &daemon, 4);
    let events = site.events();
    assert_eq!(events.deliveries().len(), 30);
    // Idle agents of one ring have made room for the other.
    assert!(["a", "b"].iter().all(|name| events.of("start").any(|event| event.agent == *name)));
}

#[test]
fn maxchannel_counts_agents_of_a_channel_under_all_clauses() {
    let site = Site::new(
        "c/*0.test\n\tmaxchannel=3 idlemax=1h command=\"${AGENTS}/count.py c 0 zero\"\n\
         c/*\n\tmaxchannel=3 idlemax=1h command=\"${AGENTS}/count.py c 0 other\"\n\
         d/*\n\tcommand=\"${AGENTS}/count.py d\"\n",
    );
    put_hosts(&site, "c", 25);
    let daemon = site.start();
    until_full(&site, &daemon, 3, " pend=>MaxChannel");
    assert!(
        site.mailq().vertices.iter().any(|vertex| vertex.text.contains("waiting for channel slot"))
    );
    // Another channel is served.
    site.put(&["d a.test u"]);
    until("the other channel is served", || site.events().count("count") == 1);
    finish(&site, &daemon, 4);
    let events = site.events();
    assert_eq!(events.deliveries().len(), 26);
    assert!(events.most_at_a_time(|event| event.agent != "d") <= 3);
    assert!(events.of("start").any(|event| event.agent == "zero"));
}

#[test]
fn maxring_counts_agents_of_a_clause() {
    let site = Site::new(
        "c/*.x\n\tmaxring=1 command=\"${AGENTS}/count.py c 0 x\"\n\
         c/*\n\tmaxring=2 command=\"${AGENTS}/count.py c 0 other\"\n",
    );
    put_hosts(&site, "c", 20);
    for host in ["a.x", "b.x", "c.x"] {
        site.put_quietly(&[&format!("c {host} wait!{host}")]);
    }
    let daemon = site.start();
    until_full(&site, &daemon, 3, " pend=>MaxRing");
    assert!(
        site.mailq().vertices.iter().any(|vertex| vertex.text.contains("waiting for thread slot"))
    );
    finish(&site, &daemon, 3);
    let events = site.events();
    assert_eq!(events.deliveries().len(), 23);
    assert_eq!(events.most_at_a_time(|event| event.agent == "x"), 1);
    assert_eq!(events.count("start"), 3, "a ring's agents go from thread to thread: {events:?}");
}

#[test]
fn maxthr_counts_agents_of_a_thread() {
    let site = Site::new("c/*\n\tmaxthr=2 overfeed=0 command=\"${AGENTS}/count.py c\"\n");
    for number in 0..40 {
        site.put_quietly(&[&format!("c a.test wait!{number}")]);
    }
    let daemon = site.start();
    until("two are at work", || site.events().count("take") == 2);
    site.put(&["c a.test wait!last"]);
    until("it is loaded", || site.mailq().vertices.len() == 41);
    assert_eq!(daemon.agents().len(), 2);
    finish(&site, &daemon, 2);
    let events = site.events();
    events.assert_once_each(
        (0..40)
            .map(|number| number.to_string())
            .chain(["last".to_string()])
            .map(|n| format!("wait!{n}")),
    );
    // Both agents had jobs.
    assert_eq!(events.count("start"), 2);
}

#[test]
fn waiting_ring_gets_agent_while_another_is_busy() {
    const MESSAGES: usize = 500;
    let site = Site::new(
        "*/*\n\tmaxta=2\n\
         a/*\n\tcommand=\"${AGENTS}/count.py a 0.1\"\n\
         b/*\n\tcommand=\"${AGENTS}/count.py b\"\n",
    );
    for number in 0..MESSAGES {
        site.put_quietly(&[&format!("a h{}.test u{number}", number % 4)]);
    }
    let _daemon = site.start();
    until("both agents are busy", || site.events().count("start") == 2);
    until("they have begun", || site.events().count("tag") > 2);
    site.put(&["b quiet.test waiting"]);
    let is_of = |name: &'static str| move |event: &&Event| event.agent == name;
    until("the other ring has had an agent", || {
        site.events().of("count").any(|event| event.agent == "b")
    });
    let events = site.events();
    let delivered = events.of("count").filter(is_of("a")).count();
    assert!(delivered < MESSAGES, "only when the first ring had nothing left");
    let agents = events.of("start").filter(is_of("a")).count();
    assert!(agents <= 4, "{agents} agents for {delivered} messages");
}

#[test]
fn missing_program_does_not_use_fork_rate() {
    let site = Site::new(
        "bad/*\n\tcommand=\"${SITE}/missing\"\n\
         good/*\n\tidlemax=1s command=\"${AGENTS}/count.py good\"\n",
    );
    for host in 0..100 {
        site.put_quietly(&[&format!("bad h{host}.test b{host}")]);
    }
    put_hosts(&site, "good", 10);
    site.write("go", "");
    let mut daemon = site.start_with(&["-R", "5"]);
    until("others are served", || site.events().count("count") == 10);
    until("failures are logged", || site.logged("could not be started: ") > 0);
    let failures = site.logged("could not be started: ");
    assert!((1..=20).contains(&failures), "{failures} failed starts: {}", site.log());
    let mut client = Client::local(&site, "postoffice/.scheduler.control");
    until("the reason is shown", || {
        let why = client.ask("SHOW WHY bad/h99.test");
        why.contains("those of its ring failed") && why.contains("missing")
    });
    daemon.until_log_is_complete();
    assert_eq!(site.logged("are started one at a time until one works"), 1);
    // Mail is delivered when the program exists.
    let program = format!(
        "#!/bin/sh\nexec {}/tests/data/integration/agents/count.py bad\n",
        zsched_tests::source().display()
    );
    site.write("missing", &program);
    allow(site.path("missing"), 0o755);
    site.until_empty();
    assert_eq!(site.events().deliveries().len(), 110);
    daemon.assert_runs();
}
