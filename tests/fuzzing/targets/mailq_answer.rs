//! Answers of MAILQ, as the client parses them: the bytes are used as a dump of version 1, and as
//! answers of a scheduler of version 2. The output must be printable and not much longer than the
//! input.

use super::byte_source::ByteSource;
use clap::Parser;
use std::path::Path;
use zsched_format::printable::is_printable;
use zsched_mailq::{Failure, MailqOptions, show_answer, show_answers};
use zsched_spool::Spool;

/// Possible options of the user.
const OPTIONS: [&[&str]; 10] = [
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
/// Maximum number of output bytes for each input byte.
///
/// An escaped control character takes more room, and a table has columns.
const MAX_GROWTH: usize = 40;
/// Maximum number of output bytes for an empty input.
const MAX_EMPTY_LEN: usize = 1000;

/// The input has the options in the first byte, then the answer without its greeting.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let wish = OPTIONS[draw.below(OPTIONS.len())];
    let answer = draw.rest();
    check(wish, answer, dump);
    check(wish, answer, dialogue);
}

/// Prints the answer with these options.
type Show = fn(&MailqOptions, &Spool, &[u8], &mut Vec<u8>) -> Result<u64, Failure>;

fn dump(
    options: &MailqOptions,
    spool: &Spool,
    answer: &[u8],
    out: &mut Vec<u8>,
) -> Result<u64, Failure> {
    show_answer(options, spool, answer, out)
}

fn dialogue(
    options: &MailqOptions,
    spool: &Spool,
    answer: &[u8],
    out: &mut Vec<u8>,
) -> Result<u64, Failure> {
    let answers = [b"220 x\n+OK\n", answer].concat();
    show_answers(options, spool, &answers, out)
}

fn check(wish: &[&str], answer: &[u8], how: Show) {
    let shown = show(wish, answer, how);
    assert!(shown.len() <= MAX_GROWTH * answer.len() + MAX_EMPTY_LEN, "{} bytes", shown.len());
    for character in String::from_utf8(shown).expect("output is text").chars() {
        assert!(matches!(character, '\t' | '\n') || is_printable(character), "{character:?}");
    }
}

/// Returns the output until the answer ends or fails.
fn show(wish: &[&str], answer: &[u8], how: Show) -> Vec<u8> {
    let options = MailqOptions::parse_from([&["mailq"], wish].concat());
    // Files that a server names must not be opened, and none exists.
    let spool = Spool::new(Path::new("/dev/null/no/spool"));
    let mut out = Vec::new();
    // Warnings and failures do not matter here.
    drop(how(&options, &spool, answer, &mut out));
    out
}
