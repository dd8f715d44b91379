//! Connections that stay for the next job.

use crate::peer::{Action, Peer, Script, say};
use crate::support::{agent, agent_with, deliver, outcomes};
use zsched_smtp::dialer::ClientOptions;

const ANN: &str = "ann@b.test";

#[test]
fn next_job_of_the_host_uses_the_connection() {
    let peer = Peer::start(Script::offering(&["PIPELINING"]));
    let mut agent = agent();
    for _ in 0..5 {
        let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
    }
    assert_eq!((peer.seen().sessions, peer.seen().messages.len()), (1, 5));
    // Another host closes it.
    let other = Peer::start(Script::default());
    deliver(&mut agent, &other.host(), &[ANN], "Hello\n");
    peer.wait_for_quits(1);
    // So does a pause.
    agent.pause();
    other.wait_for_quits(1);
}

#[test]
fn failed_transaction_is_reset_before_the_next() {
    let peer =
        Peer::start(Script::offering(&["PIPELINING"]).times(1, "RCPT", say("550 5.1.1 unknown")));
    let mut agent = agent();
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    assert_eq!(outcomes(&run, &[ANN]), "ann error2 5.1.1");
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
    assert!(peer.seen().commands.contains(&"RSET".to_string()));
}

#[test]
fn connection_that_the_peer_has_closed_is_made_again() {
    for action in [
        Action::SayAndClose("250 2.6.0 accepted".to_string()),
        Action::SayAndClose("250 2.6.0 accepted\n421 4.3.2 idle too long".to_string()),
    ] {
        let peer = Peer::start(Script::offering(&["PIPELINING"]).on(".", action));
        let mut agent = agent();
        for _ in 0..3 {
            let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
            assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
        }
        assert_eq!(peer.seen().messages.len(), 3);
    }
    // The second MAIL of a connection is refused with 421, or ends it: nothing was sent yet.
    for action in [say("421 4.7.0 one message only"), Action::Close] {
        let script = Script::offering(&["PIPELINING"])
            .times(1, "MAIL", say("250 2.1.0 ok"))
            .times(1, "MAIL", action);
        let peer = Peer::start(script);
        let mut agent = agent();
        for _ in 0..2 {
            let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
            assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
        }
        assert_eq!((peer.seen().sessions, peer.seen().messages.len()), (2, 2));
    }
}

#[test]
fn limits_of_a_connection_are_kept() {
    let peer = Peer::start(Script::offering(&["LIMITS MAILMAX=2"]));
    let mut agent = agent();
    for _ in 0..4 {
        deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    }
    assert_eq!((peer.seen().sessions, peer.seen().messages.len()), (2, 4));
    let peer = Peer::start(Script::default());
    let mut agent = agent_with("[session]\nmessages = 1\n", ClientOptions::default(), None);
    for _ in 0..3 {
        deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    }
    assert_eq!(peer.seen().sessions, 3);
}

#[test]
fn reply_without_a_command_ends_the_connection() {
    let peer = Peer::start(Script::offering(&["PIPELINING"]).times(
        1,
        ".",
        say("250 2.6.0 accepted\n250 2.1.0 liar"),
    ));
    let mut agent = agent();
    for _ in 0..2 {
        let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
    }
    assert_eq!(peer.seen().sessions, 2);
}
