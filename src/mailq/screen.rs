//! Standard output of the classic listings, and messages about foreign text.

use std::fmt;
use std::io::{self, Write};
use zsched_format::printable;

/// Prints text after making it printable.
///
/// Addresses and texts of agents can hold anything. A pipe gets them in the same form as a terminal: it can end in
/// one.
pub struct Screen<W> {
    out: W,
}

impl<W: Write> Screen<W> {
    /// Prints on `out`.
    pub fn new(out: W) -> Screen<W> {
        Screen { out }
    }

    /// Where it has printed.
    #[cfg(test)]
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Prints text within a line.
    pub fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.write_all(printable::line(text).as_bytes())
    }

    /// Prints a line of several parts.
    pub fn line(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            self.text(part)?;
        }
        self.out.write_all(b"\n")
    }

    /// Prints what `write!` formats.
    pub fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.out.write_all(printable::lines(&text.to_string()).as_bytes())
    }

    /// Prints what was held back.
    pub fn release(&mut self, held: &mut Screen<Vec<u8>>) -> io::Result<()> {
        self.out.write_all(&held.out)?;
        held.out.clear();
        Ok(())
    }

    /// Passes everything on to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Screen<Vec<u8>> {
    /// How much there is, in bytes.
    pub fn len(&self) -> usize {
        self.out.len()
    }
}

/// Says something on standard error. If nobody is there to hear it, the exit status must do.
pub fn complain(message: impl fmt::Display) {
    printable::complain("mailq", message);
}

/// Printable text in one line, as a `String`.
pub fn visible(text: &[u8]) -> String {
    printable::line(text).into_owned()
}

/// The beginning of a foreign text, visible, on one line and in quotes, for a message about it.
pub fn quote(text: &[u8]) -> String {
    const LONGEST: usize = 60;
    let shown = visible(text).replace('\t', " ");
    match shown.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("\"{}...\"", &shown[..end]),
        None => format!("\"{shown}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_prints_nothing_that_a_terminal_obeys() {
        let mut screen = Screen::new(Vec::new());
        screen.line(&[b"a\r", b"\x1b\xff"]).expect("a Vec takes everything");
        writeln!(screen, "\u{9b}\u{202e}").expect("a Vec takes everything");
        assert_eq!(screen.out, b"a ^[\\xff\n\\u{9b}\\u{202e}\n");
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(quote(b"a\tb"), "\"a b\"");
        assert_eq!(quote("\u{e9}".repeat(100).as_bytes()).chars().count(), 65);
    }
}
