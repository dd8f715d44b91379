//! `SHOW JSON …`: what programs read. One object a line; the structs are the schema, one file a view
//! (`docs/mailq-protocol.md`). Fields without a value are left out, or `null`.
//!
//! | file | view |
//! |---|---|
//! | [`summary`] | the queue in numbers |
//! | [`threads`] | threads, all or those that matter most |
//! | [`rings`], [`agents`] | rings, agents |
//! | [`messages`] | messages and where they go, one line for each |
//! | [`message`] | one message, and `SHOW MESSAGE` |
//! | [`why`] | what something waits for |
//! | [`orders`] | orders in force |
//! | [`counters`] | totals since the start |
//! | [`events`] | what happens, for subscribers |

pub mod agents;
pub mod counters;
pub mod events;
pub mod message;
pub mod messages;
pub mod orders;
mod rank;
pub mod rings;
pub mod summary;
pub mod threads;
pub mod why;

use super::answer::{Findings, Reply, Step, Surroundings, Text};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io;
use zsched_format::printable;
use zsched_format::time::Timestamp;

/// So many things are written at a time.
const AT_A_TIME: usize = 32;
/// So many threads are looked at in one turn, at the most.
const THREADS_A_TURN: usize = 10_000;

/// Writes an object as a line.
pub fn line(out: &mut Vec<u8>, value: &impl Serialize) {
    object(out, value);
    out.push(b'\n');
}

/// Writes an object.
fn object(out: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to a Vec cannot fail, and the structs are all of a kind that JSON has.
    value.serialize(&mut Serializer::with_formatter(out, Tame)).expect("plain data is JSON");
}

/// Escapes all unprintable characters.
struct Tame;

impl Formatter for Tame {
    fn write_string_fragment<W>(&mut self, out: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        match fragment.chars().all(printable::is_printable) {
            true => out.write_all(fragment.as_bytes()),
            false => out.write_all(printable::json(fragment).as_bytes()),
        }
    }
}

/// Text of others; bytes that are not UTF-8 are replaced.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `channel/host`, or two patterns.
fn pair(channel: &str, host: &str) -> String {
    format!("{channel}/{host}")
}

/// A time: seconds since 1970, to the microsecond.
pub fn seconds(time: Timestamp) -> f64 {
    (time.nanoseconds() / 1000) as f64 / 1e6
}

/// How long ago something was, in seconds; what is still to come is now.
fn ago(now: Timestamp, time: Timestamp) -> i64 {
    now.seconds_since(time).max(0)
}

/// A single object.
struct One<T>(T);

impl<T: Serialize + 'static> One<T> {
    fn reply(value: T) -> Reply {
        Reply::Text(Box::new(One(value)))
    }
}

impl<T: Serialize> Text for One<T> {
    fn write(&mut self, _around: &mut Surroundings<'_>, out: &mut Vec<u8>) -> Step {
        line(out, &self.0);
        Step::Over
    }

    fn learn(&mut self, _findings: Findings) {}
}

/// What is said of a request that makes no sense.
fn refuse(why: &str) -> Reply {
    Reply::Line(format!("-{}\n", printable::line(&why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_written_disturbs_a_terminal() {
        let mut out = Vec::new();
        line(&mut out, &text(b"a\x1b[2J\x7f\xc2\x9b\"\\\n\xff\xc3\xa9"));
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "\"a\\u001b[2J\\u007f\\u009b\\\"\\\\\\n\u{fffd}\u{e9}\"\n"
        );
    }

    #[test]
    fn times_have_fractions() {
        let mut out = Vec::new();
        line(&mut out, &seconds(Timestamp::from_parts(1_795_259_643, 250_001_999)));
        assert_eq!(out, b"1795259643.250001\n");
    }
}
