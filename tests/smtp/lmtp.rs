//! LMTP: one answer for each recipient after the end of the message.

use crate::peer::{Action, Peer, Script, say};
use crate::support::{agent_with, deliver, outcomes};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use zsched_smtp::dialer::ClientOptions;
use zsched_smtp::mailer::Mailer;

const ALL: [&str; 3] = ["ann@b.test", "bob@b.test", "eve@b.test"];

fn lmtp() -> Mailer {
    agent_with("", ClientOptions { lmtp: true, ..ClientOptions::default() }, None)
}

#[test]
fn each_recipient_has_its_own_answer() {
    for (script, expected) in [
        (Script::default(), "ann ok3, bob ok3, eve ok3"),
        (
            Script::default().on("END <bob@", say("452 4.2.2 full")),
            "ann ok3, bob deferred 4.2.2, eve ok3",
        ),
        (
            Script::default()
                .on("END <bob@", say("550 5.7.1 no"))
                .on("RCPT To:<eve", say("550 5.1.1 no")),
            "ann ok3, bob error2 5.7.1, eve error2 5.1.1",
        ),
        // In reverse file order, eve and bob are answered before the connection is lost.
        (Script::default().on("END <ann@", Action::Close), "ann deferred 4.4.2, bob ok3, eve ok3"),
        (
            Script::default().on("END <bob@", say("421 4.3.2 going")),
            "ann deferred 4.3.2, bob deferred 4.3.2, eve ok3",
        ),
    ] {
        for offers in [&[][..], &["PIPELINING"], &["PIPELINING", "CHUNKING"]] {
            let offers = offers.iter().map(|offer| offer.to_string()).collect();
            let script = Script { offers, ..script.clone() };
            let peer = Peer::start(script.clone());
            let run = deliver(&mut lmtp(), &peer.host(), &ALL, "Hello\n");
            assert_eq!(outcomes(&run, &ALL), expected, "{script:?}");
        }
    }
}

#[test]
fn lhlo_has_no_fallback() {
    let peer = Peer::start(Script::default().on("LHLO", say("500 what?")));
    let run = deliver(&mut lmtp(), &peer.host(), &ALL[..1], "Hello\n");
    assert_eq!(outcomes(&run, &ALL[..1]), "ann deferall 4.3.2");
    assert_eq!(peer.seen().commands[0], "LHLO client.test");
}

/// Passes connections to a UNIX socket on to a peer.
fn forward(path: &Path, peer: SocketAddr) {
    let listener = UnixListener::bind(path).expect("a socket");
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("a connection");
            let server = TcpStream::connect(peer).expect("the peer listens");
            let (mut from, mut to) =
                (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            thread::spawn(move || std::io::copy(&mut from, &mut to));
            thread::spawn(move || std::io::copy(&mut &server, &mut &client));
        }
    });
}

#[test]
fn unix_socket_is_a_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lmtp");
    let peer = Peer::start(Script::offering(&["PIPELINING", "STARTTLS"]));
    forward(&path, peer.address);
    for host in [path.display().to_string(), format!("unix:{}", path.display())] {
        let run = deliver(&mut lmtp(), &host, &ALL, "Hello\n");
        assert_eq!(outcomes(&run, &ALL), "ann ok3, bob ok3, eve ok3");
        assert_eq!(run.report(ALL[0]).notary[4], format!("x-unix; {}", path.display()));
    }
    assert!(!peer.seen().commands.contains(&"STARTTLS".to_string()));
}
