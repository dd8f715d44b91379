//! Which server of a host is tried after one that takes no mail now.

use crate::dns_server::{RunningDns, Zones};
use crate::peer::{Action, Peer, Script, say};
use crate::support::{agent_with, deliver, outcomes};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use zsched_smtp::dialer::ClientOptions;
use zsched_tests::RefusingPort;

const ANN: &str = "ann@d.example";
const BOB: &str = "bob@d.example";

/// Two exchangers on one port, the first on 127.0.0.2, the second on 127.0.0.3.
pub(crate) fn listeners() -> (TcpListener, TcpListener, u16) {
    loop {
        let first = TcpListener::bind("127.0.0.2:0").expect("a free port");
        let port = first.local_addr().expect("its address").port();
        if let Ok(second) = TcpListener::bind(("127.0.0.3", port)) {
            return (first, second, port);
        }
    }
}

fn dns() -> RunningDns {
    let example = "d MX 10 mx1.d\nd MX 20 mx2.d\nmx1.d A 127.0.0.2\nmx2.d A 127.0.0.3\n";
    RunningDns::start(&Zones { example: example.to_string(), ..Zones::default() })
}

/// What the first exchanger does, the outcomes, and if the second one has had a session.
type Case = (&'static str, Action, &'static str, bool);

fn check(dns: &RunningDns, (step, action, expected, moves): Case) {
    let (first, second, port) = listeners();
    let first = Peer::serve(first, Script::offering(&["PIPELINING"]).on(step, action.clone()));
    let second = Peer::serve(second, Script::offering(&["PIPELINING"]));
    let configuration = format!(
        "[dns]\nservers = [\"{}\"]\n[[reply-patterns]]\nname = \"rate\"\npattern = 'our rate'\n\
         action = \"defer-host\"\n",
        dns.address()
    );
    let mut agent = agent_with(&configuration, ClientOptions::default(), None);
    let host = format!("d.example:{port}");
    for _ in 0..2 {
        let run = deliver(&mut agent, &host, &[ANN, BOB], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN, BOB]), expected, "{step} {action:?}: {:?}", run.reports);
    }
    assert_eq!(second.seen().sessions > 0, moves, "{step} {action:?}");
    assert!(first.seen().sessions > 0);
    let expected_copies = if moves { 2 } else { 0 };
    assert_eq!(second.seen().messages.len(), expected_copies, "{step} {action:?}");
}

#[test]
fn next_exchanger_gets_what_the_first_puts_off() {
    const DELIVERED: &str = "ann ok3, bob ok3";
    let dns = dns();
    for case in [
        ("GREETING", say("421 4.3.2 busy"), DELIVERED, true),
        ("GREETING", say("554 5.3.2 no service"), DELIVERED, true),
        ("GREETING", Action::Close, DELIVERED, true),
        ("EHLO", say("451 4.3.0 later"), DELIVERED, true),
        ("EHLO", Action::Close, DELIVERED, true),
        ("MAIL", say("450 4.3.2 later"), DELIVERED, true),
        ("MAIL", say("421 4.3.2 going"), DELIVERED, true),
        ("MAIL", Action::Close, DELIVERED, true),
        ("RCPT To:<bob", say("421 4.3.2 going"), DELIVERED, true),
        ("DATA", say("451 4.3.0 no"), DELIVERED, true),
        (".", say("452 4.3.1 disk full"), DELIVERED, true),
        // Answers.
        ("MAIL", say("550 5.7.1 not you"), "ann error2 5.7.1, bob error2 5.7.1", false),
        ("RCPT To:<bob", say("450 4.2.1 greylisted"), "ann ok3, bob deferred 4.2.1", false),
        (".", say("554 5.7.1 spam"), "ann error2 5.7.1, bob error2 5.7.1", false),
        // The whole message was sent, and may have been taken.
        ("CONTENT", Action::CloseWithin(1), "ann deferred 4.4.2, bob deferred 4.4.2", false),
        (".", Action::Close, "ann deferred 4.4.2, bob deferred 4.4.2", false),
        // The operator has decided.
        ("GREETING", say("421 4.7.0 our rate"), "ann deferall 4.7.0, bob deferall 4.7.0", false),
        ("MAIL", say("450 4.7.0 our rate"), "ann deferall 4.7.0, bob deferall 4.7.0", false),
    ] {
        check(&dns, case);
    }
}

/// Patterns that put off a recipient, or ask for a pause, leave the message to the next exchanger.
#[test]
fn pattern_that_only_waits_is_no_end_of_the_exchangers() {
    let dns = dns();
    let password = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(password.path(), "secret\n").expect("it takes a line");
    for (step, reply) in [
        ("GREETING", "421 4.7.28 our rate"),
        ("EHLO", "451 4.7.28 our rate"),
        ("AUTH", "454 4.7.28 our rate"),
        ("STARTTLS", "421 4.7.28 our rate"),
        ("MAIL", "450 4.7.28 our rate"),
        (".", "451 4.7.28 our rate"),
    ] {
        for action in ["defer", "slow-down"] {
            let (first, second, port) = listeners();
            let offers = &["PIPELINING", "AUTH PLAIN", "STARTTLS"];
            let script = Script::offering(&offers[..2]);
            let offering =
                if step == "STARTTLS" { Script::offering(offers) } else { script.clone() };
            let first = Peer::serve(first, offering.on(step, say(reply)));
            let second = Peer::serve(second, script);
            let configuration = format!(
                "[dns]\nservers = [\"{}\"]\n[[host]]\nuser = \"ann\"\npassword-file = \"{}\"\n\
                 auth-without-tls = true\n[[reply-patterns]]\nname = \"rate\"\n\
                 pattern = 'our rate'\naction = \"{action}\"\ntime = \"1s\"\n",
                dns.address(),
                password.path().display()
            );
            let mut agent = agent_with(&configuration, ClientOptions::default(), None);
            let host = format!("d.example:{port}");
            let began = Instant::now();
            let run = deliver(&mut agent, &host, &[ANN, BOB], "Hello\n");
            let case = format!("{step} {action} {:?}", run.reports);
            assert_eq!(outcomes(&run, &[ANN, BOB]), "ann ok3, bob ok3", "{case}");
            let note = format!("reply pattern rate (1): {reply}");
            assert!(run.log.contains(&note), "{case} {:?}", run.log);
            // The pause is before the next message.
            let run = deliver(&mut agent, &host, &[ANN], "Hello\n");
            assert_eq!(outcomes(&run, &[ANN]), "ann ok3", "{case}");
            assert_eq!(second.seen().messages.len(), 2, "{case}");
            if action == "slow-down" {
                assert!(began.elapsed() >= Duration::from_secs(1), "{case}");
                assert_eq!(first.seen().sessions, 2, "{case}");
            }
        }
    }
}

#[test]
fn answer_of_the_first_exchanger_counts_if_no_other_is_reached() {
    let dns = dns();
    for (step, reply, expected) in [
        ("GREETING", "421 4.3.2 busy", "ann deferall 4.4.1"),
        ("MAIL", "450 4.7.1 later", "ann deferred 4.7.1"),
        ("DATA", "451 4.3.0 later", "ann deferred 4.3.0"),
    ] {
        let (first, second, port) = listeners();
        drop(second);
        let first = Peer::serve(first, Script::default().on(step, say(reply)));
        let configuration = format!("[dns]\nservers = [\"{}\"]\n", dns.address());
        let mut agent = agent_with(&configuration, ClientOptions::default(), None);
        let run = deliver(&mut agent, &format!("d.example:{port}"), &[ANN], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), expected, "{step}: {:?}", run.reports);
        assert_eq!(first.seen().sessions, 1);
    }
}

#[test]
fn sessions_of_a_message_are_limited() {
    let dns = dns();
    for (limit, sessions) in [(1, (1, 0)), (2, (1, 1))] {
        let (first, second, port) = listeners();
        let busy = || Script::default().on("MAIL", say("450 4.7.1 later"));
        let (first, second) = (Peer::serve(first, busy()), Peer::serve(second, busy()));
        let configuration = format!(
            "[dns]\nservers = [\"{}\"]\n[routing]\nmax-sessions = {limit}\n",
            dns.address()
        );
        let mut agent = agent_with(&configuration, ClientOptions::default(), None);
        let run = deliver(&mut agent, &format!("d.example:{port}"), &[ANN], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), "ann deferred 4.7.1");
        assert_eq!((first.seen().sessions, second.seen().sessions), sessions);
    }
}

#[test]
fn fallback_gets_what_no_server_of_the_destination_takes() {
    let relay = Peer::start(Script::offering(&["PIPELINING"]));
    let refusing = RefusingPort::connect();
    let unreachable = format!("[127.0.0.1]:{}", refusing.number());
    let busy = Peer::start(Script::default().on("MAIL", say("451 4.3.0 later")));
    let strict = Peer::start(Script::default().on("MAIL", say("550 5.7.1 not you")));
    let configuration = |next_hop: &str| {
        format!(
            "[[routing.smarthost]]\ndestination = \"*\"\n{next_hop}fallback = [\"{unreachable}\", \
             \"{}\"]\n",
            relay.host()
        )
    };
    let smarthost = format!("next-hop = \"{}\"\n", busy.host());
    for (host, next_hop, expected, count) in [
        (unreachable.clone(), "", "ann ok3", 1),
        (busy.host(), "", "ann ok3", 2),
        ("[192.0.2.1]".to_string(), &*smarthost, "ann ok3", 3),
        (strict.host(), "", "ann error2 5.7.1", 3),
    ] {
        let options = ClientOptions::default();
        let mut agent = agent_with(&configuration(next_hop), options, None);
        let run = deliver(&mut agent, &host, &[ANN], "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), expected, "{host}: {:?}", run.reports);
        assert_eq!(relay.seen().messages.len(), count, "{host}");
    }
}
