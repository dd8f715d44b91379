//! The message as it goes over the line: CRLF line ends, dots, and no other CR or LF.

use std::borrow::Cow;
use std::io::{self, Read};
use zsched_agent::{Delivery, Message};
use zsched_format::time::Timestamp;

/// Maximum size of a message that stays in memory between counting and sending, in bytes.
const MAX_KEPT_LEN: usize = 64 * 1024;
/// Size of the parts in which a message is read, in bytes.
const PART_LEN: usize = 64 * 1024;

/// Number of bytes at the end of a long message.
///
/// They are a part of their own.
///
/// Before it, a server cannot have answered the message.
const LAST_PART_LEN: usize = 3;

/// Makes line ends CRLF.
///
/// LF and CRLF end a line. Any other CR becomes a blank: servers disagree on what it means, and
/// one that takes it for a line end could be given a second message (RFC 5321, 2.3.8).
#[derive(Debug)]
pub struct LineEncoder {
    dots: bool,
    at_line_start: bool,
    after_cr: bool,
}

impl LineEncoder {
    /// Creates the encoder. With `dots`, a dot at the beginning of a line is doubled.
    pub fn new(dots: bool) -> LineEncoder {
        LineEncoder { dots, at_line_start: true, after_cr: false }
    }

    /// Encodes a part, which may begin and end anywhere.
    pub fn encode(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while let Some(&first) = input.first() {
            if self.after_cr && first != b'\n' {
                output.push(b' ');
                self.at_line_start = false;
            }
            self.after_cr = false;
            if self.at_line_start && self.dots && first == b'.' {
                output.push(b'.');
            }
            let end = memchr::memchr2(b'\r', b'\n', input).unwrap_or(input.len());
            output.extend_from_slice(&input[..end]);
            self.at_line_start &= end == 0;
            match input.get(end) {
                Some(b'\n') => {
                    output.extend_from_slice(b"\r\n");
                    self.at_line_start = true;
                }
                Some(_) => self.after_cr = true,
                None => {}
            }
            input = &input[input.len().min(end + 1)..];
        }
    }

    /// Ends the last line, and with `dots` the message.
    pub fn finish(&mut self, output: &mut Vec<u8>) {
        if !self.at_line_start || self.after_cr {
            output.extend_from_slice(b"\r\n");
        }
        if self.dots {
            output.extend_from_slice(b".\r\n");
        }
        (self.at_line_start, self.after_cr) = (true, false);
    }
}

/// A message for some recipients, with what the envelope says about it.
pub struct Content<'a> {
    delivery: Delivery<'a>,
    message: &'a Message,
    /// Headers and body, if they are small.
    kept: Option<Vec<u8>>,
    /// Size with CRLF line ends, in bytes.
    pub size: u64,
    /// True if there are bytes above 127.
    pub is_8bit: bool,
}

impl<'a> Content<'a> {
    /// Reads and counts the message of a recipient.
    ///
    /// # Errors
    ///
    /// The message file cannot be read.
    pub fn new(delivery: &Delivery<'a>, message: &'a Message) -> io::Result<Content<'a>> {
        let mut content =
            Content { delivery: *delivery, message, kept: None, size: 0, is_8bit: false };
        let (mut encoder, mut encoded) = (LineEncoder::new(false), Vec::new());
        let (mut size, mut is_8bit, mut kept) = (0, false, Some(Vec::new()));
        content.for_each_part(|part| {
            encoder.encode(part, &mut encoded);
            size += encoded.len() as u64;
            encoded.clear();
            is_8bit |= !part.is_ascii();
            kept = kept.take().filter(|kept: &Vec<u8>| kept.len() + part.len() <= MAX_KEPT_LEN);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(part);
            }
            Ok(())
        })?;
        encoder.finish(&mut encoded);
        content.size = size + encoded.len() as u64;
        (content.is_8bit, content.kept) = (is_8bit, kept);
        Ok(content)
    }

    /// The age of the message, in seconds.
    pub fn age(&self, now: Timestamp) -> i64 {
        now.seconds() - self.message.spool_id().modified.seconds()
    }

    /// The value of a header field, if there is one. Folded lines are joined.
    pub fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        let (fields, _) = zsched_format::header::split(self.delivery.headers());
        let field = fields.iter().find(|field| field.is(name))?;
        Some(String::from_utf8_lossy(field.value()).replace(['\r', '\n'], "").into())
    }

    /// Returns true if the headers are in UTF-8, and not in ASCII.
    pub fn has_utf8_headers(&self) -> bool {
        let headers = self.delivery.headers();
        !headers.is_ascii() && std::str::from_utf8(headers).is_ok()
    }

    /// Calls `take` with the encoded message, part by part.
    ///
    /// # Errors
    ///
    /// Those of `take`, or [`ContentError::Message`] if the message cannot be read.
    pub fn send<E>(
        &self,
        dots: bool,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), ContentError<E>> {
        let (mut encoder, mut encoded) = (LineEncoder::new(dots), Vec::new());
        let (mut result, mut is_first) = (Ok(()), true);
        let read = self.for_each_part(|part| {
            encoder.encode(part, &mut encoded);
            if encoded.len() >= PART_LEN {
                let rest = encoded.len() - LAST_PART_LEN;
                result = take(&encoded[..rest]);
                encoded.drain(..rest);
                is_first = false;
            }
            if result.is_err() { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        });
        result.map_err(ContentError::Line)?;
        read.map_err(ContentError::Message)?;
        encoder.finish(&mut encoded);
        let mut rest = &encoded[..];
        if !is_first && let Some((before, last)) = rest.split_at_checked(rest.len() - LAST_PART_LEN)
        {
            take(before).map_err(ContentError::Line)?;
            rest = last;
        }
        take(rest).map_err(ContentError::Line)
    }

    fn for_each_part(&self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if let Some(kept) = &self.kept {
            return take(kept);
        }
        take(self.delivery.headers())?;
        take(b"\n")?;
        let mut body = self.delivery.body(self.message);
        let mut part = vec![0; PART_LEN];
        loop {
            match body.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(count) => take(&part[..count])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The reason why a message was not sent as a whole.
#[derive(Debug)]
pub enum ContentError<E> {
    /// The message cannot be read.
    Message(io::Error),
    /// It cannot be sent.
    Line(E),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(parts: &[&[u8]], dots: bool) -> Vec<u8> {
        let (mut encoder, mut output) = (LineEncoder::new(dots), Vec::new());
        for part in parts {
            encoder.encode(part, &mut output);
        }
        encoder.finish(&mut output);
        output
    }

    #[test]
    fn line_ends_and_dots_are_encoded() {
        for (input, dotted) in [
            ("", ".\r\n"),
            ("a", "a\r\n.\r\n"),
            ("a\nb\n", "a\r\nb\r\n.\r\n"),
            ("a\r\nb\r\n", "a\r\nb\r\n.\r\n"),
            (".\n..\n.a", "..\r\n...\r\n..a\r\n.\r\n"),
            ("a\r.\r\nb\r", "a .\r\nb\r\n.\r\n"),
            ("\n.\r\n\r\n", "\r\n..\r\n\r\n.\r\n"),
            ("a\n\r.\n", "a\r\n .\r\n.\r\n"),
            ("a\r\r\n.\r\r\nRSET", "a \r\n.. \r\nRSET\r\n.\r\n"),
        ] {
            let found = encode(&[input.as_bytes()], true);
            assert_eq!(String::from_utf8_lossy(&found), dotted, "{input:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_encoded_as_the_whole(
            text in r"[a.\r\n]{0,40}", cut in 0..40_usize, dots: bool,
        ) {
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            let whole = encode(&[text.as_bytes()], dots);
            prop_assert_eq!(&encode(&[first, second], dots), &whole);
        }

        #[test]
        fn nothing_but_the_end_looks_like_an_end(text in r"[a.\r\n]{0,40}") {
            let line = encode(&[text.as_bytes()], true);
            let line = String::from_utf8(line).unwrap();
            let without_pairs = line.replace("\r\n", "");
            prop_assert!(!without_pairs.contains(['\r', '\n']));
            let ends = line.split("\r\n").filter(|line| *line == ".").count();
            prop_assert_eq!(ends, 1);
            prop_assert!(line.ends_with(".\r\n"));
        }
    }
}
