//! The mboxrd form of a message: lines that a reader of the file could take for the beginning of the
//! next one get a `>` in front.
//!
//! ```text
//! From here on     ->  >From here on
//! >From here on    ->  >>From here on
//! ```
//!
//! So a reader that knows the form can take exactly one `>` away again.

use std::io::{self, Write};

const FROM: &[u8] = b"From ";

/// Quotes what is written to it. Needs no more memory for a long line than for a short one.
pub struct Quoting<W> {
    inner: W,
    place: Place,
}

/// Where in a line we are.
#[derive(Clone, Copy)]
enum Place {
    /// Nothing but this many `>` and the first bytes of `From ` so far, none of them written yet.
    Beginning { arrows: u64, matched: usize },
    /// Behind that.
    Inside,
}

const LINE_START: Place = Place::Beginning { arrows: 0, matched: 0 };

impl<W: Write> Quoting<W> {
    /// Quotes what goes to `inner`, beginning with a new line.
    pub fn new(inner: W) -> Quoting<W> {
        Quoting { inner, place: LINE_START }
    }

    /// Ends the message: completes its last line, then adds the empty line that parts it from the
    /// next message.
    pub fn finish(mut self) -> io::Result<W> {
        if let Place::Beginning { arrows: 0, matched: 0 } = self.place {
            self.inner.write_all(b"\n")?;
        } else {
            self.release()?;
            self.inner.write_all(b"\n\n")?;
        }
        Ok(self.inner)
    }

    /// Writes what has been kept back.
    fn release(&mut self) -> io::Result<()> {
        if let Place::Beginning { arrows, matched } = self.place {
            self.place = Place::Inside;
            if matched == FROM.len() {
                self.inner.write_all(b">")?;
            }
            io::copy(&mut io::Read::take(io::repeat(b'>'), arrows), &mut self.inner)?;
            self.inner.write_all(&FROM[..matched])?;
        }
        Ok(())
    }

    /// Takes one byte at the beginning of a line; `false` if it does not belong there.
    fn take(&mut self, byte: u8) -> bool {
        let Place::Beginning { arrows, matched } = &mut self.place else { return false };
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
                self.place = LINE_START;
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
    fn only_lines_that_look_like_a_beginning_are_quoted() {
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
        fn one_arrow_less_gives_the_message_back(text in "(>|From |F|x|\n){0,40}", cut: usize) {
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
