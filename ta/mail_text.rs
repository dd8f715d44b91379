//! Lines of a message that a local delivery adds or removes.

use jiff::tz::TimeZone;

/// The sender in the `From_` line of a message with the null sender.
const NULL_SENDER: &[u8] = b"MAILER-DAEMON";

/// The `From_` line before a message, without its line end: sender, and local time `now`.
///
/// `sender` is `None` for the null sender.
pub fn from_line(sender: Option<&[u8]>, now: jiff::Timestamp) -> Vec<u8> {
    let date = now.to_zoned(TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string();
    // Readers take the text up to the first blank as the sender.
    let blanks_out = |byte| if byte == b' ' { b'_' } else { byte };
    let sender = printable(sender.unwrap_or(NULL_SENDER));
    let sender: Vec<u8> = sender.into_iter().map(blanks_out).collect();
    [b"From ", &*sender, b" ", date.as_bytes()].concat()
}

/// An address without control characters, for a line of its own.
pub fn printable(address: &[u8]) -> Vec<u8> {
    address.iter().map(|&byte| if byte.is_ascii_control() { b'?' } else { byte }).collect()
}

/// The headers, line by line, without an earlier `Return-Path`.
///
/// The last hop adds its own (RFC 5321, 4.4).
pub fn without_return_path(headers: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut dropping = false;
    headers.split_inclusive(|byte| *byte == b'\n').filter(move |line| {
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            dropping = name.trim_ascii_end().eq_ignore_ascii_case(b"return-path");
        }
        !dropping
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_return_path_is_dropped_with_folded_lines() {
        let headers = b"A: 1\nreturn-path:\n <x@y>\n\tmore\nB: 2\n fold\nReturn-Path : <z>\n";
        let kept: Vec<u8> = without_return_path(headers).collect::<Vec<_>>().concat();
        assert_eq!(kept, b"A: 1\nB: 2\n fold\n");
        assert_eq!(without_return_path(b"").count(), 0);
    }

    #[test]
    fn control_characters_in_address_are_replaced() {
        assert_eq!(printable(b"a\rb\x01c d"), b"a?b?c d");
    }

    #[test]
    fn from_line_has_one_word_as_sender() {
        let line = |sender| String::from_utf8(from_line(sender, jiff::Timestamp::UNIX_EPOCH));
        let line = |sender| line(sender).expect("ASCII");
        assert!(line(Some(b"a b\n@x")).starts_with("From a_b?@x "));
        assert!(line(None).starts_with("From MAILER-DAEMON "));
        assert_eq!(line(None).lines().count(), 1);
    }
}
