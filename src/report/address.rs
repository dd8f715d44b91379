//! Addresses: the envelope, recipient fields, headers.

use crate::field::{Charset, one_line};
use zsched_format::xtext;

/// Maximum length of an address in a field or text, in bytes: RFC 5321, 4.5.3.1, and quotes.
pub(crate) const MAX_ADDRESS_LEN: usize = 330;
/// Maximum length of an address in a header.
const MAX_HEADER_ADDRESS_LEN: usize = 900;

const POSTMASTER: &[u8] = b"postmaster";

/// Returns the address that a report is sent to; `None` for the null sender.
///
/// Reports to a program or a file, and to addresses that do not fit into a line, go to the
/// postmaster.
pub(crate) fn report_mailbox(sender: Option<&[u8]>) -> Option<&[u8]> {
    let sender = without_brackets(sender?.trim_ascii());
    let is_x400 = sender.contains(&b'@') && sender.contains(&b'=');
    match sender.first()? {
        b'|' => Some(POSTMASTER),
        b'/' if !is_x400 => Some(POSTMASTER),
        _ if sender.iter().any(u8::is_ascii_control) => Some(POSTMASTER),
        _ => Some(sender),
    }
}

fn without_brackets(address: &[u8]) -> &[u8] {
    let inner = address.strip_prefix(b"<").and_then(|rest| rest.strip_suffix(b">"));
    inner.unwrap_or(address)
}

/// Returns true for an address with characters beyond ASCII (RFC 6531).
pub(crate) fn is_international(address: &[u8]) -> bool {
    !address.is_ascii() && std::str::from_utf8(address).is_ok()
}

/// An address in the form `type;xtext`, for `ORCPT` (RFC 3461, 4.2; RFC 6533, 3).
pub(crate) fn to_orcpt(address: &[u8]) -> String {
    match std::str::from_utf8(address) {
        Ok(address) if !address.is_ascii() => {
            let coded = address.chars().map(|c| match c {
                c if c.is_ascii() => xtext::encode(&[c as u8]),
                c => format!("\\x{{{:X}}}", u32::from(c)),
            });
            format!("utf-8;{}", coded.collect::<String>())
        }
        _ => format!("rfc822;{}", xtext::encode(address)),
    }
}

/// The address in a value of `ORCPT` or `INRCPT`.
pub(crate) struct TypedAddress {
    /// The address type, such as `rfc822`.
    pub(crate) kind: String,
    /// The address, decoded.
    pub(crate) address: Vec<u8>,
}

impl TypedAddress {
    /// Parses `type;xtext`. A value without a type is an RFC 822 address.
    pub(crate) fn parse(value: &[u8]) -> Option<TypedAddress> {
        const MAX_KIND_LEN: usize = 32;
        let value = value.trim_ascii();
        let (kind, coded) = match memchr::memchr(b';', value) {
            Some(at) => (value[..at].trim_ascii(), &value[at + 1..]),
            None => (&b"rfc822"[..], value),
        };
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        let kind = match kind.len() <= MAX_KIND_LEN && kind.iter().all(is_token) {
            true => String::from_utf8_lossy(kind).to_ascii_lowercase(),
            false => "x-unknown".to_string(),
        };
        let mut address = xtext::decode(coded.trim_ascii());
        if kind == "utf-8" {
            address = with_characters(&address);
        }
        (!address.is_empty() && !kind.is_empty()).then_some(TypedAddress { kind, address })
    }

    /// A final recipient: an address of the Internet, or something of this system.
    pub(crate) fn of_final(address: &[u8]) -> TypedAddress {
        let is_internet = address.contains(&b'@') && !address.starts_with(b"ns:");
        let kind = match is_international(address) {
            true => "utf-8",
            false if is_internet => "rfc822",
            false => "x-local",
        };
        TypedAddress { kind: kind.to_string(), address: address.to_vec() }
    }

    /// The value of a field: `rfc822; bob@example.net`.
    pub(crate) fn to_field(&self, charset: Charset) -> String {
        format!("{}; {}", self.kind, one_line(&self.address, MAX_ADDRESS_LEN, charset))
    }
}

/// Replaces the characters that are written as `\x{E9}` (RFC 6533, 3).
fn with_characters(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, b"\\x{") {
        decoded.extend_from_slice(&rest[..at]);
        let digits = &rest[at + 3..];
        match hex_character(digits) {
            Some((c, len)) => {
                decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &digits[len..];
            }
            None => {
                decoded.extend_from_slice(&rest[at..at + 3]);
                rest = digits;
            }
        }
    }
    decoded.extend_from_slice(rest);
    decoded
}

/// The character of digits that `}` ends, and the length of both.
fn hex_character(text: &[u8]) -> Option<(char, usize)> {
    const MAX_DIGITS: usize = 6;
    let end = text.iter().take(MAX_DIGITS + 1).position(|byte| *byte == b'}')?;
    let digits = std::str::from_utf8(&text[..end]).ok()?;
    Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, end + 1))
}

/// Returns the address if it can stand in a header as it is (RFC 5322, 3.4.1; RFC 6532).
///
/// Paths such as `host!user` can, too.
pub(crate) fn in_header(address: &[u8]) -> Option<&str> {
    let address =
        std::str::from_utf8(address).ok().filter(|a| a.len() <= MAX_HEADER_ADDRESS_LEN)?;
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, "localhost"));
    let is_literal = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_domain = match is_literal {
        Some(literal) => literal.bytes().all(|b| b.is_ascii_alphanumeric() || b".:-".contains(&b)),
        None => is_dot_atom(domain),
    };
    ((is_dot_atom(local) || is_quoted(local)) && is_domain).then_some(address)
}

fn is_dot_atom(text: &str) -> bool {
    let is_atom_character = |c: char| match c {
        c if c.is_ascii() => c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c),
        c => zsched_format::printable::is_printable(c) && !c.is_whitespace(),
    };
    !text.is_empty() && text.chars().all(is_atom_character)
}

fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|inner| {
        let mut characters = inner.chars();
        while let Some(c) = characters.next() {
            let is_plain = match c {
                '"' => false,
                '\\' => characters.next().is_some_and(|c| matches!(c, ' '..='~')),
                c => matches!(c, ' '..='~'),
            };
            if !is_plain {
                return false;
            }
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_address_is_a_mailbox() {
        for (sender, address) in [
            ("", None),
            ("<>", None),
            ("<a@b.test>", Some("a@b.test")),
            ("zm.example.test!games", Some("zm.example.test!games")),
            ("|/usr/bin/vacation", Some("postmaster")),
            ("/var/mail/x", Some("postmaster")),
            ("/C=fi/S=x/@gw.test", Some("/C=fi/S=x/@gw.test")),
            ("a@b.test>\nto <c@d.test", Some("postmaster")),
        ] {
            let expected = address.map(str::as_bytes);
            assert_eq!(report_mailbox(Some(sender.as_bytes())), expected, "{sender:?}");
        }
        assert_eq!(report_mailbox(None), None);
    }

    #[test]
    fn typed_addresses_are_decoded() {
        for (value, field) in [
            ("rfc822;bob+2Bx@example.net", Some("rfc822; bob+x@example.net")),
            ("bob@example.net", Some("rfc822; bob@example.net")),
            ("X.400; /C=fi", Some("x-unknown; /C=fi")),
            ("utf-8;d\\x{F6}rte@x\\x{zz}\\x{", Some("utf-8; d\u{f6}rte@x\\x{zz}\\x{")),
            ("rfc822;a+0AFinal-Recipient:+20x", Some("rfc822; a Final-Recipient: x")),
            ("rfc822;", None),
            (";x", None),
        ] {
            let parsed = TypedAddress::parse(value.as_bytes());
            let shown = parsed.map(|typed| typed.to_field(Charset::Utf8));
            assert_eq!(shown.as_deref(), field, "{value}");
        }
        assert_eq!(to_orcpt("d\u{f6}rte+1@x".as_bytes()), "utf-8;d\\x{F6}rte+2B1@x");
        assert_eq!(to_orcpt(b"d\xf6rte@x"), "rfc822;d+F6rte@x");
    }

    #[test]
    fn final_address_has_a_type() {
        for (address, field) in [
            ("bob@example.net", "rfc822; bob@example.net"),
            ("/var/mail/bob", "x-local; /var/mail/bob"),
            ("ns:bob@x", "x-local; ns:bob@x"),
            ("b\u{f6}b@x", "utf-8; b\u{f6}b@x"),
        ] {
            assert_eq!(TypedAddress::of_final(address.as_bytes()).to_field(Charset::Utf8), field);
        }
    }

    #[test]
    fn only_plain_addresses_stand_in_headers() {
        for (address, is_plain) in [
            ("bob@example.net", true),
            ("b\u{f6}b@x\u{e9}.test", true),
            ("\"a b\\\"\"@x.test", true),
            ("bob@[IPv6:2001:db8::1]", true),
            ("zm!games", true),
            ("postmaster", true),
            ("a, b@x.test", false),
            ("a@x.test>, <b@x.test", false),
            ("\"a\"b\"@x.test", false),
            ("\"a\\\"@x.test", false),
            ("a@x(b", false),
            ("a@", false),
            ("", false),
        ] {
            assert_eq!(in_header(address.as_bytes()).is_some(), is_plain, "{address}");
        }
    }
}
