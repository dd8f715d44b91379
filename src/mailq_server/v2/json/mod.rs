//! `SHOW JSON …`: the views for programs, one object per line.
//!
//! Objects that the client reads are in [`zsched_mailq_protocol::schema`]; each file is one view
//! (`docs/mailq-protocol.md`). Fields without a value are omitted or `null`.
//!
//! | file | view |
//! |---|---|
//! | [`summary`] | the queue in numbers |
//! | [`threads`] | all threads, or the top threads by a rank; recipients by age, of the top threads |
//! | [`rings`] | rings, agents |
//! | [`messages`] | messages and their destinations, one line for each; one message, and `SHOW MESSAGE` |
//! | [`wait`] | what something waits for |
//! | [`orders`] | overrides: holds, limits and removals in force |
//! | [`jobs`] | bulk jobs |
//! | [`process`] | the configuration on disk; totals since the start |

pub(crate) mod jobs;
pub(crate) mod messages;
pub(crate) mod orders;
pub(crate) mod process;
pub(crate) mod rings;
pub(crate) mod summary;
pub(crate) mod threads;
pub(crate) mod wait;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io;
use std::time::Duration;
use zsched_format::printable;
use zsched_format::time::Timestamp;

/// Writes an object as a line.
pub fn line(out: &mut Vec<u8>, value: &impl Serialize) {
    object(out, value);
    out.push(b'\n');
}

/// Writes an object.
fn object(out: &mut Vec<u8>, value: &impl Serialize) {
    // Writing to a Vec cannot fail, and the structs hold only types that JSON has.
    value
        .serialize(&mut Serializer::with_formatter(out, EscapingFormatter))
        .expect("plain data is JSON");
}

/// A JSON formatter that escapes all unprintable characters.
struct EscapingFormatter;

impl Formatter for EscapingFormatter {
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

/// Converts foreign text; bytes that are not UTF-8 are replaced.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Seconds since 1970, to the microsecond.
pub fn seconds(time: Timestamp) -> f64 {
    (time.nanoseconds() / 1000) as f64 / 1e6
}

/// A duration in seconds, to the microsecond.
fn duration_seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// Whole seconds since a time; 0 for a time in the future.
fn ago(now: Timestamp, time: Timestamp) -> f64 {
    now.seconds_since(time).max(0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_characters_are_escaped() {
        let mut out = Vec::new();
        line(&mut out, &text(b"a\x1b[2J\x7f\xc2\x9b\"\\\n\xff\xc3\xa9"));
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "\"a\\u001b[2J\\u007f\\u009b\\\"\\\\\\n\u{fffd}\u{e9}\"\n"
        );
    }

    #[test]
    fn times_have_microseconds() {
        let mut out = Vec::new();
        line(&mut out, &seconds(Timestamp::from_parts(1_795_259_643, 250_001_999)));
        assert_eq!(out, b"1795259643.250001\n");
    }
}
