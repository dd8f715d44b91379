//! Address patterns: `*` matches any text, `?` one byte.
//!
//! Case is ignored. Brackets stand for themselves, as they occur in addresses.

/// Maximum length of a pattern, in bytes.
///
/// It is longer than any valid address (RFC 5321, 4.5.3.1).
pub(super) const MAX_PATTERN_LEN: usize = 512;

/// A pattern of senders or recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPattern(Box<[u8]>);

impl AddressPattern {
    /// Parses a pattern; `<>` is the null sender. `Err` describes the error.
    pub fn parse(text: &str) -> Result<AddressPattern, String> {
        match text {
            "" => Err("an address or a pattern is missing; <> is the null sender".to_string()),
            _ if text.len() > MAX_PATTERN_LEN => {
                Err(format!("a pattern of more than {MAX_PATTERN_LEN} bytes"))
            }
            "<>" => Ok(AddressPattern([].into())),
            _ => Ok(AddressPattern(text.to_ascii_lowercase().into_bytes().into())),
        }
    }

    /// Returns true if an address matches.
    ///
    /// `None` is the null sender, which matches only `<>` and patterns that consist of `*` only.
    pub fn matches(&self, address: Option<&[u8]>) -> bool {
        let (pattern, address) = (&self.0, address.unwrap_or_default());
        let (mut in_pattern, mut in_address) = (0, 0);
        // Position of the last `*`, and the end of the part of the address that it covers.
        let mut star: Option<(usize, usize)> = None;
        while let Some(next) = address.get(in_address).map(u8::to_ascii_lowercase) {
            match pattern.get(in_pattern) {
                Some(b'*') => {
                    star = Some((in_pattern, in_address));
                    in_pattern += 1;
                }
                Some(byte) if *byte == b'?' || *byte == next => {
                    (in_pattern, in_address) = (in_pattern + 1, in_address + 1);
                }
                _ => match &mut star {
                    Some((star_at, covered)) => {
                        *covered += 1;
                        (in_pattern, in_address) = (*star_at + 1, *covered);
                    }
                    None => return false,
                },
            }
        }
        pattern[in_pattern..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards_match_addresses() {
        for (pattern, address, expected) in [
            ("bob@x.test", Some("Bob@X.Test"), true),
            ("*@x.test", Some("bob@x.test"), true),
            ("*@x.test", Some("bob@xxtest"), false),
            ("*@[127.0.0.?]", Some("a@[127.0.0.1]"), true),
            ("a*b*c", Some("aXbXbc"), true),
            ("a*b*c", Some("aXbXb"), false),
            ("?", Some(""), false),
            ("*", None, true),
            ("<>", None, true),
            ("<>", Some("a"), false),
            ("a*", None, false),
        ] {
            let pattern = AddressPattern::parse(pattern).expect("a pattern");
            assert_eq!(
                pattern.matches(address.map(str::as_bytes)),
                expected,
                "{pattern:?} {address:?}"
            );
        }
        assert!(AddressPattern::parse("").is_err());
        assert!(AddressPattern::parse(&"x".repeat(MAX_PATTERN_LEN + 1)).is_err());
    }

    /// The plain definition, in exponential time.
    fn matches(pattern: &[u8], address: &[u8]) -> bool {
        match (pattern, address) {
            ([], rest) => rest.is_empty(),
            ([b'*', after @ ..], rest) => {
                (0..=rest.len()).any(|skip| matches(after, &rest[skip..]))
            }
            ([_, ..], []) => false,
            ([first, after @ ..], [byte, rest @ ..]) => {
                (*first == b'?' || first == byte) && matches(after, rest)
            }
        }
    }

    proptest! {
        #[test]
        fn pattern_matches_like_plain_definition(pattern in "[ab?*]{1,8}", address in "[ab]{0,10}") {
            let expected = matches(pattern.as_bytes(), address.as_bytes());
            let pattern = AddressPattern::parse(&pattern).expect("a pattern");
            prop_assert_eq!(pattern.matches(Some(address.as_bytes())), expected);
        }
    }
}
