//! Why mail cannot be routed, with the codes for reports.

use crate::dns::LookupFailure;
use crate::next_hop::NextHopError;
use std::fmt;

/// Why a destination has no route.
///
/// `Display` gives the text for reports and logs, without codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RouteError {
    /// What is wrong.
    pub kind: RouteErrorKind,
    /// The domain or host.
    pub domain: String,
    /// More about the reason, for people; may be empty.
    pub detail: String,
}

/// What is wrong with a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteErrorKind {
    /// It cannot be a destination.
    InvalidDestination,
    /// The domain does not exist (NXDOMAIN).
    NoSuchDomain,
    /// The domain accepts no mail (RFC 7505).
    NullMx,
    /// This host is the best exchanger of the domain (RFC 5321 5.1).
    Loop,
    /// No exchanger has an address that may be used.
    NoUsableAddress,
    /// A DNS server answered with an error, or DNSSEC validation failed.
    ServerFailure,
    /// DNS servers did not answer in time.
    Timeout,
}

impl RouteErrorKind {
    /// Returns true if the mail is to be tried again.
    pub fn is_temporary(self) -> bool {
        matches!(self, RouteErrorKind::ServerFailure | RouteErrorKind::Timeout)
    }

    /// The enhanced status code (RFC 3463).
    pub fn enhanced_code(self) -> &'static str {
        match self {
            RouteErrorKind::InvalidDestination | RouteErrorKind::NoSuchDomain => "5.1.2",
            RouteErrorKind::NullMx => "5.1.10",
            RouteErrorKind::Loop => "5.4.6",
            RouteErrorKind::NoUsableAddress => "5.4.4",
            RouteErrorKind::ServerFailure | RouteErrorKind::Timeout => "4.4.3",
        }
    }

    /// The reply code that an SMTP server would give (RFC 5321, RFC 7504).
    pub fn reply_code(self) -> u16 {
        match self {
            RouteErrorKind::NullMx => 556,
            RouteErrorKind::ServerFailure | RouteErrorKind::Timeout => 451,
            _ => 550,
        }
    }
}

impl RouteError {
    pub(crate) fn new(kind: RouteErrorKind, domain: &str, detail: &str) -> RouteError {
        RouteError { kind, domain: domain.to_string(), detail: detail.to_string() }
    }

    /// The failure of a lookup that the route depends on.
    pub(crate) fn of_lookup(domain: &str, records: &str, failure: &LookupFailure) -> RouteError {
        match failure {
            LookupFailure::NoDomain => RouteError::new(RouteErrorKind::NoSuchDomain, domain, ""),
            LookupFailure::NoRecords => {
                let detail = format!("no {records} records");
                RouteError::new(RouteErrorKind::NoUsableAddress, domain, &detail)
            }
            _ => RouteError::of_temporary(domain, &format!("{records}: {failure}"), failure),
        }
    }

    pub(crate) fn of_temporary(domain: &str, detail: &str, failure: &LookupFailure) -> RouteError {
        let kind = match failure {
            LookupFailure::Timeout => RouteErrorKind::Timeout,
            _ => RouteErrorKind::ServerFailure,
        };
        RouteError::new(kind, domain, detail)
    }

    /// The error of a destination that cannot be parsed.
    pub fn of_destination(text: &str, error: &NextHopError) -> RouteError {
        let text = text.escape_debug().to_string();
        RouteError::new(RouteErrorKind::InvalidDestination, &text, &error.to_string())
    }

    /// Returns true if the mail is to be tried again.
    pub fn is_temporary(&self) -> bool {
        self.kind.is_temporary()
    }

    /// The enhanced status code (RFC 3463).
    pub fn enhanced_code(&self) -> &'static str {
        self.kind.enhanced_code()
    }

    /// The reply code that an SMTP server would give.
    pub fn reply_code(&self) -> u16 {
        self.kind.reply_code()
    }
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteError { kind, domain, detail } = self;
        match kind {
            RouteErrorKind::InvalidDestination => write!(f, "invalid destination {domain}")?,
            RouteErrorKind::NoSuchDomain => write!(f, "the domain {domain} does not exist")?,
            RouteErrorKind::NullMx => {
                write!(f, "the domain {domain} accepts no mail (null MX, RFC 7505)")?;
            }
            RouteErrorKind::Loop => {
                write!(f, "mail for {domain} loops back to this host, its best mail exchanger")?;
            }
            RouteErrorKind::NoUsableAddress => {
                write!(f, "no mail exchanger of {domain} has a usable address")?;
            }
            RouteErrorKind::ServerFailure => write!(f, "DNS lookup of {domain} failed")?,
            RouteErrorKind::Timeout => write!(f, "DNS lookup of {domain} timed out")?,
        }
        if detail.is_empty() { Ok(()) } else { write!(f, ": {detail}") }
    }
}
