//! The lines between the agent and its program: `man/runner.8`.
//!
//! ```text
//! agent:   PATH <TAB> DOMAIN <TAB> LIST <TAB> FUNCTION <TAB> SENDER <TAB> ADDRESS
//! program: 0 posted
//! agent:   #ping
//! program: 0
//! ```

use crate::place::Place;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use zsched_agent::{Delivery, Outcome, Verdict};
use zsched_agents::exit_status::of_code;
use zsched_format::printable;
use zsched_format::status_code::enhanced_code;

/// The question whether the program lives.
pub const PING: &[u8] = b"#ping\n";
/// The null sender. No field is empty, so that a shell can read the line.
const NULL_SENDER: &[u8] = b"<>";
/// Maximum length of a request, in bytes. A pipe takes it at once (`PIPE_BUF`).
const MAX_REQUEST_LEN: usize = 4096;

/// The line for a message. An error is a text for the sender.
pub fn request(
    path: &Path,
    place: &Place<'_>,
    delivery: &Delivery<'_>,
) -> Result<Vec<u8>, &'static str> {
    let fields = [
        path.as_os_str().as_bytes(),
        place.domain.as_bytes(),
        place.list.as_bytes(),
        place.function.as_bytes(),
        delivery.sender().unwrap_or(NULL_SENDER),
        delivery.user(),
    ];
    line(&fields)
}

fn line(fields: &[&[u8]]) -> Result<Vec<u8>, &'static str> {
    if fields.iter().any(|field| field.iter().any(u8::is_ascii_control)) {
        return Err("an address has a control character");
    }
    let mut line = fields.join(&b'\t');
    line.push(b'\n');
    if line.len() > MAX_REQUEST_LEN {
        return Err("an address is too long");
    }
    Ok(line)
}

/// The outcome that an answer means. The second value is false if the program does not follow the
/// protocol, so that its next answer may be to another question.
pub fn outcome(answer: &[u8], program: &str) -> (Outcome, bool) {
    let answer = printable::lines(answer.trim_ascii()).into_owned();
    let (word, text) = answer.split_once(char::is_whitespace).unwrap_or((&answer, ""));
    let text = text.trim_start();
    if let Some(code) = enhanced_code(word.as_bytes(), b"245").filter(|code| *code == word) {
        let (verdict, reply) = match code.as_bytes()[0] {
            b'2' => (Verdict::Delivered, 250),
            b'4' => (Verdict::Deferred, 451),
            _ => (Verdict::Failed, 550),
        };
        let comment = if text.is_empty() { format!("answer of {program}") } else { text.into() };
        return (Outcome::new(verdict, code.to_string(), reply, comment), true);
    }
    match word.parse::<u8>() {
        Ok(code) => (of_code(code.into(), text, program, Verdict::Delivered), true),
        Err(_) => (deferred(program, &format!("gave an answer without a status: {answer}")), false),
    }
}

/// A deferral because of the program.
pub fn deferred(program: &str, what: &str) -> Outcome {
    let text = format!("{program} {what}");
    Outcome::new(Verdict::Deferred, "4.3.0", 451, "the program has failed").with_text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_exit_status_or_status_code() {
        for (answer, verdict, status, text, stays) in [
            ("0", Verdict::Delivered, "2.0.0", "delivered by prog", true),
            ("0 posted", Verdict::Delivered, "2.0.0", "delivered by prog: posted", true),
            ("2.1.5 posted", Verdict::Delivered, "2.1.5", "posted", true),
            ("4.2.1", Verdict::Deferred, "4.2.1", "answer of prog", true),
            ("5.7.1 you are not a member", Verdict::Failed, "5.7.1", "you are not a member", true),
            ("67", Verdict::Failed, "5.1.1", "prog ended with exit status 67: no such user", true),
            ("256", Verdict::Deferred, "4.3.0", "prog gave an answer without a status: 256", false),
            ("", Verdict::Deferred, "4.3.0", "prog gave an answer without a status: ", false),
            ("hi", Verdict::Deferred, "4.3.0", "prog gave an answer without a status: hi", false),
        ] {
            let (outcome, kept) = outcome(answer.as_bytes(), "prog");
            assert_eq!((outcome.verdict(), outcome.status()), (verdict, status), "{answer}");
            assert_eq!((outcome.text(), kept), (text, stays), "{answer}");
        }
    }

    #[test]
    fn request_is_one_line_of_bounded_length() {
        assert_eq!(line(&[b"/m", b"d"]), Ok(b"/m\td\n".to_vec()));
        assert_eq!(line(&[b"/m", b"a\nb"]), Err("an address has a control character"));
        assert_eq!(line(&[&[b'x'; MAX_REQUEST_LEN]]), Err("an address is too long"));
    }
}
