//! Matches addresses with the recipients in a control file, which a helper thread has read.

use super::selection::Addresses;
use std::collections::BTreeMap;
use zsched_format::control_file::{ControlFile, Recipient, Tag, bare_message_id, message_id};

impl Addresses {
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
    use super::super::address_pattern::AddressPattern;
    use super::*;
    use zsched_format::control_file::parse;

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
