//! STARTTLS: policies, fallbacks, and what comes before the handshake.

use crate::dns_server::{RunningDns, Zones};
use crate::peer::{Peer, Script, say};
use crate::support::{SENDER, agent_with, control_file, deliver, deliver_file, outcomes};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use zsched_smtp::dialer::ClientOptions;

const ANN: &str = "ann@b.test";

/// A server's certificate for 127.0.0.1 and others, signed by itself, and its text in PEM.
pub(crate) fn certificate() -> (Arc<ServerConfig>, String) {
    certificate_for(&["127.0.0.1", "mx1.d.example", "mx2.d.example", "mx1.e.example"])
}

fn certificate_for(names: &[&str]) -> (Arc<ServerConfig>, String) {
    let (config, certificate, _) = certificate_with_key(names);
    (config, certificate)
}

/// The same, with the key in PEM.
pub(crate) fn certificate_with_key(names: &[&str]) -> (Arc<ServerConfig>, String, String) {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate");
    (Arc::new(config), made.cert.pem(), made.signing_key.serialize_pem())
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
        // The message raises the level.
        (&["STARTTLS", "REQUIRETLS"], level("may"), "ann ok3"),
        (&["STARTTLS", "REQUIRETLS"], level("none"), "ann ok3"),
        (&["STARTTLS"], level("verify"), "ann error2 5.7.30"),
        (&["REQUIRETLS"], level("may"), "ann error2 5.7.10"),
        // The system has no such authority.
        (&["STARTTLS", "REQUIRETLS"], String::new(), "ann error2 5.7.10"),
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
    assert_eq!(results.lines().count(), 5, "{results}");
}

/// REQUIRETLS tries each exchanger (RFC 8689, 4.2.1).
#[test]
fn require_tls_finds_the_exchanger_that_does() {
    const ALL: &[&str] = &["STARTTLS", "REQUIRETLS"];
    let (server, pem) = certificate();
    let other = certificate_for(&["other.example"]).0;
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, pem).expect("write a file");
    let zone = "MX 10 mx1.d\nd MX 20 mx2.d\nmx1.d A 127.0.0.2\nmx2.d A 127.0.0.3\n";
    let dns = RunningDns::start(&Zones {
        example: format!("d {zone}"),
        unsigned: "@ MX 10 mx1.d.example.\n@ MX 20 mx2.d.example.\n".to_string(),
    });
    let with = |tls: &Arc<ServerConfig>, offers: &[&str]| Script {
        tls: Some(Arc::clone(tls)),
        ..Script::offering(offers)
    };
    let good = || with(&server, ALL);
    let plain = || Script::offering(&["REQUIRETLS"]);
    for (domain, first, second, expected, messages) in [
        ("d.example", good(), plain(), "ann ok3, bob ok3", (2, 0)),
        ("d.example", plain(), good(), "ann ok3, bob ok3", (1, 1)),
        ("d.example", with(&server, &["STARTTLS"]), good(), "ann ok3, bob ok3", (1, 1)),
        ("d.example", with(&other, ALL), good(), "ann ok3, bob ok3", (1, 1)),
        ("d.example", good().on("STARTTLS", say("454 no")), good(), "ann ok3, bob ok3", (1, 1)),
        ("d.example", plain(), plain(), "ann error2 5.7.10, bob ok3", (1, 0)),
        (
            "d.example",
            with(&server, &["STARTTLS"]),
            with(&server, &["STARTTLS"]),
            "ann error2 5.7.30, bob ok3",
            (1, 0),
        ),
        // One may do later.
        (
            "d.example",
            good().on("STARTTLS", say("454 4.7.0 no")),
            plain(),
            "ann deferred 4.7.10, bob ok3",
            (1, 0),
        ),
        // Nothing but an unsigned record says that this is its exchanger.
        ("unsigned", good(), good(), "ann error2 5.7.10, bob ok3", (1, 0)),
    ] {
        let (one, two, port) = crate::next_server::listeners();
        let case = format!("{domain} {:?} {:?}", first.offers, second.offers);
        let (one, two) = (Peer::serve(one, first), Peer::serve(two, second));
        let configuration = format!(
            "[dns]\nservers = [\"{}\"]\ndnssec = \"trust\"\n[tls]\nca-file = \"{}\"\n",
            dns.address(),
            ca.display()
        );
        let mut agent = agent_with(&configuration, ClientOptions::default(), None);
        let users = ["ann@b.test | REQUIRETLS", "bob@b.test"];
        let file = control_file(&format!("{domain}:{port}"), SENDER, &users);
        let run = deliver_file(&mut agent, &file, "Hello\n");
        assert_eq!(outcomes(&run, &[ANN, "bob@b.test"]), expected, "{case} {:?}", run.reports);
        let found = (one.seen().messages.len(), two.seen().messages.len());
        assert_eq!(found, messages, "{case} {:?}", run.reports);
    }
}

#[test]
fn require_tls_does_not_use_a_session_of_other_mail() {
    let (server, pem) = certificate();
    let folder = tempfile::tempdir().expect("a folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, pem).expect("write a file");
    let offers = &["STARTTLS", "REQUIRETLS"];
    let peer = Peer::start(Script { tls: Some(server), ..Script::offering(offers) });
    let configuration = format!("[tls]\nlevel = \"none\"\nca-file = \"{}\"\n", ca.display());
    let mut agent = agent_with(&configuration, ClientOptions::default(), None);
    for user in [ANN, "ann@b.test | REQUIRETLS", ANN] {
        let run = deliver_file(&mut agent, &control_file(&peer.host(), SENDER, &[user]), "Hello\n");
        assert_eq!(outcomes(&run, &[ANN]), "ann ok3", "{:?}", run.reports);
    }
    // The protected session is good enough for the third message.
    assert_eq!(peer.seen().sessions, 2);
}
