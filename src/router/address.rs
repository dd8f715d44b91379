//! Mail addresses (RFC 5321, 4.1.2; RFC 6531 for those in UTF-8).

use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of an address, in bytes. Agents have buffers of this order.
const MAX_ADDRESS_LEN: usize = 900;
/// Maximum length of a domain, in bytes (RFC 1035, 2.3.4).
const MAX_DOMAIN_LEN: usize = 255;
/// Maximum length of a label of a domain, in bytes.
const MAX_LABEL_LEN: usize = 63;

/// A mail address: a local part, and usually a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MailAddress {
    /// As written, perhaps quoted.
    local: String,
    /// In lower case.
    domain: Option<String>,
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct AddressError {
    /// Status code (RFC 3463): 5.1.3 for the address, 5.1.2 for its domain.
    pub status: &'static str,
    /// What is wrong, in one line.
    pub reason: String,
}

impl MailAddress {
    /// Parses an address, with or without angle brackets.
    ///
    /// A source route (`@relay:user@host`) is removed (RFC 5321, appendix C).
    pub fn parse(text: &str) -> Result<MailAddress, AddressError> {
        let text = text.trim_matches([' ', '\t']);
        let inside = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        let text = without_route(inside.unwrap_or(text))?;
        if text.len() > MAX_ADDRESS_LEN {
            return Err(in_address(format!("longer than {MAX_ADDRESS_LEN} bytes")));
        }
        let length = local_part_len(text)?;
        let (local, rest) = text.split_at(length);
        if local.is_empty() {
            return Err(in_address("it has no local part".into()));
        }
        let domain = match rest.strip_prefix('@') {
            Some(domain) => Some(parse_domain(domain)?),
            None => None,
        };
        Ok(MailAddress { local: local.into(), domain })
    }

    /// The local part as written, perhaps quoted.
    pub fn local_part(&self) -> &str {
        &self.local
    }

    /// The local part without quotes.
    pub fn mailbox(&self) -> Cow<'_, str> {
        let Some(quoted) = self.local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
        else {
            return Cow::Borrowed(&self.local);
        };
        let mut plain = String::with_capacity(quoted.len());
        let mut characters = quoted.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => plain.extend(characters.next()),
                other => plain.push(other),
            }
        }
        Cow::Owned(plain)
    }

    /// The domain in lower case; an address literal has brackets.
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    /// The address with `domain` if it has none.
    pub fn qualified(self, domain: &str) -> MailAddress {
        MailAddress { domain: self.domain.or_else(|| Some(domain.into())), ..self }
    }

    /// The same user at another domain, which is in lower case.
    pub fn at(&self, domain: &str) -> MailAddress {
        MailAddress { local: self.local.clone(), domain: Some(domain.into()) }
    }
}

impl fmt::Display for MailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.local)?;
        self.domain.iter().try_for_each(|domain| write!(f, "@{domain}"))
    }
}

fn in_address(reason: String) -> AddressError {
    AddressError { status: "5.1.3", reason }
}

fn in_domain(reason: &str) -> AddressError {
    AddressError { status: "5.1.2", reason: reason.into() }
}

/// Removes the route before an address.
fn without_route(text: &str) -> Result<&str, AddressError> {
    match text.strip_prefix('@') {
        None => Ok(text),
        Some(route) => match route.split_once(':') {
            // An IPv6 literal in a route has colons, too.
            Some((relays, address)) if !relays.contains('[') => Ok(address),
            _ => Err(in_address("a route without an address behind it".into())),
        },
    }
}

/// Length of the local part.
fn local_part_len(text: &str) -> Result<usize, AddressError> {
    if text.starts_with('"') {
        return quoted_len(text);
    }
    for (at, c) in text.char_indices() {
        match c {
            '@' => return Ok(at),
            ' ' | '\t' => return Err(in_address("a blank in it".into())),
            _ if c.is_control() => return Err(in_address("a control character in it".into())),
            '(' | ')' | '<' | '>' | '[' | ']' | ',' | ';' | ':' | '\\' | '"' => {
                return Err(in_address(format!("the character {c} in its local part")));
            }
            _ => {}
        }
    }
    Ok(text.len())
}

/// Length of a quoted local part, with its quotes.
fn quoted_len(text: &str) -> Result<usize, AddressError> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if c.is_control() => return Err(in_address("a control character in it".into())),
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' => is_escaped = true,
            '"' if at == 1 => return Err(in_address("its local part is empty".into())),
            '"' if text.len() > at + 1 && !text[at + 1..].starts_with('@') => {
                return Err(in_address("text after the quoted local part".into()));
            }
            '"' => return Ok(at + 1),
            _ => {}
        }
    }
    Err(in_address("the quote at its beginning is not closed".into()))
}

/// Checks a domain. Returns it in lower case, without a dot at its end.
pub(crate) fn parse_domain(text: &str) -> Result<String, AddressError> {
    if let Some(literal) = text.strip_prefix('[') {
        return parse_literal(literal);
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() {
        return Err(in_domain("it has no domain after the @"));
    }
    if text.len() > MAX_DOMAIN_LEN {
        return Err(in_domain("its domain is longer than 255 bytes"));
    }
    for label in text.split('.') {
        if label.is_empty() {
            return Err(in_domain("two dots in a row in its domain, or one at its beginning"));
        }
        if label.len() > MAX_LABEL_LEN {
            return Err(in_domain("a part of its domain is longer than 63 bytes"));
        }
        let is_good = |c: char| {
            matches!(c, '-' | '_') || c.is_ascii_alphanumeric() || is_letter_beyond_ascii(c)
        };
        if !label.chars().all(is_good) {
            return Err(in_domain("its domain has a character that no domain has"));
        }
    }
    Ok(text.to_lowercase())
}

fn is_letter_beyond_ascii(c: char) -> bool {
    !c.is_ascii() && !c.is_control() && !c.is_whitespace()
}

/// Checks an address literal after its `[` (RFC 5321, 4.1.3).
fn parse_literal(text: &str) -> Result<String, AddressError> {
    let text = text.strip_suffix(']').ok_or_else(|| in_domain("its [ is not closed"))?;
    if text.parse::<Ipv4Addr>().is_ok() {
        return Ok(format!("[{text}]"));
    }
    let is_v6 = text.get(..5).is_some_and(|tag| tag.eq_ignore_ascii_case("IPv6:"));
    match is_v6.then(|| text[5..].parse::<Ipv6Addr>()) {
        Some(Ok(address)) => Ok(format!("[ipv6:{address}]")),
        _ => Err(in_domain("neither an IPv4 nor an IPv6: address in its brackets")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_parsed_and_normalized() {
        for (text, expected, mailbox) in [
            ("bob@Example.ORG", "bob@example.org", "bob"),
            ("<Bob@x>", "Bob@x", "Bob"),
            (" bob ", "bob", "bob"),
            ("\"a b\\\"@c\"@X.y", "\"a b\\\"@c\"@x.y", "a b\"@c"),
            ("<@relay.x,@relay.y:a@b>", "a@b", "a"),
            ("a@[192.0.2.1]", "a@[192.0.2.1]", "a"),
            ("a@[IPv6:2001:DB8:0::1]", "a@[ipv6:2001:db8::1]", "a"),
            ("j\u{f6}rg@B\u{dc}cher.example", "j\u{f6}rg@b\u{fc}cher.example", "j\u{f6}rg"),
            ("a@b.", "a@b", "a"),
            ("a+b/c=d!e%f@g", "a+b/c=d!e%f@g", "a+b/c=d!e%f"),
        ] {
            let address =
                MailAddress::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(address.to_string(), expected);
            assert_eq!(address.mailbox(), mailbox);
        }
    }

    #[test]
    fn wrong_addresses_are_refused_with_status() {
        for (text, status) in [
            ("", "5.1.3"),
            ("@b", "5.1.3"),
            ("@relay", "5.1.3"),
            ("a b@c", "5.1.3"),
            ("a,b@c", "5.1.3"),
            ("\"a@c", "5.1.3"),
            ("\"a\"b@c", "5.1.3"),
            ("\"\"@c", "5.1.3"),
            ("a\u{1}@c", "5.1.3"),
            ("a@b@c", "5.1.2"),
            ("a@", "5.1.2"),
            ("a@b..c", "5.1.2"),
            ("a@.b", "5.1.2"),
            ("a@b c", "5.1.2"),
            ("a@[1.2.3]", "5.1.2"),
            ("a@[1.2.3.4", "5.1.2"),
            ("a@[2001:db8::1]", "5.1.2"),
            ("a@b/c", "5.1.2"),
        ] {
            assert_eq!(
                MailAddress::parse(text).map_err(|error| error.status),
                Err(status),
                "{text}"
            );
        }
        let long = format!("{}@b", "x".repeat(MAX_ADDRESS_LEN));
        MailAddress::parse(&long).expect_err("too long");
        MailAddress::parse(&format!("a@{}", "x".repeat(64))).expect_err("too long");
    }

    proptest! {
        #[test]
        fn parsed_address_parses_to_itself(text in "[a\"@\\.:<>\\[\\] é%-]{0,20}") {
            if let Ok(address) = MailAddress::parse(&text) {
                let text = address.to_string();
                prop_assert_eq!(MailAddress::parse(&text), Ok(address));
            }
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in any::<String>()) {
            if let Ok(address) = MailAddress::parse(&text) {
                prop_assert!(!address.to_string().contains(char::is_control));
            }
        }
    }
}
