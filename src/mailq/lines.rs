//! The lines of an answer, as many and as long as is reasonable.

use super::failure::Failure;
use memchr::memchr;
use std::io::{self, BufRead, BufReader, Read};
use zsched_format::printable;

/// How much is read at a time, in bytes.
const BUFFER: usize = 64 * 1024;

/// How large an answer may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest line, in bytes.
    pub line: usize,
    /// The longest line with a list of recipients or messages, in bytes.
    pub list: usize,
    /// All of it, in bytes.
    pub whole: u64,
    /// The most entries of messages, or of threads: a short line takes more memory than it has bytes.
    pub entries: usize,
}

/// What a scheduler may send. All of some million messages may be in the list of one channel.
pub const LIMITS: Limits =
    Limits { line: 1 << 20, list: 48 << 20, whole: 1 << 30, entries: 5_000_000 };

/// Whatever gives the lines of an answer: up to the end of a connection, or of one text of many.
pub trait LineSource {
    /// The next line without its end, or `None` where the answer ends.
    fn next(&mut self) -> Result<Option<&[u8]>, Failure>;

    /// How many entries of messages or threads there may be.
    fn limit(&self) -> usize;
}

/// Reads lines that end with LF. Everything else stays as it is, CR included.
pub struct Lines<R> {
    input: BufReader<R>,
    limits: Limits,
    /// The longest line from here on, in bytes.
    longest: usize,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    is_complete: bool,
    /// Whether lines are copied to standard error (`-d`).
    pub is_echoed: bool,
}

impl<R: Read> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R, limits: Limits) -> Lines<R> {
        let input = BufReader::with_capacity(BUFFER, input);
        Lines {
            input,
            limits,
            longest: limits.line,
            line: Vec::new(),
            number: 0,
            bytes: 0,
            is_complete: true,
            is_echoed: false,
        }
    }

    /// The next line without its end, or `None` where the answer ends.
    pub fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        Ok(if self.advance()? { Some(&self.line) } else { None })
    }

    /// Goes to the next line, if there is one.
    pub fn advance(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        self.number += 1;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Failure::Protocol(format!("the answer breaks off: {error}")));
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
            self.check()?;
            if is_last {
                break;
            }
        }
        if self.is_echoed {
            printable::print_to_stderr(format_args!("- {}", printable::line(&self.line)));
        }
        Ok(true)
    }

    /// The line that was read last.
    pub fn current(&self) -> &[u8] {
        &self.line
    }

    /// Where the lines come from, to say something there.
    pub fn peer(&mut self) -> &mut R {
        self.input.get_mut()
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// From here on, lines may be lists of recipients or messages; or they may not.
    pub fn expect_lists(&mut self, is_list: bool) {
        self.longest = if is_list { self.limits.list } else { self.limits.line };
    }

    /// From here on, there is no end to lines.
    pub fn expect_no_end(&mut self) {
        self.limits.whole = u64::MAX;
    }

    /// How large the answer may be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether the line that was read last had an end.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn check(&self) -> Result<(), Failure> {
        let (number, longest, whole) = (self.number, self.longest, self.limits.whole);
        if self.line.len() > longest {
            let message = format!("line {number} of the answer is longer than {longest} bytes");
            return Err(Failure::Protocol(message));
        }
        if self.bytes > whole {
            return Err(Failure::Protocol(format!("the answer is longer than {whole} bytes")));
        }
        Ok(())
    }
}

impl<R: Read> LineSource for Lines<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.next()
    }

    fn limit(&self) -> usize {
        self.limits.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { line: 10, list: 20, whole: 100, entries: 10 };

    fn lines(input: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        let mut lines = Lines::new(input, SMALL);
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_vec());
        }
        Ok(all)
    }

    #[test]
    fn lines_end_with_a_line_feed_or_the_input() {
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
    fn the_last_line_may_be_cut() {
        let mut lines = Lines::new(&b"a\nb"[..], SMALL);
        for expected in [(&b"a"[..], true), (b"b", false)] {
            let line = lines.next().expect("good input").expect("a line").to_vec();
            assert_eq!((line.as_slice(), lines.is_complete()), expected);
        }
    }

    #[test]
    fn there_are_limits() {
        for input in [&b"0123456789a\n"[..], &[b'x'; 1000], &b"123456789\n".repeat(11)] {
            let error = lines(input).expect_err("too much");
            assert_eq!(error.status(), 76);
        }
        let long = b"0123456789\n012345678901234\n012345678901234\n";
        let mut lines = Lines::new(&long[..], SMALL);
        for (is_list, is_good) in [(false, true), (true, true), (false, false)] {
            lines.expect_lists(is_list);
            assert_eq!(lines.next().is_ok(), is_good);
        }
        // Where it never ends, it is not read for ever either.
        for byte in [b'\n', b'x'] {
            let mut lines = Lines::new(io::repeat(byte), SMALL);
            assert!((0..1000).any(|_| lines.next().is_err()));
        }
    }
}
