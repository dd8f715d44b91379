//! Ends of agents: by signal, at the end of input, and without a scheduler.

use crate::support::{Agent, DISCARD, HOLD, MAILBOX, Spool, control_file, wait_until};
use std::fs;

/// Creates a spool with messages for bob, whose mailbox is locked.
///
/// An agent that delivers them waits until the lock is removed.
fn spool_with_work() -> Spool {
    let spool = Spool::new();
    for name in ["7", "8"] {
        let control = control_file(name, "local - a@x", &["local bob bob@x"]);
        spool.put(name, &control, "body\n");
    }
    spool.write("mail/bob.lock", "");
    spool
}

/// Starts an agent that works on message 7, with message 8 waiting.
fn agent_at_work(spool: &Spool) -> Agent {
    let mail = spool.mail();
    let mut agent = Agent::start(spool, MAILBOX, &["-u", "-d", &mail]);
    agent.read_until("#hungry");
    agent.send("7\tbob\n8\tbob\n");
    wait_until("the agent works", || spool.lines("7", 'r')[0].starts_with("r~"));
    agent
}

/// Returns the signals that end an agent and are not ignored.
///
/// The tests inherit ignored signals, for example from `nohup` or from a shell that runs them in
/// the background.
fn signals() -> impl Iterator<Item = &'static str> {
    let all = [
        (libc::SIGHUP, "HUP"),
        (libc::SIGINT, "INT"),
        (libc::SIGTERM, "TERM"),
        (libc::SIGQUIT, "QUIT"),
    ];
    all.into_iter().filter(|(signal, _)| !zsched_sys::is_ignored(*signal)).map(|(_, name)| name)
}

fn unlock(spool: &Spool) {
    fs::remove_file(spool.path("mail/bob.lock")).expect("unlock");
}

#[test]
fn signal_ends_idle_agent_at_once() {
    for signal in signals() {
        for program in [DISCARD, HOLD, MAILBOX] {
            let spool = Spool::new();
            let mut agent = Agent::start(&spool, program, &[]);
            agent.read_until("#hungry");
            agent.signal(signal);
            assert_eq!(agent.wait().code(), Some(0), "{signal}");
        }
    }
}

#[test]
fn signal_during_wait_for_mailbox_ends_agent_without_report() {
    for signal in signals() {
        let spool = spool_with_work();
        let before = (spool.read("transport/7"), spool.read("transport/8"));
        let mut agent = agent_at_work(&spool);
        agent.signal(signal);
        // The mailbox stays locked.
        assert_eq!(agent.wait().code(), Some(0), "{signal}");
        assert_eq!(agent.end().0, "", "{signal}");
        assert_eq!((spool.read("transport/7"), spool.read("transport/8")), before, "{signal}");
        assert_eq!(spool.names("mail"), ["bob.lock"], "{signal}");
    }
}

#[test]
fn signal_within_large_job_ends_agent_after_current_recipient() {
    const RECIPIENTS: usize = 20_000;
    for signal in signals() {
        let spool = Spool::new();
        let recipients: Vec<String> = (0..RECIPIENTS).map(|n| format!("hold h u{n}")).collect();
        let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
        let control = control_file("7", "local - a@x", &recipients);
        spool.put("7", &control, "body\n");
        let mut agent = Agent::start(&spool, HOLD, &[]);
        agent.send("7\th\n");
        // The agent cannot get far, since its reports do not all fit into the socket.
        agent.read_until("7/");
        agent.signal(signal);
        let (answers, status) = agent.end();
        assert_eq!(status.code(), Some(0), "{signal}");
        let reported = answers.lines().count();
        assert!(reported < RECIPIENTS / 2, "{signal}: {reported}");
        assert!(answers.lines().all(|line| line.contains("\tdeferred ")), "{signal}: {answers}");
        assert_eq!(spool.read("transport/7"), control, "{signal}");
    }
}

#[test]
fn signal_does_not_interrupt_delivery() {
    let spool = Spool::new();
    let control = control_file("7", "local - a@x", &["local ann ann@x", "local ann eve@x"]);
    spool.put("7", &control, &"line\n".repeat(1_000_000));
    let mail = spool.mail();
    let mut agent = Agent::start(&spool, MAILBOX, &["-u", "-d", &mail]);
    agent.send("7\tann\n");
    let locked = |user: &str| spool.path(&format!("mail/{user}")).exists();
    wait_until("the first letter is being written", || locked("eve"));
    agent.signal("TERM");
    let (answers, status) = agent.end();
    assert_eq!(status.code(), Some(0));
    // A recipient has a tag if and only if it has its message.
    let lines = spool.lines("7", 'r');
    for (line, user) in lines.iter().zip(["ann", "eve"]) {
        assert!(!line.starts_with("r~"), "{line}");
        let path = spool.path(&format!("mail/{user}"));
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        assert_eq!(line.starts_with("r+"), length > 5_000_000, "{line}: {length}, {answers}");
        assert!(length == 0 || length > 5_000_000, "{user}: {length}");
    }
}

#[test]
fn inherited_ignored_signal_stays_ignored() {
    let spool = Spool::new();
    let mut agent = Agent::start_after(&spool, "trap '' HUP QUIT", HOLD, &[]);
    agent.read_until("#hungry");
    agent.signal("HUP");
    agent.signal("QUIT");
    agent.send("#idle\n");
    agent.read_until("#hungry");
    agent.signal("TERM");
    assert_eq!(agent.wait().code(), Some(0));
}

#[test]
fn orders_before_end_of_input_are_carried_out() {
    let spool = spool_with_work();
    let mut agent = agent_at_work(&spool);
    agent.close_input();
    unlock(&spool);
    let (answers, status) = agent.end();
    assert!(status.success());
    assert_eq!(answers.matches("\tok3 ").count(), 2, "{answers}");
    assert!(spool.lines("8", 'r')[0].starts_with("r+ "));
}

#[test]
fn agent_without_scheduler_finishes_current_job() {
    let spool = spool_with_work();
    let agent = agent_at_work(&spool);
    assert!(agent.disconnect(|| unlock(&spool)).success());
    assert!(spool.lines("7", 'r')[0].starts_with("r+ "));
    assert!(spool.lines("8", 'r')[0].starts_with("r  "));
    assert_eq!(spool.names("mail"), ["bob"]);
}
