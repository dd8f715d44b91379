//! Parses the addresses in a header (RFC 5322, 3.4).
//!
//! Names, comments, groups and routes are skipped.

use std::error::Error;
use std::fmt;

/// A syntax error in an address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressListError(&'static str);

impl fmt::Display for AddressListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for AddressListError {}

/// Returns the addresses of a list.
///
/// Quotes are kept, since they are part of an address.
pub fn addresses(list: &[u8]) -> Result<Vec<String>, AddressListError> {
    let mut reader = Reader::default();
    let mut rest = list;
    while let Some(&byte) = rest.first() {
        rest = &rest[reader.take(byte, rest)?..];
    }
    reader.end_address()?;
    Ok(reader.found)
}

#[derive(Default)]
struct Reader {
    found: Vec<String>,
    /// True if there was a blank since the last word.
    is_apart: bool,
    /// Text outside angle brackets since the last comma: an address or a display name.
    outside: Text,
    /// Text inside angle brackets.
    inside: Option<Text>,
    /// True until the angle brackets are closed.
    is_inside: bool,
}

/// Text that may be an address.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    /// True if two words lack a dot or `@` between them.
    ///
    /// The text is then no address.
    has_gap: bool,
}

impl Text {
    fn push(&mut self, word: &[u8], is_apart: bool) {
        let joins = |byte: &u8| matches!(byte, b'.' | b'@');
        let is_joined = word.first().is_some_and(joins) || self.bytes.last().is_none_or(joins);
        self.has_gap |= is_apart && !is_joined;
        self.bytes.extend_from_slice(word);
    }
}

impl Reader {
    /// Takes what begins with `byte` at the beginning of `rest`. Returns its length.
    fn take(&mut self, byte: u8, rest: &[u8]) -> Result<usize, AddressListError> {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => self.is_apart = true,
            b'(' => {
                self.is_apart = true;
                return closed_len(rest, b')');
            }
            b'<' if self.inside.is_some() => return Err(AddressListError("a second <")),
            b'<' => (self.inside, self.is_inside) = (Some(Text::default()), true),
            b'>' if self.is_inside => self.is_inside = false,
            b'>' => return Err(AddressListError("a > without <")),
            b',' | b';' if !self.is_inside => self.end_address()?,
            // Neither the name of a group nor the hosts of a route are an address.
            b':' if self.is_inside => self.inside = Some(Text::default()),
            b':' => self.outside = Text::default(),
            0..0x20 | 0x7f => return Err(AddressListError("a control character")),
            _ if self.inside.is_some() && !self.is_inside => {
                return Err(AddressListError("text after the > of an address"));
            }
            _ => {
                let length = match byte {
                    b'"' => closed_len(rest, b'"')?,
                    b'[' => closed_len(rest, b']')?,
                    _ => 1,
                };
                let is_apart = std::mem::take(&mut self.is_apart);
                let text = self.inside.as_mut().unwrap_or(&mut self.outside);
                text.push(&rest[..length], is_apart);
                return Ok(length);
            }
        }
        Ok(1)
    }

    fn end_address(&mut self) -> Result<(), AddressListError> {
        let outside = std::mem::take(&mut self.outside);
        let address = match self.inside.take() {
            Some(_) if self.is_inside => return Err(AddressListError("a < without >")),
            Some(inside) if inside.bytes.is_empty() => {
                return Err(AddressListError("no address between < and >"));
            }
            inside => inside.unwrap_or(outside),
        };
        if address.has_gap {
            return Err(AddressListError("missing comma between words"));
        }
        if address.bytes.iter().any(u8::is_ascii_control) {
            return Err(AddressListError("a control character"));
        }
        if !address.bytes.is_empty() {
            let text = String::from_utf8(address.bytes);
            self.found.push(text.map_err(|_| AddressListError("an address that is not in UTF-8"))?);
        }
        Ok(())
    }
}

/// Length of a quoted text, literal or comment, with its delimiters.
///
/// Comments may be nested. A literal, such as `[192.0.2.1]`, has no escapes.
fn closed_len(text: &[u8], close: u8) -> Result<usize, AddressListError> {
    let (mut depth, mut is_escaped) = (0, false);
    for (at, byte) in text.iter().copied().enumerate().skip(1) {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' => is_escaped = close != b']',
            b'(' if close == b')' => depth += 1,
            _ if byte == close && depth == 0 => return Ok(at + 1),
            _ if byte == close => depth -= 1,
            _ => {}
        }
    }
    Err(AddressListError("unclosed quote, bracket or comment"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_found_among_names_and_comments() {
        for (list, expected) in [
            ("a@b", &["a@b"][..]),
            ("a@b, c", &["a@b", "c"]),
            (" Bob <bob@x> ,, \"D, E\" <d.e@x>", &["bob@x", "d.e@x"]),
            ("A. B. C. <a@b> (his \\) (old) address)", &["a@b"]),
            ("(who?) a (comment) @ b . c", &["a@b.c"]),
            ("\"a, \\\" b\"@c, <\"x y\"@z>", &["\"a, \\\" b\"@c", "\"x y\"@z"]),
            ("friends: a@b, C <c@d>;, e@f", &["a@b", "c@d", "e@f"]),
            ("undisclosed-recipients:;", &[]),
            ("<@relay.x,@relay.y:a@b>", &["a@b"]),
            ("a@[IPv6:2001:db8::1], b@[192.0.2.1]", &["a@[IPv6:2001:db8::1]", "b@[192.0.2.1]"]),
            ("a@b;\n c@d", &["a@b", "c@d"]),
            ("J\u{f6}rg <j\u{f6}rg@x>", &["j\u{f6}rg@x"]),
            ("", &[]),
        ] {
            let found = addresses(list.as_bytes()).expect(list);
            assert_eq!(found, expected, "{list}");
        }
        // A display name need not be in UTF-8.
        assert_eq!(addresses(b"J\xf6rg <a@b>"), Ok(vec!["a@b".to_string()]));
    }

    #[test]
    fn malformed_list_is_refused() {
        for list in [
            "alice bob",
            "a@b c@d",
            "<a@b",
            "a@b>",
            "<<a@b>>",
            "<a@b> c",
            "<>",
            "<a b@c>",
            "\"a@b",
            "a@b (comment",
            "a@[1",
            "a\0@b",
            "\"a\nb\"@c",
        ] {
            assert!(addresses(list.as_bytes()).is_err(), "{list:?}");
        }
        assert!(addresses(b"j\xf6rg@x").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_yield_addresses_without_line_ends(list in prop::collection::vec(any::<u8>(), 0..60)) {
            for address in addresses(&list).unwrap_or_default() {
                prop_assert!(!address.is_empty() && !address.contains(['\n', '\r', '\0']));
            }
        }
    }
}
