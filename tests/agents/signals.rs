//! Ending: by signal, at the end of input, and when the scheduler is gone.

use crate::support::{Agent, DISCARD, HOLD, MAILBOX, Spool, control_file, wait_until};
use std::fs;

/// A spool with a message for bob, whose mailbox is locked: an agent that delivers it has to wait
/// until the lock is removed.
fn spool_with_work() -> Spool {
    let spool = Spool::new();
    for name in ["7", "8"] {
        let control = control_file(name, "local - a@x", &["local bob bob@x"]);
        spool.put(name, &control, "body\n");
    }
    spool.write("mail/bob.lock", "");
    spool
}

/// An agent that works on message 7, with message 8 waiting.
fn agent_at_work(spool: &Spool) -> Agent {
    let mail = spool.mail();
    let mut agent = Agent::start(spool, MAILBOX, &["-u", "-d", &mail]);
    agent.hear("#hungry");
    agent.tell("7\tbob\n8\tbob\n");
    wait_until("the agent works", || spool.lines("7", 'r')[0].starts_with("r~"));
    agent
}

/// The signals that end an agent. Whoever runs the tests may have them ignore some, as `nohup` does, and a
/// shell with what it starts in the background.
fn signals() -> impl Iterator<Item = &'static str> {
    let all = [
        (libc::SIGHUP, "HUP"),
        (libc::SIGINT, "INT"),
        (libc::SIGTERM, "TERM"),
        (libc::SIGQUIT, "QUIT"),
    ];
    all.into_iter().filter(|(signal, _)| !zsched::sys::is_ignored(*signal)).map(|(_, name)| name)
}

fn unlock(spool: &Spool) {
    fs::remove_file(spool.path("mail/bob.lock")).expect("unlock");
}

#[test]
fn a_signal_ends_an_idle_agent_at_once() {
    for signal in signals() {
        for program in [DISCARD, HOLD, MAILBOX] {
            let spool = Spool::new();
            let mut agent = Agent::start(&spool, program, &[]);
            agent.hear("#hungry");
            agent.signal(signal);
            assert_eq!(agent.wait().code(), Some(0), "{signal}");
        }
    }
}

#[test]
fn a_signal_ends_a_working_agent_after_its_job() {
    for signal in signals() {
        let spool = spool_with_work();
        let agent = agent_at_work(&spool);
        agent.signal(signal);
        unlock(&spool);
        let (answers, status) = agent.end();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(answers.contains("\tok3 "), "{signal}: {answers}");
        assert!(spool.lines("7", 'r')[0].starts_with("r+ "), "{signal}");
        assert!(spool.lines("8", 'r')[0].starts_with("r  "), "{signal}");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let spool = Spool::new();
    let mut agent = Agent::start_after(&spool, "trap '' HUP QUIT", HOLD, &[]);
    agent.hear("#hungry");
    agent.signal("HUP");
    agent.signal("QUIT");
    agent.tell("#idle\n");
    agent.hear("#hungry");
    agent.signal("TERM");
    assert_eq!(agent.wait().code(), Some(0));
}

#[test]
fn the_end_of_input_lets_complete_orders_through() {
    let spool = spool_with_work();
    let mut agent = agent_at_work(&spool);
    agent.stop_talking();
    unlock(&spool);
    let (answers, status) = agent.end();
    assert!(status.success());
    assert_eq!(answers.matches("\tok3 ").count(), 2, "{answers}");
    assert!(spool.lines("8", 'r')[0].starts_with("r+ "));
}

#[test]
fn without_a_scheduler_the_job_at_hand_is_finished() {
    let spool = spool_with_work();
    let agent = agent_at_work(&spool);
    unlock(&spool);
    assert!(agent.abandon().success());
    assert!(spool.lines("7", 'r')[0].starts_with("r+ "));
    assert!(spool.lines("8", 'r')[0].starts_with("r  "));
    assert_eq!(spool.names("mail"), ["bob"]);
}
