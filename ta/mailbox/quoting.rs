//! The mboxrd form of a message.
//!
//! A line that could be taken for the beginning of the next message gets a `>` in front.
//!
//! ```text
//! From here on     ->  >From here on
//! >From here on    ->  >>From here on
//! ```
//!
//! So a reader that supports this form can remove exactly one `>` again.

use std::io::{self, Write};

const FROM: &[u8] = b"From ";

/// A writer that quotes its input. A long line needs no more memory than a short one.
pub struct Quoting<W> {
    inner: W,
    position: LinePosition,
}

/// The position in a line.
#[derive(Clone, Copy)]
enum LinePosition {
    /// Only this many `>` and the first bytes of `From ` so far.
    ///
    /// None of them has been written.
    Beginning { arrows: u64, matched: usize },
    /// After that.
    Inside,
}

const LINE_START: LinePosition = LinePosition::Beginning { arrows: 0, matched: 0 };

impl<W: Write> Quoting<W> {
    /// Quotes the text that goes to `inner`, starting at a new line.
    pub fn new(inner: W) -> Quoting<W> {
        Quoting { inner, position: LINE_START }
    }

    /// Ends the message.
    ///
    /// Completes its last line, and adds the empty line before the next message.
    pub fn finish(mut self) -> io::Result<W> {
        if let LinePosition::Beginning { arrows: 0, matched: 0 } = self.position {
            self.inner.write_all(b"\n")?;
        } else {
            self.release()?;
            self.inner.write_all(b"\n\n")?;
        }
        Ok(self.inner)
    }

    /// Writes the bytes that were held back.
    fn release(&mut self) -> io::Result<()> {
        if let LinePosition::Beginning { arrows, matched } = self.position {
            self.position = LinePosition::Inside;
            if matched == FROM.len() {
                self.inner.write_all(b">")?;
            }
            io::copy(&mut io::Read::take(io::repeat(b'>'), arrows), &mut self.inner)?;
            self.inner.write_all(&FROM[..matched])?;
        }
        Ok(())
    }

    /// Takes one byte at the beginning of a line. Returns `false` if it does not belong there.
    fn take(&mut self, byte: u8) -> bool {
        let LinePosition::Beginning { arrows, matched } = &mut self.position else { return false };
        if byte == b'>' && *matched == 0 {
            *arrows += 1;
            return true;
        }
        if FROM.get(*matched) == Some(&byte) {
            *matched += 1;
            return true;
        }
        false
    }
}

impl<W: Write> Write for Quoting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.take(byte) {
                rest = &rest[1..];
                continue;
            }
            self.release()?;
            let end = memchr::memchr(b'\n', rest).map(|at| at + 1);
            let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
            self.inner.write_all(line)?;
            if end.is_some() {
                self.position = LINE_START;
            }
            rest = behind;
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

    fn quoted(parts: &[&[u8]]) -> String {
        let mut writer = Quoting::new(Vec::new());
        for part in parts {
            writer.write_all(part).expect("a Vec takes everything");
        }
        String::from_utf8(writer.finish().expect("a Vec takes everything")).expect("text")
    }

    #[test]
    fn only_lines_like_from_lines_are_quoted() {
        for (text, expected) in [
            ("", "\n"),
            ("a", "a\n\n"),
            ("a\n", "a\n\n"),
            ("a\n\n", "a\n\n\n"),
            ("From x", ">From x\n\n"),
            ("From ", ">From \n\n"),
            ("From", "From\n\n"),
            ("From\n", "From\n\n"),
            (">", ">\n\n"),
            (">From x\n", ">>From x\n\n"),
            (">>>From x\nFrom: y\n", ">>>>From x\nFrom: y\n\n"),
            ("> From x\n>F\n From z\n", "> From x\n>F\n From z\n\n"),
            ("FFrom x\n>From>From \n", "FFrom x\n>From>From \n\n"),
        ] {
            assert_eq!(quoted(&[text.as_bytes()]), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn quoted_text_without_one_arrow_is_original(text in "(>|From |F|x|\n){0,40}", cut: usize) {
            let (one, two) = text.as_bytes().split_at(cut % (text.len() + 1));
            let whole = quoted(&[text.as_bytes()]);
            prop_assert_eq!(&whole, &quoted(&[one, two]), "cuts do not show");
            let unquote = |line: &str| {
                let bare = line.trim_start_matches('>');
                if bare.starts_with("From ") { line[1..].to_string() } else { line.to_string() }
            };
            let lines: Vec<String> = whole.split_inclusive('\n').map(unquote).collect();
            let back = lines.concat();
            let body = back.strip_suffix('\n').expect("an empty line at the end");
            let complete = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            prop_assert_eq!(body, format!("{text}{complete}"));
        }
    }
}
