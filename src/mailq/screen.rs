//! Output of the classic listings, and quoting of foreign text.

use std::fmt;
use std::io::{self, Write};
use zsched_format::printable;

/// Prints text after making it printable.
///
/// Addresses and texts of agents can contain anything. A pipe gets the same form as a terminal,
/// since it can end in one.
pub(crate) struct Screen<W> {
    out: W,
}

impl<W: Write> Screen<W> {
    /// Prints on `out`.
    pub(crate) fn new(out: W) -> Screen<W> {
        Screen { out }
    }

    /// The writer that was printed on.
    #[cfg(test)]
    pub(crate) fn into_inner(self) -> W {
        self.out
    }

    /// Prints text within a line.
    pub(crate) fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.out.write_all(printable::line(text).as_bytes())
    }

    /// Prints a line of several parts.
    pub(crate) fn line(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            self.text(part)?;
        }
        self.out.write_all(b"\n")
    }

    /// Prints what `write!` formats.
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.out.write_all(printable::lines(&text.to_string()).as_bytes())
    }

    /// Prints held-back output, and empties it.
    pub(crate) fn release(&mut self, held: &mut Screen<Vec<u8>>) -> io::Result<()> {
        self.out.write_all(&held.out)?;
        held.out.clear();
        Ok(())
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Screen<Vec<u8>> {
    /// Length of the output, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }
}

/// Prints a message on standard error.
///
/// If standard error is closed, the exit status has to do.
pub(crate) fn warn(message: impl fmt::Display) {
    printable::print_error("mailq", message);
}

/// Makes text printable, on one line.
pub(crate) fn visible(text: &[u8]) -> String {
    printable::line(text).into_owned()
}

/// Quotes the beginning of a foreign text, for a message about it.
pub(crate) fn quote(text: &[u8]) -> String {
    const MAX_QUOTE_LEN: usize = 60;
    let shown = visible(text).replace('\t', " ");
    match shown.char_indices().nth(MAX_QUOTE_LEN) {
        Some((end, _)) => format!("\"{}...\"", &shown[..end]),
        None => format!("\"{shown}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_escapes_control_characters() {
        let mut screen = Screen::new(Vec::new());
        screen.line(&[b"a\r", b"\x1b\xff"]).expect("a Vec takes everything");
        writeln!(screen, "\u{9b}\u{202e}").expect("a Vec takes everything");
        assert_eq!(screen.out, b"a ^[\\xff\n\\u{9b}\\u{202e}\n");
    }

    #[test]
    fn quote_of_long_text_is_cut() {
        assert_eq!(quote(b"a\tb"), "\"a b\"");
        assert_eq!(quote("\u{e9}".repeat(100).as_bytes()).chars().count(), 65);
    }
}
