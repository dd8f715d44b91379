//! Outcomes of programs: exit statuses of `sysexits(3)`, signals, and codes in the output.
//!
//! The statuses that mean failure are those of ZMailer's `sm`. All others are temporary, since a
//! program that is broken can be repaired.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use zsched_agent::{Outcome, Verdict};
use zsched_format::printable;
use zsched_format::status_code::enhanced_code;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, or by a signal that we did not send.
    Ended(ExitStatus),
    /// It was killed because it ran for too long.
    TimedOut,
}

/// What an exit status means.
struct Meaning {
    exit_status: i32,
    verdict: Verdict,
    /// Status code of RFC 3463.
    status: &'static str,
    text: &'static str,
}

const fn meaning(
    exit_status: i32,
    verdict: Verdict,
    status: &'static str,
    text: &'static str,
) -> Meaning {
    Meaning { exit_status, verdict, status, text }
}

/// All statuses with a meaning of their own, except 0.
const MEANINGS: [Meaning; 17] = [
    meaning(64, Verdict::Deferred, "4.3.5", "wrong command line"),
    meaning(65, Verdict::Failed, "5.6.0", "wrong data format"),
    meaning(66, Verdict::Deferred, "4.3.0", "cannot open input"),
    meaning(67, Verdict::Failed, "5.1.1", "no such user"),
    meaning(68, Verdict::Failed, "5.1.2", "no such host"),
    meaning(69, Verdict::Failed, "5.3.0", "not available"),
    meaning(70, Verdict::Deferred, "4.3.0", "internal error"),
    meaning(71, Verdict::Deferred, "4.3.0", "system error"),
    meaning(72, Verdict::Deferred, "4.3.5", "a system file is missing"),
    meaning(73, Verdict::Deferred, "4.2.0", "cannot create output"),
    meaning(74, Verdict::Deferred, "4.3.0", "input or output error"),
    meaning(75, Verdict::Deferred, "4.3.0", "temporary failure"),
    meaning(76, Verdict::Deferred, "4.5.0", "protocol error"),
    meaning(77, Verdict::Failed, "5.7.0", "permission denied"),
    meaning(78, Verdict::Deferred, "4.3.5", "wrong configuration"),
    meaning(126, Verdict::Deferred, "4.3.5", "the command cannot be run"),
    meaning(127, Verdict::Deferred, "4.3.5", "the command was not found"),
];

/// The outcome for a program that was started. `accepted` is the verdict for status 0.
///
/// `output` is what the program has printed. If it begins with a code of class 4 or 5, and the exit
/// status is not 0, the code decides (Postfix: pipe(8), DIAGNOSTICS).
pub fn outcome(end: End, output: &[u8], program: &str, accepted: Verdict) -> Outcome {
    let output = printable::lines(output.trim_ascii()).into_owned();
    let status = match end {
        End::Ended(status) => status,
        End::TimedOut => {
            return deferred(program, "was killed because it ran for too long", &output);
        }
    };
    if let Some(signal) = status.signal() {
        return deferred(program, &format!("was ended by signal {signal}"), &output);
    }
    of_code(status.code().unwrap_or_default(), &output, program, accepted)
}

/// The outcome for an exit status.
///
/// A program ended with it, or has printed it as an answer.
pub fn of_code(code: i32, output: &str, program: &str, accepted: Verdict) -> Outcome {
    match code {
        0 => accept(accepted, program, output),
        code => failure(code, program, output),
    }
}

fn accept(verdict: Verdict, program: &str, output: &str) -> Outcome {
    let what = if verdict == Verdict::Delivered { "delivered by" } else { "passed to" };
    let done = format!("{what} {program}");
    let text = if output.is_empty() { done.clone() } else { format!("{done}: {output}") };
    Outcome::new(verdict, "2.0.0", 250, done).with_text(text)
}

fn failure(code: i32, program: &str, output: &str) -> Outcome {
    let known = MEANINGS.iter().find(|meaning| meaning.exit_status == code);
    let (verdict, status, comment) = match known {
        Some(meaning) => (meaning.verdict, meaning.status, meaning.text.to_string()),
        None => (Verdict::Deferred, "4.3.0", format!("unknown exit status {code}")),
    };
    if let Some((verdict, status, text)) = own_code(output) {
        return made(verdict, status, text.lines().next().unwrap_or_default())
            .with_text(output.to_string());
    }
    let text = match output {
        "" => format!("{program} ended with exit status {code}: {comment}"),
        _ => format!("{program} ended with exit status {code}: {comment}: {output}"),
    };
    made(verdict, status, &comment).with_text(text)
}

/// The code that the output begins with, its verdict, and the text behind it.
fn own_code(output: &str) -> Option<(Verdict, &str, &str)> {
    let (word, text) = output.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((output, ""));
    let code = enhanced_code(word.as_bytes(), b"45").filter(|code| *code == word)?;
    let verdict = if code.starts_with('5') { Verdict::Failed } else { Verdict::Deferred };
    Some((verdict, code, text.trim_start()))
}

fn deferred(program: &str, what: &str, output: &str) -> Outcome {
    let text = match output {
        "" => format!("{program} {what}"),
        _ => format!("{program} {what}: {output}"),
    };
    made(Verdict::Deferred, "4.3.0", what).with_text(text)
}

fn made(verdict: Verdict, status: &str, comment: &str) -> Outcome {
    let code = if verdict == Verdict::Failed { 550 } else { 451 };
    Outcome::new(verdict, status.to_string(), code, comment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32, output: &str) -> Outcome {
        let end = End::Ended(ExitStatus::from_raw(code << 8));
        outcome(end, output.as_bytes(), "prog", Verdict::Relayed)
    }

    #[test]
    fn every_exit_status_has_outcome_of_its_class() {
        for code in 0..256 {
            let outcome = of(code, "");
            let class = match outcome.verdict() {
                Verdict::Relayed => "2.",
                Verdict::Deferred => "4.",
                Verdict::Failed => "5.",
                other => panic!("{code}: {other:?}"),
            };
            assert!(outcome.status().starts_with(class), "{code}");
            let is_failure = [65, 67, 68, 69, 77].contains(&code);
            assert_eq!(outcome.verdict() == Verdict::Failed, is_failure, "{code}");
        }
        assert_eq!(of(67, "").text(), "prog ended with exit status 67: no such user");
        assert_eq!(of(3, "x\n").text(), "prog ended with exit status 3: unknown exit status 3: x");
        assert_eq!(of(0, "ok\n").text(), "passed to prog: ok");
    }

    #[test]
    fn code_at_beginning_of_output_decides() {
        for (exit_status, output, verdict, status) in [
            (1, "5.2.2 mailbox full\nmore\n", Verdict::Failed, "5.2.2"),
            (67, "4.2.1 later", Verdict::Deferred, "4.2.1"),
            (67, "4.2.1", Verdict::Deferred, "4.2.1"),
            (67, "2.0.0 fine", Verdict::Failed, "5.1.1"),
            (75, "error 5.2.2 is not at the beginning", Verdict::Deferred, "4.3.0"),
            (75, "5.2.2.1 is no code", Verdict::Deferred, "4.3.0"),
            (0, "5.2.2 but it was delivered", Verdict::Relayed, "2.0.0"),
        ] {
            let outcome = of(exit_status, output);
            assert_eq!((outcome.verdict(), outcome.status()), (verdict, status), "{output}");
        }
        assert_eq!(of(1, "5.2.2 mailbox full\nmore\n").text(), "5.2.2 mailbox full\nmore");
    }

    #[test]
    fn killed_programs_are_tried_again() {
        let killed = End::Ended(ExitStatus::from_raw(9));
        for (end, text) in [
            (killed, "prog was ended by signal 9: 5.1.1 hm\u{fffd}"),
            (End::TimedOut, "prog was killed because it ran for too long: 5.1.1 hm\u{fffd}"),
        ] {
            let outcome = outcome(end, "5.1.1 hm\u{fffd}".as_bytes(), "prog", Verdict::Relayed);
            assert_eq!((outcome.verdict(), outcome.text()), (Verdict::Deferred, text));
        }
    }
}
