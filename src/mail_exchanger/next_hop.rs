//! Reads the host column of a recipient, or a next hop of a table.
//!
//! ```text
//! example.org            the mail exchangers of a domain
//! example.org:2525       the same, with another port
//! [mail.example.org]     one host; no MX is looked up
//! [192.0.2.1]:2525       one address; also [2001:db8::1] and [IPv6:2001:db8::1]
//! /run/lmtp              a UNIX socket; also unix:/run/lmtp
//! ```
//!
//! These are the forms of Postfix's next hops and of RFC 5321 4.1.3.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// Maximum length of a next hop, in bytes. A domain has 253 at most.
const MAX_NEXT_HOP_LEN: usize = 1024;
/// Maximum length of the path of a UNIX socket, in bytes, without the final NUL (`sun_path`).
const MAX_SOCKET_PATH_LEN: usize = 107;

/// Where mail goes next, before any lookup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The kind of place.
    pub kind: NextHopKind,
    /// The port, if one is written.
    pub port: Option<u16>,
}

/// The kind of place that a next hop names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NextHopKind {
    /// A domain, in A-labels and lower case: its MX records are followed.
    Domain(String),
    /// A host, in A-labels and lower case: only its addresses are looked up.
    Host(String),
    /// An address: nothing is looked up.
    Address(IpAddr),
    /// The path of a UNIX socket.
    Socket(PathBuf),
}

/// Why a next hop cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NextHopError {
    /// Nothing is there.
    #[error("the host is empty")]
    Empty,
    /// It is longer than any domain.
    #[error("the host has more than {MAX_NEXT_HOP_LEN} bytes")]
    TooLong,
    /// A bracket has no partner, or text follows the closing one.
    #[error("the brackets of an address or host are not closed, or text follows them")]
    Brackets,
    /// The text in the brackets looks like an address, but is none.
    #[error("{0} is not an IP address")]
    Address(String),
    /// The part after the colon is not a port.
    #[error("{0} is not a port; it is a number from 1 to 65535")]
    Port(String),
    /// The name cannot be a domain name (RFC 1035 2.3.4, RFC 5891).
    #[error("{0} is not a domain name")]
    Name(String),
    /// The path of a UNIX socket is too long for the system.
    #[error("the path of a UNIX socket has more than {MAX_SOCKET_PATH_LEN} bytes")]
    SocketPath,
}

impl NextHop {
    /// Parses the host column of a recipient, or the next hop of a table.
    pub fn parse(text: &str) -> Result<NextHop, NextHopError> {
        let text = text.trim_ascii();
        if text.len() > MAX_NEXT_HOP_LEN {
            return Err(NextHopError::TooLong);
        }
        if let Some(path) = socket_path(text) {
            if path.len() > MAX_SOCKET_PATH_LEN || path.contains('\0') {
                return Err(NextHopError::SocketPath);
            }
            return Ok(NextHop { kind: NextHopKind::Socket(path.into()), port: None });
        }
        let text = text.strip_prefix("inet:").unwrap_or(text);
        if let Some(rest) = text.strip_prefix('[') {
            let (inner, rest) = rest.split_once(']').ok_or(NextHopError::Brackets)?;
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(parse_port(port)?),
                None if rest.is_empty() => None,
                None => return Err(NextHopError::Brackets),
            };
            return Ok(NextHop { kind: bracketed(inner)?, port });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(NextHop { kind: NextHopKind::Address(address), port: None });
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, Some(parse_port(port)?)),
            None => (text, None),
        };
        let kind = match name.parse::<Ipv4Addr>() {
            Ok(address) => NextHopKind::Address(address.into()),
            Err(_) => NextHopKind::Domain(domain_name(name)?),
        };
        Ok(NextHop { kind, port })
    }

    /// The name, address or path, without brackets and port: what patterns are compared with.
    pub fn host(&self) -> String {
        match &self.kind {
            NextHopKind::Domain(name) | NextHopKind::Host(name) => name.clone(),
            NextHopKind::Address(address) => address.to_string(),
            NextHopKind::Socket(path) => path.display().to_string(),
        }
    }
}

impl fmt::Display for NextHop {
    /// Formats so that [`NextHop::parse`] returns the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NextHopKind::Domain(name) => write!(f, "{name}")?,
            NextHopKind::Host(name) => write!(f, "[{name}]")?,
            NextHopKind::Address(IpAddr::V4(address)) => write!(f, "[{address}]")?,
            NextHopKind::Address(IpAddr::V6(address)) => write!(f, "[IPv6:{address}]")?,
            NextHopKind::Socket(path) => write!(f, "unix:{}", path.display())?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Converts a domain name to A-labels in lower case, without a final dot (RFC 5891).
pub fn domain_name(text: &str) -> Result<String, NextHopError> {
    use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() {
        return Err(NextHopError::Empty);
    }
    let wrong = || NextHopError::Name(name.escape_debug().to_string());
    // Underscores and hyphens at odd places are in use.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ascii = Uts46::new()
        .to_ascii(name.as_bytes(), AsciiDenyList::EMPTY, Hyphens::Allow, DnsLength::Verify)
        .map_err(|_| wrong())?;
    if ascii.bytes().all(is_plain) { Ok(ascii.into_owned()) } else { Err(wrong()) }
}

fn socket_path(text: &str) -> Option<&str> {
    text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text))
}

fn bracketed(inner: &str) -> Result<NextHopKind, NextHopError> {
    let not_address = || NextHopError::Address(inner.escape_debug().to_string());
    let tag = "IPv6:";
    if inner.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)) {
        let address: Ipv6Addr = inner[tag.len()..].parse().map_err(|_| not_address())?;
        return Ok(NextHopKind::Address(address.into()));
    }
    if let Ok(address) = inner.parse::<IpAddr>() {
        return Ok(NextHopKind::Address(address));
    }
    if inner.contains(':') || inner.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(not_address());
    }
    Ok(NextHopKind::Host(domain_name(inner)?))
}

fn parse_port(text: &str) -> Result<u16, NextHopError> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse::<u16>().ok().filter(|port| is_number && *port > 0);
    port.ok_or_else(|| NextHopError::Port(text.escape_debug().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        match NextHop::parse(text) {
            Ok(NextHop { kind, port }) => format!("{kind:?} {port:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn next_hop_of_each_form_is_read() {
        let check = |text, expected: &str| assert_eq!(shown(text), expected, "{text}");
        check("Example.ORG.", "Domain(\"example.org\") None");
        check("example.org:2525", "Domain(\"example.org\") Some(2525)");
        check("bücher.example", "Domain(\"xn--bcher-kva.example\") None");
        check("_dmarc.a-.example", "Domain(\"_dmarc.a-.example\") None");
        check("[mail.example]:24", "Host(\"mail.example\") Some(24)");
        check("[192.0.2.1]", "Address(192.0.2.1) None");
        check("192.0.2.1:25", "Address(192.0.2.1) Some(25)");
        check("[IPv6:2001:db8::1]:25", "Address(2001:db8::1) Some(25)");
        check("[2001:db8::1]", "Address(2001:db8::1) None");
        check("2001:db8::1", "Address(2001:db8::1) None");
        check("/run/dovecot/lmtp", "Socket(\"/run/dovecot/lmtp\") None");
        check("unix:/run/lmtp", "Socket(\"/run/lmtp\") None");
        check("inet:[mail.example]:24", "Host(\"mail.example\") Some(24)");
    }

    #[test]
    fn text_that_is_no_next_hop_is_refused() {
        let check = |text: &str, expected: &str| assert_eq!(shown(text), expected, "{text}");
        check("", "the host is empty");
        check(".", "the host is empty");
        check("a..b", "a..b is not a domain name");
        check("a b", "a b is not a domain name");
        check("[192.0.2.300]", "192.0.2.300 is not an IP address");
        check(
            "[192.0.2.1",
            "the brackets of an address or host are not closed, or text follows them",
        );
        check(
            "[192.0.2.1]x",
            "the brackets of an address or host are not closed, or text follows them",
        );
        check("example.org:0", "0 is not a port; it is a number from 1 to 65535");
        check("example.org:+25", "+25 is not a port; it is a number from 1 to 65535");
        check(&"a".repeat(64), &format!("{} is not a domain name", "a".repeat(64)));
        check(&"a".repeat(2000), "the host has more than 1024 bytes");
        check(
            &format!("/{}", "a".repeat(107)),
            "the path of a UNIX socket has more than 107 bytes",
        );
    }

    proptest! {
        #[test]
        fn printed_next_hop_reads_the_same_again(text in "\\PC{0,40}|[a-z0-9.:\\[\\]-]{1,30}") {
            if let Ok(next_hop) = NextHop::parse(&text) {
                prop_assert_eq!(NextHop::parse(&next_hop.to_string()), Ok(next_hop));
            }
        }
    }
}
