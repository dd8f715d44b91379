//! Standard output, and what of foreign text a terminal may be sent.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Where everything is printed.
///
/// Texts of agents and addresses may hold anything, also what a terminal would obey. A terminal gets
/// them made [`visible`]. A file or pipe gets them as the original prints them, but for control
/// characters: who knows where the pipe ends.
pub struct Screen<W> {
    out: W,
    is_terminal: bool,
}

impl<W: Write> Screen<W> {
    /// Prints on `out`.
    pub fn new(out: W, is_terminal: bool) -> Screen<W> {
        Screen { out, is_terminal }
    }

    /// Where it has printed.
    #[cfg(test)]
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Prints foreign text.
    pub fn text(&mut self, text: &[u8]) -> io::Result<()> {
        match self.is_terminal {
            true => self.out.write_all(visible(text).as_bytes()),
            false => self.out.write_all(&without_controls(text)),
        }
    }

    /// Prints foreign texts, and a line end.
    pub fn line(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        for part in parts {
            self.text(part)?;
        }
        self.out.write_all(b"\n")
    }
}

impl<W: Write> Screen<W> {
    /// What will be printed here later, in the form that it will have.
    pub fn held(&self) -> Screen<Vec<u8>> {
        Screen { out: Vec::new(), is_terminal: self.is_terminal }
    }

    /// Prints what was held back.
    pub fn release(&mut self, held: &mut Screen<Vec<u8>>) -> io::Result<()> {
        self.out.write_all(&held.out)?;
        held.out.clear();
        Ok(())
    }
}

impl Screen<Vec<u8>> {
    /// How much there is, in bytes.
    pub fn len(&self) -> usize {
        self.out.len()
    }
}

/// What we say ourselves goes out as it is.
impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Says something on standard error. If nobody is there to hear it, the exit status must do.
pub fn complain(message: impl fmt::Display) {
    drop(writeln!(io::stderr(), "mailq: {message}"));
}

/// Text that a terminal only shows: CR, which separates the lines of a diagnostic, becomes a blank,
/// other control characters and what is not UTF-8 become `^[`, `\x9b`, `\u{9b}`. TAB stays.
pub fn visible(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\r' => shown.push(' '),
                '\t' => shown.push('\t'),
                '\0'..='\x1f' | '\x7f' => {
                    shown.push('^');
                    shown.push(char::from(character as u8 ^ 0x40));
                }
                _ if character.is_control() => shown.extend(character.escape_unicode()),
                _ => shown.push(character),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Text as it is, but for control characters other than CR and TAB, which become `^[` and the like.
fn without_controls(text: &[u8]) -> Cow<'_, [u8]> {
    let is_harmless = |byte: &u8| matches!(byte, b'\t' | b'\r' | b' '..=b'~' | 0x80..);
    if text.iter().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let shown = text.iter().flat_map(|byte| match is_harmless(byte) {
        true => vec![*byte],
        false => vec![b'^', byte ^ 0x40],
    });
    Cow::Owned(shown.collect())
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
    fn a_terminal_gets_nothing_to_obey() {
        for (text, shown) in [
            (&b"smtp; 451 caf\xc3\xa9\tx"[..], "smtp; 451 caf\u{e9}\tx"),
            (b"\r<<- RCPT\r->> 450", " <<- RCPT ->> 450"),
            (b"\x1b[2J\x07\0\x7f", "^[[2J^G^@^?"),
            (b"\x9b2J\xff", "\\x9b2J\\xff"),
            (b"\xc2\x9b2J", "\\u{9b}2J"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn a_pipe_gets_every_byte_but_controls() {
        for (is_terminal, expected) in [(false, &b"a\r^[\xff\n"[..]), (true, &b"a ^[\\xff\n"[..])] {
            let mut screen = Screen::new(Vec::new(), is_terminal);
            screen.line(&[b"a\r", b"\x1b\xff"]).expect("a Vec takes everything");
            assert_eq!(screen.out, expected);
        }
    }

    #[test]
    fn quotes_are_short() {
        assert_eq!(quote(b"a\tb"), "\"a b\"");
        assert_eq!(quote("\u{e9}".repeat(100).as_bytes()).chars().count(), 65);
    }

    proptest::proptest! {
        #[test]
        fn nothing_hides(text: Vec<u8>) {
            let shown = visible(&text);
            proptest::prop_assert!(shown.chars().all(|c| c == '\t' || !c.is_control()));
        }
    }
}
