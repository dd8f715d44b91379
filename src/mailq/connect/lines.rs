//! The lines of an answer, with limits.

use crate::failure::Failure;
use crate::screen::quote;
use memchr::memchr;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;
use zsched_format::printable;

/// Size of the read buffer, in bytes.
const READ_BUFFER_LEN: usize = 64 * 1024;

/// Limits on the size of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum length of a line, in bytes.
    pub line: usize,
    /// Maximum length of a list of recipients or messages, in bytes.
    pub list: usize,
    /// Maximum length of the whole answer, in bytes.
    pub whole: u64,
    /// Maximum number of messages, or of threads.
    ///
    /// A short line takes more memory than it has bytes.
    pub entries: usize,
}

/// Limits on the answer of a scheduler.
///
/// The list of one channel may have all of several million messages.
pub(crate) const LIMITS: Limits =
    Limits { line: 1 << 20, list: 48 << 20, whole: 1 << 30, entries: 5_000_000 };

/// A source of lines: a whole connection, or one text of many.
pub(crate) trait LineSource {
    /// The next line without its end, or `None` at the end.
    fn next(&mut self) -> Result<Option<&[u8]>, Failure>;
}

/// The other end of a connection.
pub(crate) trait Peer: Read + Write + Send {
    /// Sets the timeouts without any data from the server, and from the connection to the end.
    fn set_timeouts(&mut self, _idle: Duration, _total: Duration) {}
}

/// A recorded server, whose answers do not depend on the requests.
pub(crate) struct RecordedPeer<R, W> {
    /// The answers.
    pub answers: R,
    /// Where requests are written.
    pub requests: W,
}

impl<R: Read, W> Read for RecordedPeer<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.answers.read(buffer)
    }
}

impl<R, W: Write> Write for RecordedPeer<R, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.requests.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.requests.flush()
    }
}

impl<R: Read + Send, W: Write + Send> Peer for RecordedPeer<R, W> {}

/// Reads lines that end with LF. Everything else is kept, CR included.
pub(crate) struct Lines {
    input: BufReader<Box<dyn Peer>>,
    /// Limits on the size of the answer.
    pub limits: Limits,
    /// Maximum length of the next line, in bytes.
    max_line_len: usize,
    /// The last line read.
    pub line: Vec<u8>,
    /// Number of the last line read, from 1.
    pub number: u64,
    bytes: u64,
    /// True if the last line read ended with LF.
    pub is_complete: bool,
    /// True if lines are copied to standard error (`-d`).
    pub is_echoed: bool,
}

impl Lines {
    /// Creates a reader of the lines of a peer.
    pub(crate) fn new(peer: impl Peer + 'static, limits: Limits) -> Lines {
        let input = BufReader::with_capacity(READ_BUFFER_LEN, Box::new(peer) as Box<dyn Peer>);
        Lines {
            input,
            limits,
            max_line_len: limits.line,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            is_complete: true,
            is_echoed: false,
        }
    }

    /// Creates a reader of a recorded answer.
    pub(crate) fn recorded(answer: &[u8], limits: Limits) -> Lines {
        let answers = io::Cursor::new(answer.to_vec());
        Lines::new(RecordedPeer { answers, requests: io::sink() }, limits)
    }

    /// Reads the next line. Returns false at the end of the answer.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        self.number += 1;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Failure::protocol(format!("the answer is incomplete: {error}"));
                }
            };
            if buffer.is_empty() && self.line.is_empty() {
                return Ok(false);
            }
            let end = memchr(b'\n', buffer);
            self.is_complete = end.is_some();
            let is_last = self.is_complete || buffer.is_empty();
            self.line.extend_from_slice(&buffer[..end.unwrap_or(buffer.len())]);
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(taken);
            self.bytes += taken as u64;
            self.check_limits()?;
            if is_last {
                break;
            }
        }
        if self.is_echoed {
            printable::print_to_stderr(format_args!("- {}", printable::line(&self.line)));
        }
        Ok(true)
    }

    /// The peer, for writing requests to it.
    pub(crate) fn peer(&mut self) -> &mut dyn Peer {
        &mut **self.input.get_mut()
    }

    /// Sets the maximum length of lines to that of lists, or back.
    pub(crate) fn allow_lists(&mut self, is_list: bool) {
        self.max_line_len = if is_list { self.limits.list } else { self.limits.line };
    }

    fn check_limits(&self) -> Result<(), Failure> {
        let (number, max_line_len, whole) = (self.number, self.max_line_len, self.limits.whole);
        if self.line.len() > max_line_len {
            let message =
                format!("line {number} of the answer is longer than {max_line_len} bytes");
            return Err(Failure::Protocol(message));
        }
        if self.bytes > whole {
            return Failure::protocol(format!("the answer is longer than {whole} bytes"));
        }
        Ok(())
    }
}

impl LineSource for Lines {
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        Ok(if self.advance()? { Some(&self.line) } else { None })
    }
}

/// Parses a JSON object.
pub(crate) fn parse_object<T: DeserializeOwned>(line: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(line)
        .map_err(|error| Failure::Protocol(format!("{error} in {}", quote(line))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { line: 10, list: 20, whole: 100, entries: 10 };

    fn lines(input: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        let mut lines = Lines::recorded(input, SMALL);
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_vec());
        }
        Ok(all)
    }

    #[test]
    fn lines_end_at_line_feed_or_end_of_input() {
        for (input, expected) in [
            (&b""[..], &[][..]),
            (b"\n", &[&b""[..]]),
            (b"a\r\n\nb", &[b"a\r", b"", b"b"]),
            (b"0123456789\n", &[b"0123456789"]),
        ] {
            assert_eq!(lines(input).expect("good input"), expected, "{input:?}");
        }
    }

    #[test]
    fn last_line_without_line_feed_is_incomplete() {
        let mut lines = Lines::recorded(b"a\nb", SMALL);
        for expected in [(&b"a"[..], true), (b"b", false)] {
            let line = lines.next().expect("good input").expect("a line").to_vec();
            assert_eq!((line.as_slice(), lines.is_complete), expected);
        }
    }

    #[test]
    fn input_over_limits_fails() {
        for input in [&b"0123456789a\n"[..], &[b'x'; 1000], &b"123456789\n".repeat(11)] {
            let error = lines(input).expect_err("too much");
            assert_eq!(error.status(), 76);
        }
        let long = b"0123456789\n012345678901234\n012345678901234\n";
        let mut lines = Lines::recorded(long, SMALL);
        for (is_list, is_good) in [(false, true), (true, true), (false, false)] {
            lines.allow_lists(is_list);
            assert_eq!(lines.next().is_ok(), is_good);
        }
        // An endless input is not read forever.
        for byte in [b'\n', b'x'] {
            let peer = RecordedPeer { answers: io::repeat(byte), requests: io::sink() };
            let mut lines = Lines::new(peer, SMALL);
            assert!((0..1000).any(|_| lines.next().is_err()));
        }
    }

    #[test]
    fn object_that_is_no_json_is_quoted_printably() {
        let failure = parse_object::<Vec<u8>>(b"\x1b[2J").expect_err("no JSON");
        assert!(failure.to_string().ends_with("in \"^[[2J\""), "{failure}");
    }
}
