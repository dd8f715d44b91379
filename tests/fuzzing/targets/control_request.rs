//! Requests over the control socket, in pieces of any length: clients can parse all answers, and no
//! text in an answer can look like another answer.

use super::byte_source::ByteSource;
use super::session_with_core::{SessionWithCore, core};
use zsched_mailq_server::acl::Peer;
use zsched_mailq_server::v2::{Session, UNTIL_DOT};

/// The input has the length of a piece, then a client's text.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let piece = usize::from(draw.byte()).max(1);
    let (session, _) = Session::privileged(Peer::Local(Some(0)), "root");
    let mut listener = SessionWithCore { session, core: core(), accounts: String::new() };
    check(&listener.converse(draw.rest(), piece));
}

/// Checks the form of each answer.
///
/// It is a refusal of one line, lines up to a dot, counts, or the reply to ETRN, KILL or QUIT.
pub fn check(answers: &[u8]) {
    let mut lines = answers.split(|byte| *byte == b'\n');
    while let Some(line) = lines.next() {
        let shown = String::from_utf8_lossy(line);
        assert!(!line.iter().any(u8::is_ascii_control), "{shown:?}");
        if line == UNTIL_DOT.as_bytes() {
            assert!(lines.any(|line| line == b"."), "an answer without end: {shown}");
        } else {
            let is_line = line.starts_with(b"-")
                || line == b"+OK"
                || line.starts_with(b"+OK; ")
                || is_counts(line);
            assert!(is_line || line.is_empty() || line == b"+Bye bye", "{shown}");
        }
    }
}

/// Returns true if a line has the counts of an order, as an object.
fn is_counts(line: &[u8]) -> bool {
    let object = line.strip_prefix(b"+OK ").map(serde_json::from_slice::<serde_json::Value>);
    object.is_some_and(|object| object.is_ok_and(|object| object["recipients"].is_u64()))
}
