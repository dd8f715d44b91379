//! What becomes of each recipient if the peer misbehaves: step × misbehaviour × outcome.

use crate::peer::{Action, Peer, Script, say};
use crate::support::{agent_with, deliver, outcomes};
use std::time::Duration;
use zsched_smtp::dialer::ClientOptions;
use zsched_tests::RefusingPort;

const ANN: &str = "ann@b.test";
const BOB: &str = "bob@b.test";

const BOTH_DELIVERED: &str = "ann ok3, bob ok3";
/// The connection was lost before anything was decided.
const BOTH_LOST: &str = "ann deferred 4.4.2, bob deferred 4.4.2";
/// The host takes no mail.
const NO_HOST: &str = "ann deferall 4.4.2, bob deferall 4.4.2";
/// The peer does not speak the protocol.
const NO_SENSE: &str = "ann deferred 4.5.0, bob deferred 4.5.0";
const NO_SENSE_HOST: &str = "ann deferall 4.5.0, bob deferall 4.5.0";

/// How far the dialogue gets before the step that is tested.
#[derive(Clone, Debug, Default)]
struct Before {
    /// What the peer offers.
    offers: &'static [&'static str],
    script: Script,
    configuration: String,
    /// The message has 30 MB, more than the buffers of both ends.
    is_large: bool,
}

fn check(step: &str, action: Action, expected: &str) {
    for offers in [&[][..], &["PIPELINING"], &["PIPELINING", "SIZE", "DSN", "8BITMIME"]] {
        check_after(&Before { offers, ..Before::default() }, step, action.clone(), expected);
    }
}

fn check_after(before: &Before, step: &str, action: Action, expected: &str) {
    let offers = before.offers.iter().map(ToString::to_string).collect();
    let script = Script { offers, ..before.script.clone() }.on(step, action.clone());
    let peer = Peer::start(script);
    let needs_wait = matches!(action, Action::Stall | Action::Block | Action::SayEarly(..));
    let limit = needs_wait.then_some(Duration::from_millis(300));
    let body = match before.is_large {
        true => format!("{}\n", "x".repeat(70)).repeat(420_000),
        false => "Hello\n".to_string(),
    };
    let mut agent = agent_with(&before.configuration, ClientOptions::default(), limit);
    let run = deliver(&mut agent, &peer.host(), &[ANN, BOB], &body);
    let found = outcomes(&run, &[ANN, BOB]);
    let case = format!("{step} {action:?} {:?}", before.offers);
    assert_eq!(found, expected, "{case}: {:?}", run.reports);
    let tag = |user: &str| run.tag(&format!("{user}@b.test"));
    for (user, word) in found.split(", ").map(|one| one.split_once(' ').expect("a word")) {
        let expected = match word.split(' ').next() {
            Some("ok3") => '+',
            Some("error2") => '-',
            _ => ' ',
        };
        assert_eq!(tag(user), expected, "{case}");
    }
    // The agent lives, and delivers the next message to a peer without faults.
    let has_tls = before.offers.contains(&"STARTTLS");
    let tls = has_tls.then(|| crate::tls::certificate().0);
    let good = Peer::start(Script { tls, ..Script::offering(before.offers) });
    let run = deliver(&mut agent, &good.host(), &[ANN, BOB], "Hello\n");
    assert_eq!(outcomes(&run, &[ANN, BOB]), BOTH_DELIVERED, "after {case}");
}

#[test]
fn closed_connection_defers_at_each_step() {
    for (step, expected) in [
        ("GREETING", NO_HOST),
        ("EHLO", NO_HOST),
        ("MAIL", BOTH_LOST),
        ("RCPT To:<ann", BOTH_LOST),
        ("RCPT To:<bob", BOTH_LOST),
        ("DATA", BOTH_LOST),
        ("CONTENT", BOTH_LOST),
        (".", BOTH_LOST),
        ("QUIT", BOTH_DELIVERED),
    ] {
        let action = if step == "CONTENT" { Action::CloseWithin(1) } else { Action::Close };
        check(step, action, expected);
    }
}

#[test]
fn silent_peer_defers_at_each_step() {
    for (step, expected) in [
        ("GREETING", NO_HOST),
        ("EHLO", NO_HOST),
        ("MAIL", BOTH_LOST),
        ("RCPT To:<bob", BOTH_LOST),
        ("DATA", BOTH_LOST),
        (".", BOTH_LOST),
        ("QUIT", BOTH_DELIVERED),
    ] {
        check(step, Action::Stall, expected);
    }
}

#[test]
fn junk_defers_at_each_step() {
    for junk in ["no code", "2", "250:x", "199 x", "600 x", "250-a\n251 b", "\u{1}\u{2}", ""] {
        for (step, expected) in [
            ("GREETING", NO_SENSE_HOST),
            ("EHLO", NO_SENSE_HOST),
            ("MAIL", NO_SENSE),
            ("RCPT To:<bob", NO_SENSE),
            ("DATA", NO_SENSE),
            (".", NO_SENSE),
        ] {
            check(step, say(junk), expected);
        }
    }
}

#[test]
fn endless_replies_defer() {
    for action in [Action::Flood, Action::LongLine] {
        for (step, expected) in [("GREETING", NO_SENSE_HOST), ("MAIL", NO_SENSE), (".", NO_SENSE)] {
            check(step, action.clone(), expected);
        }
    }
}

#[test]
fn unexpected_positive_replies_deliver_nothing() {
    for (step, reply, expected) in [
        ("GREETING", "250 hello", "ann deferall 4.3.2, bob deferall 4.3.2"),
        ("MAIL", "354 go on", NO_SENSE),
        ("RCPT To:<bob", "354 go on", "ann ok3, bob deferred 4.5.0"),
        ("DATA", "250 ok", NO_SENSE),
        (".", "354 go on", NO_SENSE),
    ] {
        check(step, say(reply), expected);
    }
}

#[test]
fn replies_become_outcomes_of_the_recipients_they_concern() {
    for (step, reply, expected) in [
        ("GREETING", "554 no service", "ann deferall 4.3.2, bob deferall 4.3.2"),
        ("GREETING", "421 4.7.28 too fast", "ann deferall 4.7.28, bob deferall 4.7.28"),
        ("EHLO", "421 4.3.2 busy", "ann deferall 4.3.2, bob deferall 4.3.2"),
        ("MAIL", "450 4.7.1 later", "ann deferred 4.7.1, bob deferred 4.7.1"),
        ("MAIL", "550 5.7.1 not you", "ann error2 5.7.1, bob error2 5.7.1"),
        ("MAIL", "421 4.3.2 busy", "ann deferred 4.3.2, bob deferred 4.3.2"),
        ("RCPT To:<bob", "450 4.2.1 greylisted", "ann ok3, bob deferred 4.2.1"),
        ("RCPT To:<bob", "550 5.1.1 unknown", "ann ok3, bob error2 5.1.1"),
        ("RCPT To:<bob", "550-5.1.1 un\n550 5.1.1 known", "ann ok3, bob error2 5.1.1"),
        ("RCPT To:<bob", "550 unknown", "ann ok3, bob error2 5.0.0"),
        ("RCPT", "550 5.1.1 unknown", "ann error2 5.1.1, bob error2 5.1.1"),
        ("RCPT", "450 4.2.1 later", "ann deferred 4.2.1, bob deferred 4.2.1"),
        ("RCPT To:<bob", "421 4.3.2 going", "ann deferred 4.3.2, bob deferred 4.3.2"),
        ("RCPT To:<bob", "552 5.2.2 full", "ann ok3, bob error2 5.2.2"),
        ("DATA", "451 4.3.0 no", "ann deferred 4.3.0, bob deferred 4.3.0"),
        ("DATA", "554 5.6.0 no", "ann error2 5.6.0, bob error2 5.6.0"),
        ("DATA", "421 4.3.2 going", "ann deferred 4.3.2, bob deferred 4.3.2"),
        (".", "452 4.3.1 disk full", "ann deferred 4.3.1, bob deferred 4.3.1"),
        (".", "554 5.7.1 spam", "ann error2 5.7.1, bob error2 5.7.1"),
        (".", "421 4.3.2 going", "ann deferred 4.3.2, bob deferred 4.3.2"),
        ("QUIT", "500 what?", BOTH_DELIVERED),
    ] {
        check(step, say(reply), expected);
    }
}

#[test]
fn reply_that_closes_the_connection_counts() {
    for (step, reply, expected) in [
        ("GREETING", "421 busy", "ann deferall 4.3.2, bob deferall 4.3.2"),
        ("RCPT To:<bob", "421 4.3.2 going", "ann deferred 4.3.2, bob deferred 4.3.2"),
        (".", "250 2.0.0 ok", BOTH_DELIVERED),
        (".", "554 5.7.1 spam", "ann error2 5.7.1, bob error2 5.7.1"),
    ] {
        check(step, Action::SayAndClose(reply.to_string()), expected);
    }
}

/// A reply that comes before what it seems to answer decides nothing.
#[test]
fn early_replies_are_no_answers() {
    let early = "354 go\n250 2.6.0 accepted early";
    for end in ["554 5.7.1 no", "250 2.6.0 accepted"] {
        let script = Script::default().on("DATA", say(early)).on(".", say(end));
        let peer = Peer::start(script);
        let mut agent = agent_with("", ClientOptions::default(), None);
        let run = deliver(&mut agent, &peer.host(), &[ANN, BOB], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN, BOB]), NO_SENSE);
        assert!(peer.seen().messages.is_empty(), "the message was not sent");
    }
    let all = "250 peer\n250 ok\n250 ok\n250 ok\n354 go\n250 ok";
    check("EHLO", say(all), NO_SENSE);
}

/// A reply that comes while the message is sent is no acceptance, whatever it says.
#[test]
fn replies_within_the_message_never_deliver() {
    for offers in [&[][..], &["PIPELINING", "CHUNKING"]] {
        let before = Before { offers, is_large: true, ..Before::default() };
        for (reply, expected) in [
            ("250 2.6.0 accepted", NO_SENSE),
            ("250-2.6.0 accepted\n250 as it is", NO_SENSE),
            ("354 go on", NO_SENSE),
            ("451 4.3.0 no", "ann deferred 4.3.0, bob deferred 4.3.0"),
            ("552 5.3.4 too large", "ann error2 5.3.4, bob error2 5.3.4"),
            ("421 4.3.2 going", "ann deferred 4.3.2, bob deferred 4.3.2"),
        ] {
            check_after(&before, "CONTENT", Action::SayEarly(1, reply.to_string()), expected);
        }
        // The rest is never read, or in silence.
        check_after(&before, "CONTENT", Action::Block, BOTH_LOST);
        check_after(&before, "CONTENT", Action::Stall, BOTH_LOST);
        check_after(&before, "CONTENT", Action::CloseWithin(1_000_000), BOTH_LOST);
        check_after(&Before { offers, ..Before::default() }, "CONTENT", Action::Stall, BOTH_LOST);
    }
    // What LMTP says early is about the first recipient at most.
    let offers = &["PIPELINING"];
    let body = format!("{}\n", "x".repeat(70)).repeat(420_000);
    for (reply, expected) in [("250 ok\n250 ok", NO_SENSE), ("552 no", "bob error2 5.0.0")] {
        let action = Action::SayEarly(1, reply.to_string());
        let peer = Peer::start(Script::offering(offers).on("CONTENT", action));
        let options = ClientOptions { lmtp: true, ..ClientOptions::default() };
        let mut agent = agent_with("", options, Some(Duration::from_millis(300)));
        let run = deliver(&mut agent, &peer.host(), &[ANN, BOB], &body);
        let found = outcomes(&run, &[ANN, BOB]);
        assert!(found.contains(expected), "{found} {:?}", run.reports);
        assert!(found.contains("deferred 4.5.0"), "{found}");
    }
}

#[test]
fn chunks_are_answered_by_what_follows_them() {
    let before = Before { offers: &["PIPELINING", "CHUNKING"], ..Before::default() };
    for (step, action, expected) in [
        ("BDAT", Action::Close, BOTH_LOST),
        ("BDAT", Action::Stall, BOTH_LOST),
        ("BDAT", say("junk"), NO_SENSE),
        ("BDAT", Action::Flood, NO_SENSE),
        ("BDAT", say("354 go on"), NO_SENSE),
        ("BDAT", say("503 5.5.1 no"), "ann error2 5.5.1, bob error2 5.5.1"),
        ("BDAT", say("452 4.3.1 disk full"), "ann deferred 4.3.1, bob deferred 4.3.1"),
        ("BDAT", say("421 4.3.2 going"), "ann deferred 4.3.2, bob deferred 4.3.2"),
        ("CONTENT", Action::CloseWithin(1), BOTH_LOST),
        (".", Action::Close, BOTH_LOST),
        (".", Action::Stall, BOTH_LOST),
        (".", say("junk"), NO_SENSE),
        (".", say("354 go on"), NO_SENSE),
        (".", say("554 5.7.1 spam"), "ann error2 5.7.1, bob error2 5.7.1"),
        (".", say("452 4.3.1 disk full"), "ann deferred 4.3.1, bob deferred 4.3.1"),
        (".", say("421 4.3.2 going"), "ann deferred 4.3.2, bob deferred 4.3.2"),
        (".", Action::Trickle("250-2.6.0 all\n250 2.6.0 well".to_string()), BOTH_DELIVERED),
        (".", Action::SayAndClose("250 2.0.0 ok".to_string()), BOTH_DELIVERED),
        ("RCPT To:<bob", say("550 5.1.1 unknown"), "ann ok3, bob error2 5.1.1"),
        ("RCPT", say("550 5.1.1 unknown"), "ann error2 5.1.1, bob error2 5.1.1"),
    ] {
        check_after(&before, step, action.clone(), expected);
        let alone = Before { offers: &["CHUNKING"], ..Before::default() };
        check_after(&alone, step, action, expected);
    }
    let large = Before { is_large: true, ..before };
    check_after(&large, "BDAT", say("250 2.6.0 accepted"), NO_SENSE);
}

#[test]
fn refused_start_of_tls_is_the_answer_only_where_tls_is_required() {
    let offers = &["STARTTLS", "PIPELINING"];
    let busy = "ann deferall 4.3.2, bob deferall 4.3.2";
    let no_tls = "ann deferall 4.7.4, bob deferall 4.7.4";
    for (action, may, encrypt) in [
        (Action::Close, NO_HOST, NO_HOST),
        (Action::Stall, NO_HOST, NO_HOST),
        (Action::Flood, NO_SENSE_HOST, NO_SENSE_HOST),
        (Action::LongLine, NO_SENSE_HOST, NO_SENSE_HOST),
        (say("junk"), NO_SENSE_HOST, NO_SENSE_HOST),
        (say("454 4.7.0 later"), BOTH_DELIVERED, no_tls),
        (say("502 5.5.1 what?"), BOTH_DELIVERED, no_tls),
        (say("250 ok"), BOTH_DELIVERED, no_tls),
        (say("354 ok"), BOTH_DELIVERED, no_tls),
        (say("421 4.3.2 going"), busy, no_tls),
        (say("220 go ahead\n250 ok"), NO_SENSE_HOST, NO_SENSE_HOST),
    ] {
        let level = |level: &str| Before {
            offers,
            configuration: format!("[tls]\nlevel = \"{level}\"\n"),
            ..Before::default()
        };
        check_after(&level("may"), "STARTTLS", action.clone(), may);
        check_after(&level("encrypt"), "STARTTLS", action, encrypt);
    }
}

#[test]
fn authentication_that_fails_puts_off_the_host() {
    let password = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(password.path(), "secret\n").expect("it takes a line");
    let configuration = format!(
        "[[host]]\nuser = \"ann\"\npassword-file = \"{}\"\nauth-without-tls = true\n",
        password.path().display()
    );
    let offers = &["AUTH PLAIN"];
    for (action, expected) in [
        (Action::Close, NO_HOST),
        (Action::Stall, NO_HOST),
        (Action::Flood, NO_SENSE_HOST),
        (say("junk"), NO_SENSE_HOST),
        (say("235 2.7.0 ok\n250 more"), NO_SENSE),
        (say("235 2.7.0 ok"), BOTH_DELIVERED),
        (say("334 what?"), "ann deferall 4.7.0, bob deferall 4.7.0"),
        (say("454 4.7.0 later"), "ann deferall 4.7.0, bob deferall 4.7.0"),
        (say("535 5.7.8 no"), "ann deferall 4.7.8, bob deferall 4.7.8"),
        (say("421 4.3.2 going"), "ann deferall 4.3.2, bob deferall 4.3.2"),
    ] {
        let before = Before { offers, configuration: configuration.clone(), ..Before::default() };
        check_after(&before, "AUTH", action, expected);
    }
}

#[test]
fn refused_helo_puts_off_the_host() {
    let script = Script::default().on("EHLO", say("502 5.5.1 what?"));
    let before = Before { script, ..Before::default() };
    for (action, expected) in [
        (Action::Close, NO_HOST),
        (Action::Stall, NO_HOST),
        (Action::Flood, NO_SENSE_HOST),
        (Action::LongLine, NO_SENSE_HOST),
        (say("junk"), NO_SENSE_HOST),
        (say("250 hello"), BOTH_DELIVERED),
        (say("250-hello\n250 PIPELINING"), BOTH_DELIVERED),
        (say("354 hello"), "ann deferall 4.3.2, bob deferall 4.3.2"),
        (say("450 4.3.2 later"), "ann deferall 4.3.2, bob deferall 4.3.2"),
        (say("550 5.7.1 no"), "ann deferall 4.7.1, bob deferall 4.7.1"),
        (say("421 4.3.2 going"), "ann deferall 4.3.2, bob deferall 4.3.2"),
        (say("250 ok\n250 ok"), NO_SENSE),
    ] {
        check_after(&before, "HELO", action, expected);
    }
}

/// RSET comes before the transaction that follows a refused one; here that of ann.
#[test]
fn lost_reset_is_tried_in_a_new_session() {
    let both = |ann: &str| format!("ann {ann}, bob error2 5.1.1");
    for offers in [&[][..], &["PIPELINING"]] {
        let script = Script::default().on("RCPT To:<bob", say("550 5.1.1 unknown"));
        let configuration = "[session]\nrecipients = 1\n".to_string();
        let before = Before { offers, script, configuration, is_large: false };
        for (action, ann) in [
            (Action::Close, "ok3"),
            (Action::Stall, "deferred 4.4.2"),
            (Action::Flood, "deferred 4.5.0"),
            (Action::LongLine, "deferred 4.5.0"),
            (say("junk"), "deferred 4.5.0"),
            (say("250 ok"), "ok3"),
            (say("500 what?"), "ok3"),
            (say("354 what?"), "ok3"),
            (say("421 4.3.2 going"), "ok3"),
            (Action::SayAndClose("250 ok".to_string()), "ok3"),
        ] {
            check_after(&before, "RSET", action, &both(ann));
        }
    }
}

#[test]
fn replies_split_anywhere_are_read() {
    for (step, reply) in [
        ("GREETING", "220-peer.test\n220 ESMTP"),
        ("MAIL", "250-2.1.0 all\n250-2.1.0 is\n250 2.1.0 well"),
        (".", "250 2.6.0 accepted"),
    ] {
        check(step, Action::Trickle(reply.to_string()), BOTH_DELIVERED);
    }
}

#[test]
fn refusal_within_the_message_is_its_answer() {
    let peer = Peer::start(
        Script::offering(&[])
            .on("CONTENT", Action::SayWithin(1, "552 5.3.4 too large".to_string())),
    );
    let body = format!("{}\n", "x".repeat(70)).repeat(400_000);
    let mut agent = agent_with("", ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &[ANN], &body);
    // The reply can be lost with the connection; it is then no failure.
    let found = outcomes(&run, &[ANN]);
    assert!(["ann error2 5.3.4", "ann deferred 4.4.2"].contains(&&*found), "{found}");
}

#[test]
fn refused_connection_puts_off_the_host() {
    let port = RefusingPort::connect();
    let host = format!("[127.0.0.1]:{}", port.number());
    let mut agent = agent_with("", ClientOptions::default(), None);
    let run = deliver(&mut agent, &host, &[ANN, BOB], "Hello\n");
    assert_eq!(outcomes(&run, &[ANN, BOB]), "ann deferall 4.4.1, bob deferall 4.4.1");
    let report = run.report(ANN);
    assert!(report.text.contains("Connection refused"), "{report:?}");
    assert!(report.notary[4].starts_with("X-IP-addr; [127.0.0.1] (127.0.0.1|"), "{report:?}");
}

#[test]
fn old_server_is_greeted_with_helo() {
    let peer = Peer::start(Script::default().on("EHLO", say("502 5.5.1 what?")));
    let mut agent = agent_with("", ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
    assert_eq!(
        peer.seen().commands,
        [
            "EHLO client.test",
            "HELO client.test",
            "MAIL From:<alice@a.test>",
            "RCPT To:<ann@b.test>",
            "DATA",
        ]
    );
}

#[test]
fn unsafe_addresses_never_reach_the_line() {
    let peer = Peer::start(Script::offering(&["PIPELINING"]));
    let mut agent = agent_with("", ClientOptions::default(), None);
    for address in ["a>b@b.test", "a\rRSET@b.test", "\u{7f}@b.test"] {
        let run = deliver(&mut agent, &peer.host(), &[address, ANN], "Hello\n");
        assert_eq!(run.report(address).status, "error2", "{address:?}");
        assert_eq!(run.report(ANN).status, "ok3", "{address:?}");
    }
    assert!(peer.seen().commands.iter().all(|command| !command.contains("RSET")));
}

#[test]
fn diagnostics_of_a_recipient_name_no_other() {
    let users: Vec<String> = (0..4).map(|at| format!("secret{at}@b.test")).collect();
    let users: Vec<&str> = users.iter().map(|user| &**user).collect();
    let configuration = "[session]\nrecipients = 2\n[[reply-patterns]]\nname = \"rate\"\n\
                         pattern = '4\\.7\\.28'\naction = \"defer-host\"\n";
    for (step, action) in [
        ("RCPT To:<secret2", say("421 4.3.2 going")),
        ("RCPT To:<secret3", say("450 4.7.28 rate")),
        ("RCPT To:<secret2", Action::Close),
        (".", Action::Close),
        (".", say("554 5.7.1 no")),
    ] {
        let peer = Peer::start(Script::offering(&["PIPELINING"]).on(step, action.clone()));
        let mut agent = agent_with(configuration, ClientOptions::default(), None);
        let run = deliver(&mut agent, &peer.host(), &users, "Hello\n");
        for report in &run.reports {
            let all = format!("{report:?} {:?}", run.notes.iter().find(|n| n.user == report.user));
            let names_other = users.iter().any(|user| *user != report.user && all.contains(user));
            assert!(!names_other, "{step} {action:?}: {all}");
        }
    }
}
