//! AUTH, with credentials of a host rule.

use crate::peer::{Peer, Script, say};
use crate::support::{agent_with, deliver, outcomes};
use std::io::Write;
use zsched_smtp::dialer::ClientOptions;

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
