//! Parses the addresses in a To, Cc or Bcc header (RFC 5322, 3.4).
//!
//! Names, comments, groups and routes are skipped.

/// A syntax error in an address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressListError(&'static str);

/// Returns the addresses of a list.
///
/// Quotes are kept, since they are part of an address.
pub(crate) fn addresses(list: &[u8]) -> Result<Vec<String>, AddressListError> {
    let mut reader = Reader::default();
    for &byte in list {
        reader.take(byte)?;
    }
    reader.finish()
}

/// The context of the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ParseContext {
    #[default]
    Words,
    Quotes,
    /// `[192.0.2.1]`
    Literal,
    /// Comments may be nested.
    Comment(u32),
}

#[derive(Default)]
struct Reader {
    found: Vec<String>,
    within: ParseContext,
    /// True after a backslash in quotes or in a comment.
    is_escaped: bool,
    /// True if there was a blank since the last word.
    is_apart: bool,
    /// Text outside angle brackets since the last comma: an address or a display name.
    outside: Text,
    /// Text inside angle brackets, and true if they are closed.
    inside: Option<(Text, bool)>,
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
    fn push(&mut self, byte: u8, is_apart: bool) {
        let joins = |byte: &u8| matches!(byte, b'.' | b'@');
        let is_joined = joins(&byte) || self.bytes.last().is_none_or(joins);
        self.has_gap |= is_apart && !is_joined;
        self.bytes.push(byte);
    }
}

impl Reader {
    fn take(&mut self, byte: u8) -> Result<(), AddressListError> {
        match self.within {
            ParseContext::Words => return self.take_word(byte),
            ParseContext::Comment(depth) => self.take_comment(byte, depth),
            ParseContext::Quotes => {
                self.push(byte);
                if byte == b'"' && !self.is_escaped {
                    self.within = ParseContext::Words;
                }
                self.is_escaped = byte == b'\\' && !self.is_escaped;
            }
            ParseContext::Literal => {
                self.push(byte);
                if byte == b']' {
                    self.within = ParseContext::Words;
                }
            }
        }
        Ok(())
    }

    fn take_comment(&mut self, byte: u8, depth: u32) {
        let was_escaped = std::mem::take(&mut self.is_escaped);
        match byte {
            _ if was_escaped => {}
            b'\\' => self.is_escaped = true,
            b'(' => self.within = ParseContext::Comment(depth + 1),
            b')' if depth == 1 => self.within = ParseContext::Words,
            b')' => self.within = ParseContext::Comment(depth - 1),
            _ => {}
        }
    }

    fn take_word(&mut self, byte: u8) -> Result<(), AddressListError> {
        let is_in_brackets = matches!(self.inside, Some((_, false)));
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => self.is_apart = true,
            b'(' => {
                self.within = ParseContext::Comment(1);
                self.is_apart = true;
            }
            b'<' if self.inside.is_some() => return Err(AddressListError("a second <")),
            b'<' => self.inside = Some((Text::default(), false)),
            b'>' => match &mut self.inside {
                Some((_, is_closed)) if !*is_closed => *is_closed = true,
                _ => return Err(AddressListError("a > without <")),
            },
            b',' | b';' if !is_in_brackets => self.end_address()?,
            // Neither the name of a group nor the hosts of a route are an address.
            b':' if is_in_brackets => self.inside = Some((Text::default(), false)),
            b':' => self.outside = Text::default(),
            0..0x20 | 0x7f => return Err(AddressListError("a control character")),
            _ if matches!(self.inside, Some((_, true))) => {
                return Err(AddressListError("text after the > of an address"));
            }
            _ => {
                self.within = match byte {
                    b'"' => ParseContext::Quotes,
                    b'[' => ParseContext::Literal,
                    _ => ParseContext::Words,
                };
                self.push(byte);
            }
        }
        Ok(())
    }

    fn push(&mut self, byte: u8) {
        let is_apart = std::mem::take(&mut self.is_apart);
        let text = match &mut self.inside {
            Some((inside, _)) => inside,
            None => &mut self.outside,
        };
        text.push(byte, is_apart);
    }

    fn end_address(&mut self) -> Result<(), AddressListError> {
        let outside = std::mem::take(&mut self.outside);
        let address = match self.inside.take() {
            Some((_, false)) => return Err(AddressListError("a < without >")),
            Some((inside, true)) if inside.bytes.is_empty() => {
                return Err(AddressListError("no address between < and >"));
            }
            Some((inside, true)) => inside,
            None => outside,
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

    fn finish(mut self) -> Result<Vec<String>, AddressListError> {
        if self.within != ParseContext::Words {
            return Err(AddressListError("unclosed quote, bracket or comment"));
        }
        self.end_address()?;
        Ok(self.found)
    }
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
