//! Extensions: what is said in MAIL and RCPT, and what happens without them.

use crate::peer::{Peer, Script, say};
use crate::support::{SENDER, agent, agent_with, control_file, deliver, deliver_file, outcomes};
use zsched_smtp::dialer::ClientOptions;

const ANN: &str = "ann@b.test";
const ALL: [&str; 9] = [
    "PIPELINING",
    "SIZE 1000000",
    "8BITMIME",
    "SMTPUTF8",
    "DSN",
    "ENHANCEDSTATUSCODES",
    "DELIVERBY 60",
    "MT-PRIORITY MIXER",
    "LIMITS RCPTMAX=2",
];

/// The commands of a peer after EHLO.
fn dialogue(peer: &Peer) -> Vec<String> {
    let commands = peer.seen().commands;
    commands.into_iter().skip_while(|command| !command.starts_with("MAIL")).collect()
}

#[test]
fn dsn_parameters_are_carried() {
    let peer = Peer::start(Script::offering(&ALL));
    let file = control_file(
        &peer.host(),
        SENDER,
        &["ann@b.test | NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;ann+2Bx@b.test"],
    );
    let file = file.replace("m\nSubject", "R FULL\nn live-ENV\nm\nSubject");
    let run = deliver_file(&mut agent(), &file, "Hello\n");
    let size = "Subject: test\r\n\r\nHello\r\n".len();
    assert_eq!(
        dialogue(&peer)[..2],
        [
            format!("MAIL From:<alice@a.test> SIZE={size} ENVID=live-ENV RET=FULL"),
            "RCPT To:<ann@b.test> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;ann+2Bx@b.test".to_string(),
        ]
    );
    // The peer reports the success.
    assert_eq!((&*run.report(ANN).status, run.notes.len()), ("ok3", 0));
}

#[test]
fn success_is_relayed_without_dsn() {
    let peer = Peer::start(Script::offering(&["PIPELINING"]));
    let file = control_file(&peer.host(), SENDER, &["ann@b.test | NOTIFY=SUCCESS"]);
    let run = deliver_file(&mut agent(), &file, "Hello\n");
    assert_eq!(dialogue(&peer)[..2], ["MAIL From:<alice@a.test>", "RCPT To:<ann@b.test>"]);
    // The agent notes that the message was relayed; the scheduler reports it.
    assert_eq!(run.report(ANN).status, "ok2");
    assert_eq!(run.notes[0].notary[1], "relayed");
}

#[test]
fn message_that_the_server_cannot_take_fails() {
    for (offers, sender, user, body, status) in [
        (&["SIZE 10"][..], SENDER, ANN, "Hello\n", "5.3.4"),
        (&["SIZE 0"], SENDER, ANN, "Hello\n", ""),
        (&[], SENDER, ANN, "Grüße\n", "5.6.3"),
        (&["8BITMIME"], SENDER, ANN, "Grüße\n", ""),
        (&["8BITMIME"], SENDER, "änn@b.test", "Hello\n", "5.6.7"),
        (&["8BITMIME", "SMTPUTF8"], SENDER, "änn@b.test", "Hello\n", ""),
        (&[], SENDER, "ann@b.test | BY=100000000;R", "Hello\n", "5.3.3"),
        (&["DELIVERBY"], SENDER, "ann@b.test | BY=100000000;R", "Hello\n", ""),
        (&[], "s error <> <> 0", ANN, "Hello\n", ""),
    ] {
        let peer = Peer::start(Script::offering(offers));
        let run = deliver_file(&mut agent(), &control_file(&peer.host(), sender, &[user]), body);
        let user = user.split(' ').next().unwrap();
        let found = outcomes(&run, &[user]);
        match status {
            "" => assert!(found.ends_with(" ok3"), "{offers:?}: {found} {:?}", run.reports),
            _ => assert!(found.ends_with(&format!(" error2 {status}")), "{offers:?}: {found}"),
        }
    }
}

#[test]
fn parameters_follow_from_the_message() {
    let peer = Peer::start(Script::offering(&ALL));
    let file = control_file(&peer.host(), SENDER, &["änn@b.test | BY=100000000;NT"]);
    let file = file.replace("Subject", "MT-Priority: 3\nSubject");
    let run = deliver_file(&mut agent(), &file, "Grüße\n");
    assert_eq!(run.report("änn@b.test").status, "ok3");
    let mail = &dialogue(&peer)[0];
    for word in [" BODY=8BITMIME", " SMTPUTF8", " MT-PRIORITY=3", ";NT"] {
        assert!(mail.contains(word), "{word}: {mail}");
    }
}

#[test]
fn address_that_needs_smtputf8_fails_alone() {
    let peer = Peer::start(Script::offering(&["PIPELINING", "8BITMIME"]));
    let users = [ANN, "änn@b.test", "bob@b\u{fc}cher.test", "eve@b.test"];
    let run = deliver(&mut agent(), &peer.host(), &users, "Hello\n");
    let expected = "ann ok3, änn error2 5.6.7, bob ok3, eve ok3";
    assert_eq!(outcomes(&run, &users), expected, "{:?}", run.reports);
    let commands = dialogue(&peer);
    assert!(commands.contains(&"RCPT To:<bob@xn--bcher-kva.test>".to_string()), "{commands:?}");
    // Where it is offered, the address stays as it is.
    let peer = Peer::start(Script::offering(&["SMTPUTF8"]));
    deliver(&mut agent(), &peer.host(), &users[2..3], "Hello\n");
    assert!(dialogue(&peer)[1].starts_with("RCPT To:<bob@b\u{fc}cher.test>"));
}

#[test]
fn eight_bit_option_sends_in_any_case() {
    let peer = Peer::start(Script::default());
    let options = ClientOptions { sends_8bit: true, ..ClientOptions::default() };
    let run = deliver(&mut agent_with("", options, None), &peer.host(), &[ANN], "Grüße\n");
    assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
}

#[test]
fn recipients_beyond_the_limit_go_on_in_the_next_transaction() {
    let users: Vec<String> = (0..5).map(|at| format!("u{at}@b.test")).collect();
    let users: Vec<&str> = users.iter().map(|user| &**user).collect();
    // Named by the server in advance.
    let peer = Peer::start(Script::offering(&ALL));
    let run = deliver(&mut agent(), &peer.host(), &users, "Hello\n");
    assert!(users.iter().all(|user| run.report(user).status == "ok3"));
    assert_eq!((peer.seen().messages.len(), peer.seen().sessions), (3, 1));
    // Found out by 452, or by 552 of old servers.
    for reply in ["452 4.5.3 too many", "452 too many", "552 too many"] {
        let script = Script::offering(&["PIPELINING"]).times(1, "RCPT To:<u1@", say(reply)).times(
            1,
            "RCPT To:<u3@",
            say(reply),
        );
        let peer = Peer::start(script);
        let run = deliver(&mut agent(), &peer.host(), &users, "Hello\n");
        let found = outcomes(&run, &users);
        assert!(users.iter().all(|user| run.report(user).status == "ok3"), "{reply}: {found}");
        assert_eq!((peer.seen().messages.len(), peer.seen().sessions), (2, 1));
    }
    // Without any accepted recipient it is an answer.
    let peer = Peer::start(Script::default().on("RCPT", say("452 4.5.3 too many")));
    let run = deliver(&mut agent(), &peer.host(), &users[..1], "Hello\n");
    assert_eq!(outcomes(&run, &users[..1]), "u0 deferred 4.5.3");
}

#[test]
fn extensions_that_are_switched_off_are_not_used() {
    let peer = Peer::start(Script::offering(&["CHUNKING", "PIPELINING", "SIZE", "DSN"]));
    let configuration =
        "[[host]]\ndestination = \"*127.0.0.1*\"\nwithout = [\"chunking\", \"SIZE\"]\n";
    let mut agent = agent_with(configuration, ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
    assert_eq!(dialogue(&peer), ["MAIL From:<alice@a.test>", "RCPT To:<ann@b.test>", "DATA"]);
}
