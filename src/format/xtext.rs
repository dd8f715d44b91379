//! xtext: the encoding of addresses and ids in `ORCPT`, `INRCPT` and `ENVID` (RFC 3461, 4).
//!
//! `+HH` stands for a byte; all printable ASCII characters but `+` and `=` stand for themselves.

/// Encodes bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'+' | b'=' => push_encoded(&mut text, byte),
            b'!'..=b'~' => text.push(char::from(byte)),
            _ => push_encoded(&mut text, byte),
        }
    }
    text
}

fn push_encoded(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('+');
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Decodes xtext. A `+` without two hexadecimal digits stands for itself.
pub fn decode(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let encoded = if byte == b'+' { after.get(..2).and_then(from_hex) } else { None };
        bytes.push(encoded.unwrap_or(byte));
        rest = if encoded.is_some() { &after[2..] } else { after };
    }
    bytes
}

fn from_hex(digits: &[u8]) -> Option<u8> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(value(digits[0])? << 4 | value(digits[1])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_bytes_are_encoded() {
        assert_eq!(encode(b"bob+x=y@example.net \xe9\n"), "bob+2Bx+3Dy@example.net+20+E9+0A");
    }

    #[test]
    fn malformed_encoding_stays() {
        for (text, decoded) in
            [("a+2Bb+3db", "a+b=b"), ("+", "+"), ("+2", "+2"), ("+G0", "+G0"), ("++2B", "++")]
        {
            assert_eq!(decode(text.as_bytes()), decoded.as_bytes(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn decoded_text_is_the_encoded_one(bytes: Vec<u8>) {
            let text = encode(&bytes);
            proptest::prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            proptest::prop_assert_eq!(decode(text.as_bytes()), bytes);
        }
    }
}
