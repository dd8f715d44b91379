//! The bytes on the far side are those of the message.

use crate::peer::{Peer, Script};
use crate::support::{agent, deliver, outcomes};

const ANN: &str = "ann@b.test";

/// What must arrive: CRLF line ends, and the headers before it.
fn on_the_line(body: &str) -> Vec<u8> {
    let mut text = format!("Subject: test\n\n{body}");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
}

#[test]
fn messages_arrive_byte_for_byte() {
    let long_line = "x".repeat(100_000);
    let large = "0123456789abcdef.\n.\n..\n\n".repeat(25 * 1024 * 1024 / 24);
    for body in [
        "",
        "Hello\n",
        "no final newline",
        ".\n",
        ".leading\n..\n...\n.\n",
        "a\r\nb\r\n.\r\n",
        "mixed\r\nline\nends\r\n",
        "\n\n\n",
        "NUL \0 and \u{1}\n",
        "Grüße, 8 bit\n",
        &long_line,
        &format!("{long_line}\n.{long_line}\n"),
        &large,
    ] {
        for offers in [&["8BITMIME"][..], &["8BITMIME", "PIPELINING", "CHUNKING", "SIZE"]] {
            let peer = Peer::start(Script::offering(offers));
            let run = deliver(&mut agent(), &peer.host(), &[ANN], body);
            assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
            let seen = peer.seen();
            let expected = on_the_line(body);
            let is_same = seen.messages == [&expected[..]];
            assert!(is_same, "{} bytes, {offers:?}", body.len());
            if offers.contains(&"SIZE") {
                let size = format!("SIZE={}", expected.len());
                assert!(seen.commands[1].contains(&size), "{:?}", &seen.commands[1]);
            }
        }
    }
}

#[test]
fn bare_carriage_returns_cannot_smuggle_a_message() {
    let peer = Peer::start(Script::offering(&["8BITMIME"]));
    let body = "a\r.\r\nMAIL From:<x@y>\r\n\r.\rb\n.\r";
    let run = deliver(&mut agent(), &peer.host(), &[ANN], body);
    assert_eq!(outcomes(&run, &[ANN]), "ann ok3");
    let seen = peer.seen();
    let text = String::from_utf8_lossy(&seen.messages[0]).into_owned();
    assert_eq!(seen.messages.len(), 1);
    assert!(text.ends_with("a .\r\nMAIL From:<x@y>\r\n . b\r\n.\r\n"), "{text:?}");
    assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
}
