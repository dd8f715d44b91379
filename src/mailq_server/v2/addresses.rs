//! Criteria for senders, recipients and Message-IDs, and their comparison with control files.
//!
//! In a pattern `*` matches any text, `?` one byte. Case is ignored. Brackets stand for themselves,
//! as they occur in addresses.

use std::collections::BTreeMap;
use zsched_format::control_file::{ControlFile, Recipient, Tag, bare_message_id, message_id};

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

/// Sender and recipient criteria, which only the control files can answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The sender matches this.
    pub sender: Option<AddressPattern>,
    /// One of the recipients for the same destination matches this.
    pub recipient: Option<AddressPattern>,
    /// The Message-ID, without angle brackets, is this one.
    pub message_id: Option<String>,
}

impl Addresses {
    /// Returns true if at least one criterion is given.
    pub fn is_given(&self) -> bool {
        self.means_recipients() || self.message_id.is_some()
    }

    /// Returns true if they distinguish recipients of a message.
    pub(super) fn means_recipients(&self) -> bool {
        self.sender.is_some() || self.recipient.is_some()
    }

    /// Returns for each destination if one of its unfinished recipients matches.
    ///
    /// A destination is channel, LF and host, in lower case.
    pub fn matches_in(&self, file: &ControlFile, destinations: &[&[u8]]) -> Vec<bool> {
        let is_other =
            |wanted: &String| message_id(file).is_none_or(|id| bare_message_id(&id) != wanted);
        if self.message_id.as_ref().is_some_and(is_other) {
            return vec![false; destinations.len()];
        }
        let mut found: BTreeMap<&[u8], bool> =
            destinations.iter().map(|destination| (*destination, false)).collect();
        let to_do = |recipient: &&Recipient| matches!(recipient.tag, Tag::Pending | Tag::Locked);
        let mut destination = Vec::new();
        for recipient in file.recipients.iter().filter(to_do) {
            destination.clear();
            destination.extend_from_slice(file.get(recipient.quad.channel));
            destination.push(b'\n');
            destination.extend_from_slice(file.get(recipient.quad.host));
            destination.make_ascii_lowercase();
            if let Some(matches @ false) = found.get_mut(destination.as_slice()) {
                *matches = self.matches_recipient(file, recipient);
            }
        }
        destinations.iter().map(|destination| found[destination]).collect()
    }

    fn matches_recipient(&self, file: &ControlFile, recipient: &Recipient) -> bool {
        let sender = || file.sender_address(recipient);
        let address = || Some(file.get(recipient.quad.user));
        self.sender.as_ref().is_none_or(|pattern| pattern.matches(sender()))
            && self.recipient.as_ref().is_none_or(|pattern| pattern.matches(address()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zsched_format::control_file::parse;

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

    #[test]
    fn one_recipient_must_match_all_criteria() {
        let text = "i 7\ns local - Ann@x.test 0\nr           SMTP mx.Test bob@mx.test 0\n\
             r+          smtp mx.test done@mx.test 0\nm\n\ns error - x 0\n\
             r           smtp mx.test carol@mx.test 0\nr           local - dave 0\nm\n\n";
        let file = parse(text.into()).expect("a good control file");
        let matches_in = |sender: Option<&str>, recipient: Option<&str>| {
            let pattern = |text: &str| AddressPattern::parse(text).expect("a pattern");
            let addresses = Addresses {
                sender: sender.map(pattern),
                recipient: recipient.map(pattern),
                message_id: None,
            };
            addresses.matches_in(&file, &[b"smtp\nmx.test", b"local\n-", b"smtp\nother"])
        };
        assert_eq!(matches_in(Some("ann@*"), None), [true, false, false]);
        assert_eq!(matches_in(Some("<>"), None), [true, true, false]);
        assert_eq!(matches_in(None, Some("d*")), [false, true, false], "who is done is past");
        assert_eq!(matches_in(Some("ann@*"), Some("carol@*")), [false; 3]);
        assert_eq!(matches_in(Some("<>"), Some("carol@*")), [true, false, false]);
    }

    #[test]
    fn message_id_is_compared_exactly() {
        let text = "i 7\nl <A.1@x.test>\ns local - a 0\nr           smtp mx.test b 0\nm\n\n";
        let file = parse(text.into()).expect("a good control file");
        for (id, expected) in [("A.1@x.test", true), ("a.1@x.test", false), ("A.1@x", false)] {
            let addresses = Addresses { message_id: Some(id.to_string()), ..Addresses::default() };
            assert_eq!(addresses.matches_in(&file, &[b"smtp\nmx.test"]), [expected], "{id}");
        }
    }
}
