//! Which peers may log in: the address list of a line of the auth file.
//!
//! ```text
//! [127.0.0.0]/8 [ipv6.0::1]/128 ![192.0.2.7] [192.0.2.0]/24 [uid:1001]
//! ```
//!
//! The first literal that matches the peer decides: it admits the peer, or refuses it if `!`
//! precedes the literal. If no literal matches, the peer is refused. An empty list admits every
//! peer. A list with a syntax error admits no peer, because it is unknown which peers its author
//! meant to refuse. ZMailer admits every peer through `[foo]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A remote address. An IPv4-mapped IPv6 address is stored as IPv4.
    Address(IpAddr),
    /// A process on this host, connected over a UNIX socket.
    ///
    /// Contains its user id if the system reports it.
    Local(Option<u32>),
}

impl Peer {
    /// Creates a peer from its address; an IPv4-mapped IPv6 address becomes IPv4.
    pub fn at(address: IpAddr) -> Peer {
        Peer::Address(address.to_canonical())
    }

    /// Returns true for a UNIX socket and for a loopback address.
    pub fn is_local(&self) -> bool {
        match self {
            Peer::Local(_) => true,
            Peer::Address(address) => address.is_loopback(),
        }
    }

    /// Returns the user id of a local process, if the system reports it.
    pub fn user(&self) -> Option<u32> {
        match self {
            Peer::Local(user) => *user,
            Peer::Address(_) => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => write!(f, "{address}"),
            Peer::Local(Some(user)) => write!(f, "local user {user}"),
            Peer::Local(None) => f.write_str("a local process"),
        }
    }
}

/// An address list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// `None` admits every peer.
    entries: Option<Vec<AclEntry>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    refuses: bool,
    matcher: Matcher,
}

/// The peers that a literal matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matcher {
    V4 { network: u32, length: u32 },
    V6 { network: u128, length: u32 },
    User(u32),
}

/// A syntax error in an address list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AclError {
    /// Text outside brackets.
    #[error("text outside brackets in the address list")]
    OutsideBrackets,
    /// A bracket that is not closed.
    #[error("unclosed bracket in the address list")]
    UnclosedBracket,
    /// The text in brackets is not an address.
    #[error(
        "text in brackets must be an IPv4 address, `IPv6:` and an address, or `uid:` and a number"
    )]
    InvalidLiteral,
    /// No valid number after a slash.
    #[error("invalid prefix length after a slash in the address list")]
    InvalidLength,
}

impl Acl {
    /// A list that admits no peer.
    pub const DENY_ALL: Acl = Acl { entries: Some(Vec::new()) };

    /// Parses a list.
    pub fn parse(text: &[u8]) -> Result<Acl, AclError> {
        if text.iter().all(|byte| *byte == b' ') {
            return Ok(Acl { entries: None });
        }
        let (mut entries, mut rest, mut refuses) = (Vec::new(), text, false);
        while let Some((first, behind)) = rest.split_first() {
            rest = match first {
                // A file that was edited on another system may have lines that end in CR LF.
                b' ' | b'\t' | b',' | b'\r' if !refuses => behind,
                b'!' if !refuses => {
                    refuses = true;
                    behind
                }
                b'[' => {
                    let (matcher, behind) = literal(behind)?;
                    entries.push(AclEntry { refuses, matcher });
                    refuses = false;
                    behind
                }
                _ => return Err(AclError::OutsideBrackets),
            };
        }
        if refuses { Err(AclError::OutsideBrackets) } else { Ok(Acl { entries: Some(entries) }) }
    }

    /// Returns true if the peer may log in.
    pub fn admits(&self, peer: &Peer) -> bool {
        let Some(entries) = &self.entries else {
            return true;
        };
        let first = entries.iter().find(|entry| entry.matcher.is(peer));
        first.is_some_and(|entry| !entry.refuses)
    }
}

/// Parses the text after an opening bracket.
///
/// Returns the literal and the remaining text.
fn literal(text: &[u8]) -> Result<(Matcher, &[u8]), AclError> {
    let end = memchr::memchr(b']', text).ok_or(AclError::UnclosedBracket)?;
    let (inside, behind) = (&text[..end], &text[end + 1..]);
    let inside = std::str::from_utf8(inside).map_err(|_| AclError::InvalidLiteral)?;
    let (length, behind) = match behind.strip_prefix(b"/") {
        Some(behind) => length(behind).map(|(length, behind)| (Some(length), behind))?,
        None => (None, behind),
    };
    let matcher = if let Some(user) = strip(inside, "uid:") {
        let user = user.parse().map_err(|_| AclError::InvalidLiteral)?;
        length.map_or(Ok(Matcher::User(user)), |_| Err(AclError::InvalidLength))?
    } else if let Some(address) = strip(inside, "ipv6:").or_else(|| strip(inside, "ipv6.")) {
        let address: Ipv6Addr = address.parse().map_err(|_| AclError::InvalidLiteral)?;
        Matcher::V6 { network: address.to_bits(), length: length.unwrap_or(128).min(128) }
    } else {
        let address: Ipv4Addr = inside.parse().map_err(|_| AclError::InvalidLiteral)?;
        Matcher::V4 { network: address.to_bits(), length: length.unwrap_or(32).min(32) }
    };
    Ok((matcher, behind))
}

/// Removes a prefix, in upper or lower case.
fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn length(text: &[u8]) -> Result<(u32, &[u8]), AclError> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, behind) = text.split_at(digits);
    let number = std::str::from_utf8(number).map_err(|_| AclError::InvalidLength)?;
    Ok((number.parse().map_err(|_| AclError::InvalidLength)?, behind))
}

impl Matcher {
    fn is(self, peer: &Peer) -> bool {
        match (self, peer) {
            (Matcher::V4 { network, length }, Peer::Address(IpAddr::V4(address))) => {
                // With length 0 the shift is by the full width, for which `checked_shr` returns
                // `None`.
                (network ^ address.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
            }
            (Matcher::V6 { network, length }, Peer::Address(IpAddr::V6(address))) => {
                (network ^ address.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
            }
            (Matcher::User(user), Peer::Local(Some(peer))) => user == *peer,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::at(text.parse().expect("an address"))
    }

    /// For 127.0.0.1, 127.0.0.2, ::1 and user 7: `in` or `no`.
    ///
    /// `bad` for a syntax error.
    fn verdict(text: &str) -> String {
        let Ok(acl) = Acl::parse(text.as_bytes()) else {
            return "bad".to_string();
        };
        let peers = [peer("127.0.0.1"), peer("127.0.0.2"), peer("::1"), Peer::Local(Some(7))];
        peers.map(|peer| if acl.admits(&peer) { "in" } else { "no" }).join(" ")
    }

    /// Results recorded from ZMailer, and the cases where this program differs on purpose.
    #[test]
    fn first_matching_literal_decides() {
        for (text, expected) in [
            ("", "in in in in"),
            ("   ", "in in in in"),
            ("[127.0.0.0]/8", "in in no no"),
            ("[127.0.0.1]", "in no no no"),
            ("![127.0.0.2]  [127.0.0.0]/8", "in no no no"),
            ("![127.0.0.2], [127.0.0.0]/8", "in no no no"),
            // ZMailer keeps the `!` in force after a single separator.
            ("![127.0.0.2] [127.0.0.0]/8", "in no no no"),
            ("[127.0.0.1]/99", "in no no no"),
            ("[10.0.0.0]/8", "no no no no"),
            ("[0.0.0.0]/0   [ipv6.0::0]/0", "in in in no"),
            ("\t[127.0.0.0]/8 [ipv6.0::1]/128", "in in in no"),
            ("[IPv6:::1]/128", "no no in no"),
            ("[iPV6.::]/0,[127.0.0.1]/31", "in no in no"),
            ("[127.0.0.0]/31", "in no no no"),
            ("[127.0.0.0]/8\r", "in in no no"),
            ("\r", "no no no no"),
            ("\t", "no no no no"),
            (",", "no no no no"),
            ("[uid:7]", "no no no in"),
            ("![uid:7] [127.0.0.1]", "in no no no"),
            // ZMailer admits every peer here.
            ("[foo]", "bad"),
            ("[ipv6.foo]", "bad"),
            ("[127.0.0.1] [foo]", "bad"),
            ("![foo]", "bad"),
            // ZMailer admits no peer here, either.
            ("[foo]/24", "bad"),
            ("[127.0.0.1]/", "bad"),
            ("[127.0.0.1]/x", "bad"),
            ("[127.0.0.1]/99999999999", "bad"),
            ("localhost", "bad"),
            ("127.0.0.0/8", "bad"),
            ("[127.0.0.1", "bad"),
            ("[127.1]", "bad"),
            ("!", "bad"),
            ("!![127.0.0.1]", "bad"),
            ("[uid:root]", "bad"),
            ("[uid:7]/8", "bad"),
            ("[\u{e9}]", "bad"),
        ] {
            assert_eq!(verdict(text), expected, "{text:?}");
        }
    }

    #[test]
    fn ipv4_mapped_address_matches_as_ipv4() {
        let acl = Acl::parse(b"[127.0.0.0]/8").expect("a list");
        assert!(acl.admits(&peer("::ffff:127.0.0.9")));
        let acl = Acl::parse(b"[ipv6.::]/0").expect("a list");
        assert!(!acl.admits(&peer("::ffff:127.0.0.9")));
        assert!(!Acl::DENY_ALL.admits(&peer("127.0.0.1")));
        assert!(!Acl::DENY_ALL.admits(&Peer::Local(Some(0))));
    }
}
