//! Answers of MAILQ, as the client reads them: the bytes are taken for the dump of version 1, and for what
//! a scheduler of version 2 says to whatever it is asked. Whatever a server sends, the output is printable and not
//! much longer.

use super::draw::Draw;
use clap::Parser;
use std::path::Path;
use zsched_format::printable::is_printable;
use zsched_mailq::{Failure, Options, show_answer, show_answers};
use zsched_spool::Spool;

/// What the user may have asked for.
const WISHES: [&[&str]; 10] = [
    &[],
    &["-v"],
    &["-vv"],
    &["-Q"],
    &["-QQ"],
    &["-S"],
    &["-SS"],
    &["--summary"],
    &["-c", "smtp"],
    &["-Q", "-h", "a.test"],
];
/// Bytes shown for each byte received, at most: an escaped control character takes more room, and a
/// table has columns.
const GROWTH: usize = 40;
/// Bytes shown of nothing.
const FRAME: usize = 1000;

/// What the user wants in the first byte, then the answer without its greeting.
pub fn run(bytes: &[u8]) {
    let mut draw = Draw::new(bytes);
    let wish = WISHES[draw.below(WISHES.len())];
    let answer = draw.rest();
    check(wish, answer, dump);
    check(wish, answer, dialogue);
}

/// Shows the answer to these wishes.
type Show = fn(&Options, &Spool, &[u8], &mut Vec<u8>) -> Result<u64, Failure>;

fn dump(
    options: &Options,
    spool: &Spool,
    answer: &[u8],
    out: &mut Vec<u8>,
) -> Result<u64, Failure> {
    show_answer(options, spool, answer, out)
}

fn dialogue(
    options: &Options,
    spool: &Spool,
    answer: &[u8],
    out: &mut Vec<u8>,
) -> Result<u64, Failure> {
    let answers = [b"220 x\n+OK\n", answer].concat();
    show_answers(options, spool, &answers, out)
}

fn check(wish: &[&str], answer: &[u8], how: Show) {
    let shown = show(wish, answer, how);
    assert!(shown.len() <= GROWTH * answer.len() + FRAME, "{} bytes", shown.len());
    for character in String::from_utf8(shown).expect("output is text").chars() {
        assert!(matches!(character, '\t' | '\n') || is_printable(character), "{character:?}");
    }
}

/// What is shown before the answer ends or fails.
fn show(wish: &[&str], answer: &[u8], how: Show) -> Vec<u8> {
    let options = Options::parse_from([&["mailq"], wish].concat());
    // Nothing may be opened that a server names, and nothing is there.
    let spool = Spool::new(Path::new("/dev/null/no/spool"));
    let mut out = Vec::new();
    // Complaints and failures are no matter here.
    drop(how(&options, &spool, answer, &mut out));
    out
}
