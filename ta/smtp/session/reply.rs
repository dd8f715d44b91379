//! Replies of servers (RFC 5321, 4.2), from bytes that are split anywhere.

use std::fmt;

/// Maximum length of a line of a reply, in bytes. The standard allows 512.
const MAX_LINE_LEN: usize = 8 * 1024;
/// Maximum length of a reply of several lines, in bytes.
const MAX_REPLY_LEN: usize = 64 * 1024;

/// A reply: a code and one or more lines.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    code: u16,
    /// All lines, with their codes, separated by LF.
    text: String,
}

/// The reason why the bytes of a peer are no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A line does not begin with a code, or with another one than the line before.
    #[error("malformed reply: {0}")]
    Malformed(String),
    /// A line or a reply is longer than any of use.
    #[error("the reply is longer than {0} bytes")]
    TooLong(usize),
}

impl Reply {
    /// Creates a reply of one line.
    pub fn new(code: u16, text: &str) -> Reply {
        Reply { code, text: format!("{code} {text}") }
    }

    /// The code: 200 to 599.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns true for 2xx.
    pub fn is_success(&self) -> bool {
        self.code / 100 == 2
    }

    /// All lines with their codes, separated by LF.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The texts of the lines, without codes.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(|line| line.get(4..).unwrap_or_default())
    }

    /// The enhanced status code (RFC 2034), or an empty text.
    ///
    /// It is that of the first line that has one.
    pub fn status(&self) -> &str {
        let class = &self.text[..1];
        let of = |line| -> Option<&str> {
            let word = str::split_ascii_whitespace(line).next()?;
            let mut parts = word.split('.');
            let is_number = |part: &str| {
                (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
            };
            let is_status = parts.next() == Some(class)
                && parts.next().is_some_and(is_number)
                && parts.next().is_some_and(is_number)
                && parts.next().is_none();
            is_status.then_some(word)
        };
        self.lines().find_map(of).unwrap_or_default()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Collects the bytes of a peer, and finds the replies in them.
///
/// ```
/// use zsched_smtp::session::ReplyParser;
///
/// let mut parser = ReplyParser::default();
/// parser.push(b"250-mx.test\r\n250 SI");
/// assert_eq!(parser.take(), Ok(None));
/// parser.push(b"ZE\r\n");
/// let reply = parser.take().unwrap().unwrap();
/// assert_eq!(reply.lines().collect::<Vec<_>>(), ["mx.test", "SIZE"]);
/// ```
#[derive(Debug, Default)]
pub struct ReplyParser {
    buffer: Vec<u8>,
    /// Where the first line in the buffer begins that has not been read.
    position: usize,
    /// The lines of the reply so far, and their code.
    lines: String,
    code: u16,
}

impl ReplyParser {
    /// Adds bytes of the peer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.position);
        self.position = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns true if there are bytes that belong to no reply taken so far.
    pub fn has_rest(&self) -> bool {
        self.position < self.buffer.len() || !self.lines.is_empty()
    }

    /// Takes the next reply. Returns `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// The bytes are no reply. The connection is of no use then.
    pub fn take(&mut self) -> Result<Option<Reply>, ReplyError> {
        loop {
            let rest = &self.buffer[self.position..];
            let Some(end) = memchr::memchr(b'\n', rest) else {
                return match rest.len() > MAX_LINE_LEN {
                    true => Err(ReplyError::TooLong(MAX_LINE_LEN)),
                    false => Ok(None),
                };
            };
            if end > MAX_LINE_LEN {
                return Err(ReplyError::TooLong(MAX_LINE_LEN));
            }
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            let (code, is_last) = split(line).ok_or_else(|| malformed(line))?;
            if !self.lines.is_empty() && code != self.code {
                return Err(malformed(line));
            }
            self.code = code;
            append(&mut self.lines, line);
            self.position += end + 1;
            if self.lines.len() > MAX_REPLY_LEN {
                return Err(ReplyError::TooLong(MAX_REPLY_LEN));
            }
            if is_last {
                return Ok(Some(Reply { code, text: std::mem::take(&mut self.lines) }));
            }
        }
    }
}

/// The code of a line, and true if it is the last one of its reply.
fn split(line: &[u8]) -> Option<(u16, bool)> {
    let (digits, rest) = line.split_at_checked(3)?;
    if !matches!(digits[0], b'2'..=b'5') || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let code = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match rest.first() {
        Some(b'-') => Some((code, false)),
        Some(b' ') | None => Some((code, true)),
        Some(_) => None,
    }
}

/// Adds a line to a text; control characters become blanks.
fn append(text: &mut String, line: &[u8]) {
    if !text.is_empty() {
        text.push('\n');
    }
    let line = String::from_utf8_lossy(line);
    let clean = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    text.extend(clean);
}

fn malformed(line: &[u8]) -> ReplyError {
    let mut text = String::new();
    append(&mut text, &line[..line.len().min(100)]);
    ReplyError::Malformed(format!("{text:?}"))
}
