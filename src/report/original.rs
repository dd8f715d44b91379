//! The last part: the original message, or its headers.
//!
//! It is never encoded (RFC 2046, 5.2.1) and keeps every byte. What its headers contain determines
//! its type (RFC 3462, 2; RFC 6533, 5):
//!
//! | headers | with body | without |
//! |---|---|---|
//! | UTF-8 beyond ASCII | `message/global` | `message/global-headers` |
//! | others | `message/rfc822` | `text/rfc822-headers` |

use crate::Report;

/// The original message.
pub(crate) struct Original<'a> {
    headers: &'a [u8],
    body: Option<&'a [u8]>,
}

impl<'a> Original<'a> {
    /// The message of a report.
    pub(crate) fn of(report: &Report<'a>) -> Original<'a> {
        Original { headers: report.headers, body: report.body }
    }

    /// Its bytes, in pieces.
    pub(crate) fn pieces(&self) -> [&'a [u8]; 2] {
        [self.headers, self.body.unwrap_or_default()]
    }

    /// Its media type.
    pub(crate) fn content_type(&self) -> &'static str {
        let is_international = !self.headers.is_ascii() && str::from_utf8(self.headers).is_ok();
        match (is_international, self.body.is_some()) {
            (true, true) => "message/global",
            (true, false) => "message/global-headers",
            (false, true) => "message/rfc822",
            (false, false) => "text/rfc822-headers",
        }
    }

    /// Returns true if it has bytes beyond ASCII.
    ///
    /// It is labelled `8bit` then, never `binary`, for which an agent would have to refuse it.
    pub(crate) fn is_8bit(&self) -> bool {
        self.pieces().iter().any(|piece| !piece.is_ascii())
    }

    /// Appends the message as it is.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.headers);
        if !self.headers.is_empty() && !self.headers.ends_with(b"\n") {
            out.push(b'\n');
        }
        if let Some(body) = self.body {
            out.push(b'\n');
            out.extend_from_slice(body);
        }
    }
}

/// The value of the first header of a name, with the line ends inside of it.
pub(crate) fn header<'a>(headers: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = headers;
    while !rest.is_empty() {
        let end = end_of_header(rest);
        let (line, after) = rest.split_at(end);
        if line.len() > name.len()
            && line[name.len()] == b':'
            && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        {
            return Some(&line[name.len() + 1..]);
        }
        rest = after;
    }
    None
}

/// The length of the first header. The lines that continue it begin with a blank.
fn end_of_header(headers: &[u8]) -> usize {
    let mut ends = memchr::memchr_iter(b'\n', headers).map(|at| at + 1);
    let is_end = |end: &usize| !matches!(headers.get(*end), Some(b' ' | b'\t'));
    ends.find(is_end).unwrap_or(headers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_found_with_their_continuations() {
        let headers = b"X-Subject: no\nSUBJECT: a\n\tb\n c\nsubject: second\nMessage-ID:<x>";
        assert_eq!(header(headers, "Subject"), Some(&b" a\n\tb\n c\n"[..]));
        assert_eq!(header(headers, "Message-ID"), Some(&b"<x>"[..]));
        assert_eq!(header(headers, "To"), None);
        assert_eq!(header(b"", "To"), None);
    }
}
