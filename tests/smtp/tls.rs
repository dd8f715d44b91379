//! STARTTLS: policies, fallbacks, and what comes before the handshake.

use crate::peer::{Peer, Script, say};
use crate::support::{SENDER, agent_with, control_file, deliver, deliver_file, outcomes};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use zsched_smtp::dialer::ClientOptions;

const ANN: &str = "ann@b.test";

/// A server's certificate for 127.0.0.1, signed by itself, and its text in PEM.
fn certificate() -> (Arc<ServerConfig>, String) {
    let names = vec!["127.0.0.1".to_string()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate");
    (Arc::new(config), made.cert.pem())
}

fn script(offers: &[&str]) -> Script {
    Script { tls: Some(certificate().0), ..Script::offering(offers) }
}

fn run(script: Script, configuration: &str) -> (String, Vec<String>) {
    let peer = Peer::start(script);
    let mut agent = agent_with(configuration, ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    (outcomes(&run, &[ANN]), peer.seen().commands)
}

#[test]
fn tls_is_used_where_it_is_offered() {
    let (found, commands) = run(script(&["STARTTLS", "PIPELINING"]), "");
    assert_eq!(found, "ann ok3");
    assert_eq!(commands[..4], ["EHLO client.test", "STARTTLS", "(TLS)", "EHLO client.test"]);
    let (found, commands) = run(script(&["STARTTLS"]), "[tls]\nlevel = \"none\"\n");
    assert_eq!((&*found, &*commands[1]), ("ann ok3", "MAIL From:<alice@a.test>"));
}

#[test]
fn required_tls_is_never_left_out() {
    for (script, configuration, expected) in [
        (script(&[]), "[tls]\nlevel = \"encrypt\"\n", "ann deferall 4.7.4"),
        (
            script(&["STARTTLS"]).on("STARTTLS", say("454 4.7.0 no")),
            "[tls]\nlevel = \"encrypt\"\n",
            "ann deferall 4.7.4",
        ),
        (script(&["STARTTLS"]), "[tls]\nlevel = \"encrypt\"\n", "ann ok3"),
        (script(&["STARTTLS"]), "[tls]\nlevel = \"verify\"\n", "ann deferall 4.7.5"),
        (script(&["STARTTLS"]).on("STARTTLS", say("454 4.7.0 no")), "", "ann ok3"),
    ] {
        let (found, commands) = run(script, configuration);
        assert_eq!(found, expected, "{configuration} {commands:?}");
    }
}

#[test]
fn failed_handshake_is_followed_by_plain_text_if_allowed() {
    // The server says that it is ready, and then goes on without TLS.
    let broken = Script::offering(&["STARTTLS"]);
    let (found, commands) = run(broken.clone(), "");
    assert_eq!(found, "ann ok3");
    assert!(commands.contains(&"MAIL From:<alice@a.test>".to_string()));
    let (found, _) = run(broken, "[tls]\nlevel = \"encrypt\"\n");
    assert!(found.starts_with("ann deferall 4."), "{found}");
}

#[test]
fn text_before_the_handshake_is_not_taken_for_a_reply() {
    let injected =
        script(&["STARTTLS"]).times(1, "STARTTLS", say("220 go ahead\n250-injected\n250 CHUNKING"));
    let (found, _) = run(injected, "");
    assert_eq!(found, "ann deferall 4.5.0");
}

#[test]
fn require_tls_needs_a_verified_host_that_knows_it() {
    let (server, pem) = certificate();
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, results) = (folder.path().join("ca.pem"), folder.path().join("results"));
    std::fs::write(&ca, pem).expect("write a file");
    let level = |level: &str| {
        format!(
            "[session]\ntls-results = \"{}\"\n[tls]\nlevel = \"{level}\"\nca-file = \"{}\"\n",
            results.display(),
            ca.display()
        )
    };
    for (offers, level, expected) in [
        (&["STARTTLS", "REQUIRETLS"][..], level("verify"), "ann ok3"),
        (&["STARTTLS", "REQUIRETLS"], level("may"), "ann error2 5.7.30"),
        (&["STARTTLS"], level("verify"), "ann error2 5.7.30"),
    ] {
        let peer =
            Peer::start(Script { tls: Some(Arc::clone(&server)), ..Script::offering(offers) });
        let file = control_file(&peer.host(), SENDER, &["ann@b.test | REQUIRETLS"]);
        let mut agent = agent_with(&level, ClientOptions::default(), None);
        let run = deliver_file(&mut agent, &file, "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), expected, "{offers:?} {:?}", run.reports);
        let has_word = peer.seen().commands.iter().any(|command| command.ends_with(" REQUIRETLS"));
        assert_eq!(has_word, expected == "ann ok3");
    }
    // The scheduler gets such results, too.
    let peer = Peer::start(Script { tls: Some(server), ..Script::offering(&["STARTTLS"]) });
    let mut agent = agent_with("", ClientOptions::default(), None);
    let run = deliver(&mut agent, &peer.host(), &[ANN], "Hello\n");
    let sent: Vec<_> = run.log.iter().filter_map(|line| line.strip_prefix("#tls ")).collect();
    assert_eq!(sent.len(), 1, "{:?}", run.log);
    let expected = "{\"policy-type\":\"no-policy-found\",\"policy-domain\":\"127.0.0.1\",";
    assert!(sent[0].starts_with(expected), "{sent:?}");
    let results = std::fs::read_to_string(results).expect("the results");
    assert_eq!(results.lines().count(), 3, "{results}");
}
