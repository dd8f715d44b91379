//! Replies that the operator gives a meaning (`reply-patterns`).

use crate::peer::{Peer, Script, say};
use crate::support::{agent_with, deliver, outcomes};
use zsched_smtp::dialer::ClientOptions;

const USERS: [&str; 2] = ["ann@b.test", "bob@b.test"];

#[test]
fn patterns_decide_about_replies() {
    for (action, step, reply, expected) in [
        (
            "\"defer-host\"",
            "RCPT To:<bob",
            "421 4.7.28 rate",
            "ann deferall 4.7.28, bob deferall 4.7.28",
        ),
        ("\"defer-host\"", "MAIL", "550 4.7.28 rate", "ann deferall 4.0.0, bob deferall 4.0.0"),
        (
            "\"suspend\"\ntime = \"30m\"",
            "RCPT To:<bob",
            "450 4.7.28 rate",
            "ann ok3, bob retryat 4.7.28",
        ),
        (
            "\"suspend\"\ntime = \"30m\"",
            "GREETING",
            "421 4.7.28 rate",
            "ann retryat 4.7.28, bob retryat 4.7.28",
        ),
        ("\"bounce\"", "EHLO", "451 4.7.28 rate", "ann error2 5.7.28, bob error2 5.7.28"),
        ("\"defer\"", "GREETING", "554 5.7.28 rate", "ann deferred 4.7.28, bob deferred 4.7.28"),
        ("\"bounce\"", "RCPT To:<bob", "450 4.7.28 rate", "ann ok3, bob error2 5.7.28"),
        ("\"defer\"", "RCPT To:<bob", "550 5.7.28 rate", "ann ok3, bob deferred 4.7.28"),
        ("\"defer\"", "RCPT To:<bob", "550 5.1.1 unknown", "ann ok3, bob error2 5.1.1"),
        (
            "\"slow-down\"\ntime = \"1s\"",
            "RCPT To:<bob",
            "450 4.7.28 rate",
            "ann ok3, bob deferred 4.7.28",
        ),
    ] {
        let peer = Peer::start(Script::offering(&["PIPELINING"]).on(step, say(reply)));
        let configuration =
            format!("[[reply-patterns]]\nname = \"rate\"\npattern = '7\\.28'\naction = {action}\n");
        let mut agent = agent_with(&configuration, ClientOptions::default(), None);
        let run = deliver(&mut agent, &peer.host(), &USERS, "Hello\n");
        assert_eq!(outcomes(&run, &USERS), expected, "{action} {reply}: {:?}", run.reports);
        if reply.contains("7.28") {
            // One reply is counted once, whatever the number of recipients.
            let is_note = |line: &&String| line.starts_with("reply pattern rate (");
            let notes: Vec<&String> = run.log.iter().filter(is_note).collect();
            assert_eq!(notes, [&format!("reply pattern rate (1): {reply}")], "{action} {step}");
        }
    }
}

#[test]
fn patterns_of_other_hosts_do_not_count() {
    let peer = Peer::start(Script::default().on("RCPT", say("450 4.7.28 rate")));
    let configuration = "[[reply-patterns]]\nname = \"rate\"\npattern = '7\\.28'\n\
                         hosts = \"*.example.com\"\naction = \"bounce\"\n";
    let mut agent = agent_with(configuration, ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &USERS, "Hello\n");
    assert_eq!(outcomes(&run, &USERS), "ann deferred 4.7.28, bob deferred 4.7.28");
}
