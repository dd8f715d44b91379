//! AUTH, with credentials of a host rule.

use crate::peer::{Peer, Script, say};
use crate::support::{agent_with, deliver, outcomes};
use std::io::Write;
use zsched_mailq_protocol::scram::{self, ClientFirst, StoredPassword};
use zsched_smtp::dialer::ClientOptions;
use zsched_smtp::session::{
    Credentials, Dialogue, Handshake, HandshakeOptions, Reply, ReplyParser, Step,
};

const ANN: &str = "ann@b.test";

/// Delivers with a user and a password, and returns the outcome and the commands from AUTH on.
fn authenticate(script: Script, more: &str) -> (String, Vec<String>) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "secret").expect("it takes a line");
    let configuration = format!(
        "[[host]]\nuser = \"alice\"\npassword-file = \"{}\"\n{more}\n",
        file.path().display()
    );
    let peer = Peer::start(script);
    let mut agent = agent_with(&configuration, ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    let commands = peer.seen().commands.into_iter();
    let is_before = |command: &String| !command.starts_with("MAIL") && command != "QUIT";
    (outcomes(&run, &[ANN]), commands.skip(1).take_while(is_before).collect())
}

#[test]
fn passwords_are_not_sent_without_tls() {
    let plain = || Script::offering(&["AUTH PLAIN LOGIN"]);
    let (found, commands) = authenticate(plain(), "");
    assert_eq!((&*found, commands), ("ann deferall 4.7.0", Vec::new()));
    let (found, commands) = authenticate(plain(), "auth-without-tls = true");
    assert_eq!(found, "ann ok3");
    assert_eq!(commands, ["AUTH PLAIN AGFsaWNlAHNlY3JldA=="]);
}

#[test]
fn mechanisms_answer_challenges() {
    let login = Script::offering(&["AUTH=LOGIN"])
        .on("AUTH LOGIN", say("334 VXNlcm5hbWU6"))
        .on("YWxpY2U=", say("334 UGFzc3dvcmQ6"));
    let (found, commands) = authenticate(login, "auth-without-tls = true");
    assert_eq!(found, "ann ok3");
    assert_eq!(commands, ["AUTH LOGIN", "YWxpY2U=", "c2VjcmV0"]);
    let token = Script::offering(&["AUTH XOAUTH2 PLAIN"]);
    let more = "auth-without-tls = true\nmechanisms = [\"XOAUTH2\"]";
    let (found, commands) = authenticate(token, more);
    assert_eq!(found, "ann ok3");
    assert_eq!(commands, ["AUTH XOAUTH2 dXNlcj1hbGljZQFhdXRoPUJlYXJlciBzZWNyZXQBAQ=="]);
}

#[test]
fn scram_needs_no_tls_and_finds_a_false_server() {
    let script = Script::offering(&["AUTH PLAIN SCRAM-SHA-256"])
        .on("AUTH SCRAM-SHA-256", say("334 cj1ub25jZSxzPWFiYyxpPTQwOTY="));
    let (found, commands) = authenticate(script, "");
    // The nonce is not that of the client.
    assert_eq!(found, "ann deferall 4.7.0");
    assert!(commands[0].starts_with("AUTH SCRAM-SHA-256 "), "{commands:?}");
    // It has not shown that it knows the password.
    let script = Script::offering(&["AUTH SCRAM-SHA-256"]).on("AUTH", say("235 2.7.0 welcome"));
    assert_eq!(authenticate(script, "").0, "ann deferall 4.7.0");
}

/// Another implementation of SCRAM is the server.
#[test]
fn scram_logs_in_where_both_know_the_password() {
    for (password, is_known) in [("secret", true), ("other", false)] {
        let credentials = Credentials {
            user: "alice".to_string(),
            password: "secret".to_string(),
            mechanisms: Vec::new(),
            without_tls: false,
        };
        let options = HandshakeOptions {
            hello_name: "client.test".to_string(),
            credentials: Some(credentials),
            ..HandshakeOptions::default()
        };
        let mut handshake = Handshake::new(options);
        let mut server = None;
        let mut reply = Reply::new(220, "mx.test ESMTP");
        let last = loop {
            assert!(matches!(handshake.step(), Step::Receive(_)));
            handshake.on_reply(reply);
            let Step::Send(line) = handshake.step() else { break handshake.step() };
            let line = String::from_utf8(line).expect("a text");
            let message = line.trim().rsplit(' ').next().expect("a word");
            let challenge = |text: String| Reply::new(334, &text);
            reply = match (&server, message) {
                (None, "client.test") => {
                    let mut parser = ReplyParser::default();
                    parser.push(b"250-mx.test\r\n250 AUTH SCRAM-SHA-256\r\n");
                    parser.take().expect("a reply").expect("a whole one")
                }
                (None, first) => {
                    let stored = StoredPassword::with_salt(password, b"salt".to_vec(), 4096);
                    let first = ClientFirst::parse(first.as_bytes()).expect("a first message");
                    let begun = scram::Server::new(first, stored, "nonce");
                    challenge(server.insert(begun).first())
                }
                (Some(_), "") => Reply::new(235, "2.7.0 welcome"),
                (Some(server), proof) => match server.finish(proof.as_bytes()) {
                    Ok(text) => challenge(text),
                    Err(_) => Reply::new(535, "5.7.8 no"),
                },
            };
        };
        assert_eq!(last, Step::Finished);
        assert_eq!(handshake.finish().is_ok(), is_known);
    }
}

#[test]
fn refused_credentials_put_off_the_host() {
    for (script, expected) in [
        (Script::default(), "ann deferall 4.7.0"),
        (Script::offering(&["AUTH PLAIN"]).on("AUTH", say("535 5.7.8 no")), "ann deferall 4.7.8"),
        (
            Script::offering(&["AUTH PLAIN"]).on("AUTH", say("454 4.7.0 later")),
            "ann deferall 4.7.0",
        ),
    ] {
        let (found, _) = authenticate(script.clone(), "auth-without-tls = true");
        assert_eq!(found, expected, "{script:?}");
    }
}
