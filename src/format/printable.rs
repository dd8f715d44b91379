//! Makes untrusted text safe for terminals, logs and text files.
//!
//! Addresses, host names, diagnostics, file names, command lines and answers of a peer can hold any
//! bytes. All text output of all programs goes through this module, as near to the output as
//! possible. JSON and recordings keep their contents; [`json`] only escapes them so that a terminal
//! does not interpret them.
//!
//! | in the text | printed |
//! |---|---|
//! | printable UTF-8, TAB | unchanged |
//! | CR, which separates the lines of a diagnostic | a blank |
//! | LF | a line end where lines are expected, else `^J` |
//! | other C0 characters, DEL | `^[`, `^?` |
//! | C1, bidirectional controls, line separators, invisible characters | `\u{9b}`, `\u{202e}` |
//! | bytes that are not UTF-8 | `\x9b` |
//!
//! Text is decoded first: the bytes `c2 9b` are one character, and `9b` alone is none.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Maximum length of a UTF-8 sequence, in bytes.
const MAX_UTF8_LEN: usize = 4;

/// Returns true for a character without control functions. TAB and LF are not printable.
pub fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        // Direction marks and invisible joiners: they can make a name look like another one.
        '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => false,
        _ => !c.is_control(),
    }
}

/// Converts to printable text in one line.
pub fn line<T: AsRef<[u8]> + ?Sized>(text: &T) -> Cow<'_, str> {
    printable(text.as_ref(), false)
}

/// Converts to printable text in which LF still ends lines.
pub fn lines<T: AsRef<[u8]> + ?Sized>(text: &T) -> Cow<'_, str> {
    printable(text.as_ref(), true)
}

/// Escapes unprintable characters in JSON strings, as in `\u009b`. The meaning stays the same.
pub fn json<T: AsRef<[u8]> + ?Sized>(text: &T) -> String {
    let text = String::from_utf8_lossy(text.as_ref());
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // TAB and LF can only be between values: strings in JSON cannot have them.
        if is_printable(c) || matches!(c, '\t' | '\n') {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            push(&mut shown, format_args!("\\u{unit:04x}"));
        }
    }
    shown
}

/// Formats a number with its digits in groups: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Formats a number of things: `1 message`, `1,200 messages`.
pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// Prints a message of a program to standard error.
///
/// Failure to print is ignored: only the exit status reports the error then.
pub fn print_error(program: &str, message: impl fmt::Display) {
    print_to_stderr(format_args!("{program}: {message}"));
}

/// Prints lines to standard error.
pub fn print_to_stderr(message: impl fmt::Display) {
    drop(writeln!(io::stderr(), "{}", lines(&message.to_string())));
}

/// Writes a line of a log: the time, the level of errors and warnings, and printable text.
///
/// `stamp` is the form of the time, as for `strftime`.
pub fn write_log_line(
    out: &mut impl Write,
    stamp: &str,
    record: &log::Record<'_>,
) -> io::Result<()> {
    let now = jiff::Zoned::now();
    let level = match record.level() {
        log::Level::Error => "error: ",
        log::Level::Warn => "warning: ",
        _ => "",
    };
    writeln!(out, "{} {level}{}", now.strftime(stamp), line(&record.args().to_string()))
}

/// Writer that makes its output printable. LF ends lines.
pub struct PrintableWriter<W> {
    out: W,
    /// Beginning of an incomplete UTF-8 sequence.
    rest: Vec<u8>,
}

impl<W: Write> PrintableWriter<W> {
    /// Creates a writer to `out`.
    pub fn new(out: W) -> PrintableWriter<W> {
        PrintableWriter { out, rest: Vec::with_capacity(MAX_UTF8_LEN) }
    }
}

impl<W: Write> Write for PrintableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let joined = match self.rest.is_empty() {
            true => Cow::Borrowed(bytes),
            false => Cow::Owned([&self.rest, bytes].concat()),
        };
        let (whole, rest) = joined.split_at(joined.len() - incomplete(&joined));
        self.out.write_all(lines(whole).as_bytes())?;
        self.rest = rest.to_vec();
        Ok(bytes.len())
    }

    /// Writes an incomplete sequence, too, since no more of it is expected.
    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        self.out.write_all(lines(&rest).as_bytes())?;
        self.out.flush()
    }
}

/// Length of the incomplete UTF-8 sequence at the end of a text.
fn incomplete(text: &[u8]) -> usize {
    let tail = &text[text.len().saturating_sub(MAX_UTF8_LEN - 1)..];
    let start = tail.iter().rposition(|byte| *byte >= 0xc0);
    let is_begun = |start: &usize| {
        std::str::from_utf8(&tail[*start..]).is_err_and(|error| error.error_len().is_none())
    };
    start.filter(is_begun).map_or(0, |start| tail.len() - start)
}

fn printable(text: &[u8], has_lines: bool) -> Cow<'_, str> {
    let is_kept = |c: char| is_printable(c) || c == '\t' || (has_lines && c == '\n');
    if let Ok(text) = std::str::from_utf8(text)
        && text.chars().all(is_kept)
    {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + text.len() / 2);
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                _ if is_kept(c) => shown.push(c),
                '\r' => shown.push(' '),
                '\0'..='\x1f' | '\x7f' => {
                    shown.push('^');
                    shown.push(char::from(c as u8 ^ 0x40));
                }
                _ => shown.extend(c.escape_unicode()),
            }
        }
        for byte in chunk.invalid() {
            push(&mut shown, format_args!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(shown)
}

fn push(shown: &mut String, text: fmt::Arguments<'_>) {
    shown.write_fmt(text).expect("a String takes everything");
}

/// Width of a text in columns of a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to some columns, and marks the cut with `…`.
pub fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_string();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |character: &char| {
        let width = character.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let mut shown: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts with many of the characters that are treated specially.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            any::<Vec<u8>>(),
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
            (0_u32..0xa0).prop_map(|c| char::from_u32(c).into_iter().collect::<String>().into()),
            (0x2000_u32..0x2070)
                .prop_map(|c| char::from_u32(c).into_iter().collect::<String>().into()),
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    #[test]
    fn line_with_controls_shows_them() {
        for (text, shown) in [
            (&b"smtp; 451 caf\xc3\xa9\tx"[..], "smtp; 451 caf\u{e9}\tx"),
            (b"\r<<- RCPT\r->> 450", " <<- RCPT ->> 450"),
            (b"\x1b[2J\x07\0\x7f\n", "^[[2J^G^@^?^J"),
            (b"\x9b2J\xff", "\\x9b2J\\xff"),
            (b"\xc2\x9b2J", "\\u{9b}2J"),
            ("a\u{202e}b\u{2028}c\u{feff}".as_bytes(), "a\\u{202e}b\\u{2028}c\\u{feff}"),
        ] {
            assert_eq!(line(text), shown);
        }
        assert_eq!(lines("a\nb\r\n"), "a\nb \n");
    }

    #[test]
    fn json_escaped_keeps_its_meaning() {
        let text = "{\"text\":\"a\u{9b}2J\u{7f}é\u{202e}\u{e0001}\"}";
        let shown = json(text);
        assert!(shown.chars().all(is_printable), "{shown}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(text));
    }

    #[test]
    fn writer_with_unended_sequence_shows_it_on_flush() {
        let mut writer = PrintableWriter::new(Vec::new());
        writer.write_all(b"a\xc2").expect("written");
        assert_eq!(writer.out, b"a");
        writer.flush().expect("flushed");
        assert_eq!(writer.out, b"a\\xc2");
    }

    proptest! {
        #[test]
        fn line_has_only_printable_characters_and_tabs(text in hostile()) {
            prop_assert!(line(&text).chars().all(|c| is_printable(c) || c == '\t'));
            let kept = |c| is_printable(c) || matches!(c, '\t' | '\n');
            prop_assert!(lines(&text).chars().all(kept));
        }

        #[test]
        fn printable_text_is_unchanged(text in hostile()) {
            let shown = line(&text);
            prop_assert_eq!(line(shown.as_bytes()), &*shown);
        }

        #[test]
        fn writer_output_does_not_depend_on_how_input_is_cut(
            text in hostile(), cuts: Vec<prop::sample::Index>
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut writer = PrintableWriter::new(Vec::new());
            for cut in cuts.windows(2) {
                writer.write_all(&text[cut[0]..cut[1]]).expect("a Vec takes everything");
            }
            writer.flush().expect("a Vec takes everything");
            prop_assert_eq!(String::from_utf8(writer.out).expect("UTF-8"), lines(&text));
        }
    }

    #[test]
    fn cut_counts_columns() {
        assert_eq!(cut("smtp", 4), "smtp");
        assert_eq!(cut("smtp/x", 4), "smt…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
    }
}
