//! Changes the lines of a message on their way to a program.

use crate::flags::Flags;
use std::borrow::Cow;
use std::io::{self, Write};

/// The beginning of a line that some programs take for a separator.
const FROM: &[u8] = b"From ";

/// A writer that changes lines as the flags `7`, `E`, `R` and `X` say.
///
/// The last line gets a line end if it has none.
pub struct LineFilter<W> {
    inner: W,
    flags: Flags,
    /// Number of bytes of `From ` that were held back at the beginning of this line.
    matched: usize,
    is_at_line_start: bool,
    /// True if the last byte was CR.
    after_cr: bool,
}

impl<W: Write> LineFilter<W> {
    /// Creates a filter that writes to `inner`.
    pub fn new(inner: W, flags: Flags) -> LineFilter<W> {
        LineFilter { inner, flags, matched: 0, is_at_line_start: true, after_cr: false }
    }

    /// Completes the last line, and returns the inner writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.release()?;
        if !self.is_at_line_start {
            self.end_line()?;
        }
        Ok(self.inner)
    }

    /// Takes a byte at the beginning of a line, if it must be held back.
    fn hold_back(&mut self, byte: u8) -> io::Result<bool> {
        if self.flags.escape_from && FROM[self.matched] == byte {
            self.matched += 1;
            if self.matched == FROM.len() {
                self.inner.write_all(b">")?;
                self.release()?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Writes the bytes that were held back; the line has begun then.
    fn release(&mut self) -> io::Result<()> {
        if self.matched > 0 {
            self.is_at_line_start = false;
            self.inner.write_all(&FROM[..self.matched])?;
            self.matched = 0;
        }
        Ok(())
    }

    /// Writes a part of a line, which has no line end.
    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        let Some(last) = text.last() else { return Ok(()) };
        if self.is_at_line_start && self.flags.double_dots && text.starts_with(b".") {
            self.inner.write_all(b".")?;
        }
        (self.is_at_line_start, self.after_cr) = (false, *last == b'\r');
        self.inner.write_all(text)
    }

    fn end_line(&mut self) -> io::Result<()> {
        let has_cr = std::mem::take(&mut self.after_cr);
        self.is_at_line_start = true;
        self.inner.write_all(if has_cr { b"\n" } else { self.flags.line_end() })
    }
}

impl<W: Write> Write for LineFilter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text: Cow<'_, [u8]> = match self.flags.seven_bit {
            true => bytes.iter().map(|byte| byte & 0x7f).collect(),
            false => bytes.into(),
        };
        let mut rest = &text[..];
        while let Some(&byte) = rest.first() {
            if self.is_at_line_start && self.hold_back(byte)? {
                rest = &rest[1..];
                continue;
            }
            self.release()?;
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let (line, behind) = rest.split_at(end);
            self.put(line)?;
            rest = behind;
            if let [b'\n', behind @ ..] = rest {
                self.end_line()?;
                rest = behind;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filtered(flags: &str, parts: &[&[u8]]) -> Vec<u8> {
        let mut filter = LineFilter::new(Vec::new(), Flags::parse(flags).0);
        for part in parts {
            filter.write_all(part).expect("a Vec takes everything");
        }
        filter.finish().expect("a Vec takes everything")
    }

    #[test]
    fn flags_change_lines() {
        for (flags, text, expected) in [
            ("-", "", ""),
            ("-", "a\n.\nFrom b", "a\n.\nFrom b\n"),
            ("X", ".\n..a\nb.\n", "..\n...a\nb.\n"),
            ("E", "From a\n>From b\nFrom\nFro", ">From a\n>From b\nFrom\nFro\n"),
            ("E", "FFrom a\nFrFrom b\n From c", "FFrom a\nFrFrom b\n From c\n"),
            ("R", "a\n\nb\r\nc\rd", "a\r\n\r\nb\r\nc\rd\r\n"),
            ("XER", ".\nFrom a", "..\r\n>From a\r\n"),
        ] {
            let found = filtered(flags, &[text.as_bytes()]);
            assert_eq!(String::from_utf8(found).expect("text"), expected, "{flags} {text:?}");
        }
    }

    #[test]
    fn cleared_bit_makes_no_unquoted_line() {
        let text = [b"a\x8a\xae\n".as_slice(), b"\xc6rom x\n"].concat();
        assert_eq!(filtered("7XE", &[&text]), b"a\n..\n>From x\n");
    }

    proptest! {
        #[test]
        fn cuts_do_not_show(text in "(From |F|\\.|x|\r|\n){0,30}", cut: usize, flags in "[XER7]{0,4}") {
            let (one, two) = text.as_bytes().split_at(cut % (text.len() + 1));
            prop_assert_eq!(filtered(&flags, &[text.as_bytes()]), filtered(&flags, &[one, two]));
        }
    }
}
