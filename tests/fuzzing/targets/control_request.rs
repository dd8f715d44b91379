//! Requests over the control socket: whatever is asked, in whatever pieces it comes, the answers are those
//! that the client can read, and nobody's texts can look like one.

use super::draw::Draw;
use std::path::Path;
use std::rc::Rc;
use zsched::config::{Config, Context, Zenv};
use zsched::control_file::parse;
use zsched::mailq::control::{Conversation, UNTIL_DOT};
use zsched::scheduler::{Event, Scheduler, Settings};
use zsched::spool::{Arrival, HashFolder, SpoolName};
use zsched::time::Timestamp;

/// When everything happens.
const NOW: Timestamp = Timestamp::from_seconds(1_795_255_200);

/// The length of a piece, then what a client says.
pub fn run(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let piece = usize::from(draw.byte()).max(1);
    let core = core();
    let (mut conversation, mut out) = (Conversation::default(), Vec::new());
    let mut said = draw.rest();
    while !conversation.is_over() {
        if conversation.has_request() {
            conversation.answer(&core, NOW, &mut out);
            continue;
        }
        let count = piece.min(said.len()).min(conversation.room());
        if count == 0 {
            conversation.end();
            continue;
        }
        conversation.take_in(&said[..count]);
        said = &said[count..];
    }
    check(&String::from_utf8(out).expect("answers are text"));
}

/// Each answer is a refusal of one line, or some lines up to a dot.
fn check(answers: &str) {
    let mut lines = answers.lines();
    while let Some(line) = lines.next() {
        assert!(!line.contains(char::is_control), "{line:?}");
        if line == UNTIL_DOT {
            assert!(lines.any(|line| line == "."), "an answer without end: {answers}");
        } else {
            assert!(line.starts_with('-'), "{answers}");
        }
    }
}

/// A core with a message that waits.
fn core() -> Scheduler {
    let context = Context::without_rights(Zenv::default());
    let config = Config::parse(Path::new("cf"), b"c/*\n\tmaxring=1\n", &context);
    let config = config.unwrap_or_else(|errors| panic!("{errors:?}")).config;
    let mut core = Scheduler::new(Settings::default(), Rc::new(config));
    let text = b"i 7\ns l - a 0\nr           c .h.test u 0\nm\n\n".to_vec();
    let file = parse(text).expect("a good control file");
    let name = SpoolName::new(HashFolder::TOP, b"7").expect("a name");
    core.handle(NOW, Event::Arrived(Arrival::new(name, &file, NOW, NOW)));
    core
}
