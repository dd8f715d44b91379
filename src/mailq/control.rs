//! What the scheduler's own user asks over the control socket: one request a line, answered in the forms
//! of MAILQ version 2.
//!
//! ```text
//! server  version zsched 1.0
//! client  SHOW WHY smtp/mx.test
//! server  +OK until LF.LF
//! server  smtp/mx.test: 3 messages wait until 14:02:10, ... (retries, scheduler.cf:12) (tried once)
//! server  .
//! ```
//!
//! A line of an answer that begins with a dot gets another one in front. A refusal is one line that
//! begins with `-`.

use super::why::{self, Subject};
use crate::scheduler::Scheduler;
use crate::time::Timestamp;

/// The first line.
pub const GREETING: &str = "version zsched 1.0\n";
/// What comes before an answer of several lines.
pub const UNTIL_DOT: &str = "+OK until LF.LF";
/// The longest request, in bytes. Whoever says more at once has to wait for answers.
const LONGEST_REQUEST: usize = 4096;

/// One client's side of the conversation.
#[derive(Default)]
pub struct Conversation {
    heard: Vec<u8>,
    /// The client will say nothing more.
    has_ended: bool,
    is_over: bool,
}

impl Conversation {
    /// How many bytes can be taken in before something must be answered.
    pub fn room(&self) -> usize {
        (LONGEST_REQUEST + 1).saturating_sub(self.heard.len())
    }

    /// Takes in what the client says: at most so much as there is [`room`](Conversation::room) for.
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    /// The client will say nothing more.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Whether nothing more is to be answered.
    pub fn is_over(&self) -> bool {
        // A request without its line end was cut short.
        self.is_over || (self.has_ended && self.next_line_end().is_none())
    }

    /// Whether there is a request to be answered.
    pub fn has_request(&self) -> bool {
        !self.is_over && (self.next_line_end().is_some() || self.room() == 0)
    }

    fn next_line_end(&self) -> Option<usize> {
        memchr::memchr(b'\n', &self.heard)
    }

    /// Answers one request.
    pub fn answer(&mut self, scheduler: &Scheduler, now: Timestamp, out: &mut Vec<u8>) {
        let Some(end) = self.next_line_end() else {
            out.extend_from_slice(b"-the request is too long\n");
            self.is_over = true;
            return;
        };
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line[..end]).into_owned();
        match line.trim_end_matches('\r').split_once(' ').unwrap_or((&line, "")) {
            ("QUIT", _) => self.is_over = true,
            ("SHOW", what) => match what.trim().split_once(' ') {
                Some(("WHY", subject)) => show_why(scheduler, now, subject.trim(), out),
                _ => refuse(out, "only WHY can be shown here"),
            },
            _ => refuse(out, "the request is not known; SHOW WHY and QUIT are"),
        }
    }
}

fn show_why(scheduler: &Scheduler, now: Timestamp, subject: &str, out: &mut Vec<u8>) {
    let Some(parsed) = Subject::parse(subject) else {
        return refuse(out, "give a channel/host, a spool id or the name of a control file");
    };
    match why::sentences(scheduler, now, &parsed) {
        Some(sentences) => write_lines(out, &sentences),
        None => refuse(out, &format!("nothing is queued for {}", subject.escape_debug())),
    }
}

fn write_lines(out: &mut Vec<u8>, lines: &[String]) {
    out.extend_from_slice(format!("{UNTIL_DOT}\n").as_bytes());
    for line in lines {
        if line.starts_with('.') {
            out.push(b'.');
        }
        out.extend_from_slice(line.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b".\n");
}

fn refuse(out: &mut Vec<u8>, why: &str) {
    out.extend_from_slice(format!("-{why}\n").as_bytes());
}
