//! Lines about mail in the log: text for people and `grep`.
//!
//! ```text
//! S4711Ab: arrived, message-id=<1@x>, from=<a@x>, size=2048, nrcpt=3
//! S4711Ab: to=<b@y>, destination=smtp/mx.y, relay=mx.y (192.0.2.1), delay=31.65,
//!     delays=0.15/30.00/1.50, dsn=2.1.5, status=delivered (smtp; 250 ok)
//! ```
//!
//! The fields are Postfix's where they can be, and always there, in this order. What others have
//! written is made printable, is cut, and cannot end its field: `>` is escaped in addresses, the
//! comma in destinations and relays. Only the text comes last, and is free.

use zsched_format::printable;

/// Maximum length of an address, a Message-ID, a destination or a relay, in characters.
const MAX_FIELD_LEN: usize = 320;
/// Maximum length of the text of an outcome, in characters.
const MAX_TEXT_LEN: usize = 1000;
/// What a field has without a value.
const NO_VALUE: &str = "none";

/// Appends parts of a line as they are.
pub(super) fn push_all(out: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// Appends a number in decimal.
pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends seconds with two decimals. `{:.2}` takes more than three times as long.
pub(super) fn push_seconds(out: &mut Vec<u8>, seconds: f64) {
    let hundredths = (seconds * 100.0).round() as u64;
    push_number(out, hundredths / 100);
    out.extend([b'.', b'0' + (hundredths / 10 % 10) as u8, b'0' + (hundredths % 10) as u8]);
}

/// Appends an address or a Message-ID in angle brackets.
pub(super) fn push_address(out: &mut Vec<u8>, address: Option<&[u8]>) {
    let Some(address) = address else {
        return out.extend_from_slice(NO_VALUE.as_bytes());
    };
    let bare = address.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">"));
    out.push(b'<');
    push(out, bare.unwrap_or(address), MAX_FIELD_LEN, &['<', '>']);
    out.push(b'>');
}

/// Appends a value that a comma ends.
pub(super) fn push_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => push(out, value, MAX_FIELD_LEN, &[',']),
        None => out.extend_from_slice(NO_VALUE.as_bytes()),
    }
}

/// Appends the text of an outcome in parentheses, if there is one.
pub(super) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.trim_ascii();
    if !text.is_empty() {
        out.extend_from_slice(b" (");
        push(out, text, MAX_TEXT_LEN, &[]);
        out.push(b')');
    }
}

/// Appends printable text, without TABs and with `escaped` in hexadecimal.
fn push(out: &mut Vec<u8>, text: &[u8], max_len: usize, escaped: &[char]) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !escaped.contains(&(*byte as char));
    if text.len() <= max_len && text.iter().all(is_plain) {
        return out.extend_from_slice(text);
    }
    // A character has up to four bytes, so this cuts none that is shown.
    let text = &text[..text.len().min(4 * max_len + 4)];
    for (index, c) in printable::line(text).chars().enumerate() {
        match c {
            _ if index == max_len => return out.extend_from_slice(b"..."),
            '\t' => out.extend_from_slice(b"^I"),
            _ if escaped.contains(&c) => {
                out.extend_from_slice(format!("\\x{:02x}", u32::from(c)).as_bytes());
            }
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).expect("printable text is UTF-8")
    }

    #[test]
    fn hostile_address_cannot_end_its_field_or_line() {
        let hostile: &[u8] = b"a>, status=delivered\n\x1b[2J\t\xff<b";
        assert_eq!(
            pushed(|out| push_address(out, Some(hostile))),
            "<a\\x3e, status=delivered^J^[[2J^I\\xff\\x3cb>"
        );
        let hostile: &[u8] = b"mx, status=delivered\r\xc2\x9b";
        assert_eq!(
            pushed(|out| push_value(out, Some(hostile))),
            "mx\\x2c status=delivered \\u{9b}"
        );
    }

    #[test]
    fn seconds_have_two_decimals() {
        for (seconds, expected) in
            [(0.0, "0.00"), (0.004, "0.00"), (0.05, "0.05"), (31.648, "31.65"), (0.999, "1.00")]
        {
            assert_eq!(pushed(|out| push_seconds(out, seconds)), expected);
        }
    }

    #[test]
    fn missing_values_are_named() {
        assert_eq!(pushed(|out| push_address(out, Some(b""))), "<>");
        assert_eq!(pushed(|out| push_address(out, Some(b"<1@x>"))), "<1@x>");
        assert_eq!(pushed(|out| push_address(out, None)), "none");
        assert_eq!(pushed(|out| push_value(out, None)), "none");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(MAX_FIELD_LEN + 1);
        let shown = pushed(|out| push_address(out, Some(long.as_bytes())));
        assert_eq!(shown, format!("<{}...>", "é".repeat(MAX_FIELD_LEN)));
        let whole = "é".repeat(MAX_TEXT_LEN);
        assert_eq!(pushed(|out| push_text(out, whole.as_bytes())), format!(" ({whole})"));
        assert_eq!(pushed(|out| push_text(out, b"\r ")), "");
        let longer = vec![b'\xff'; 100 << 10];
        let shown = pushed(|out| push_text(out, &longer));
        assert_eq!(shown.len(), " (...)".len() + MAX_TEXT_LEN);
    }
}
