//! Values of fields: one line, of limited length, without control characters.

use jiff::tz::TimeZone;
use std::fmt::Write as _;
use zsched_format::printable::is_printable;
use zsched_format::time::Timestamp;

/// The characters that a field may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    /// Others are written as in RFC 6533: `\x{E9}`.
    Ascii,
    /// Printable Unicode.
    Utf8,
}

/// Mark at the end of a value that was cut.
const CUT: &str = "...";

/// Converts to one line of at most `max_len` bytes, trimmed.
///
/// Control characters, among them line ends, become one blank; bytes that are not UTF-8 become `?`.
pub(crate) fn one_line(value: &[u8], max_len: usize, charset: Charset) -> String {
    let mut line = String::with_capacity(value.len().min(max_len));
    for chunk in value.trim_ascii().utf8_chunks() {
        let invalid = if chunk.invalid().is_empty() { None } else { Some('?') };
        for c in chunk.valid().chars().chain(invalid) {
            // A trailing blank does not count.
            if line.len() > max_len + 1 {
                break;
            }
            push(&mut line, c, charset);
        }
    }
    let line = line.trim_end();
    match line.len() <= max_len {
        true => line.to_string(),
        false => {
            let ends = (0..=max_len.saturating_sub(CUT.len())).rev();
            let end = ends.into_iter().find(|end| line.is_char_boundary(*end)).unwrap_or_default();
            format!("{}{CUT}", &line[..end])
        }
    }
}

/// A date as in headers: `Sat, 21 Nov 2026 10:04:09 +0000`.
pub(crate) fn date(time: Timestamp, zone: &TimeZone) -> String {
    let instant = jiff::Timestamp::from_second(time.seconds()).unwrap_or_default();
    instant.to_zoned(zone.clone()).strftime("%a, %-d %b %Y %H:%M:%S %z").to_string()
}

fn push(line: &mut String, c: char, charset: Charset) {
    match c {
        c if c.is_whitespace() || c.is_control() => {
            if !line.ends_with(' ') {
                line.push(' ');
            }
        }
        c if is_printable(c) && (c.is_ascii() || charset == Charset::Utf8) => line.push(c),
        c => write!(line, "\\x{{{:X}}}", u32::from(c)).expect("a String takes everything"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_one_line_of_limited_length() {
        for (value, max_len, charset, line) in [
            (&b" 550 no\r\n\tsuch \x1b[2J user "[..], 99, Charset::Ascii, "550 no such [2J user"),
            ("caf\u{e9} \u{202e}".as_bytes(), 99, Charset::Ascii, "caf\\x{E9} \\x{202E}"),
            ("caf\u{e9} \u{202e}".as_bytes(), 99, Charset::Utf8, "caf\u{e9} \\x{202E}"),
            (b"caf\xe9", 99, Charset::Utf8, "caf?"),
            (b"0123456789", 10, Charset::Ascii, "0123456789"),
            (b"01234567890", 10, Charset::Ascii, "0123456..."),
            ("\u{e9}\u{e9}\u{e9}\u{e9}".as_bytes(), 6, Charset::Utf8, "\u{e9}..."),
            (b"", 10, Charset::Ascii, ""),
        ] {
            assert_eq!(one_line(value, max_len, charset), line);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_value_becomes_one_short_line(value: Vec<u8>, max_len in 3_usize..80) {
            for charset in [Charset::Ascii, Charset::Utf8] {
                let line = one_line(&value, max_len, charset);
                proptest::prop_assert!(line.len() <= max_len);
                proptest::prop_assert!(!line.chars().any(char::is_control));
                proptest::prop_assert!(charset == Charset::Utf8 || line.is_ascii());
            }
        }
    }
}
