//! What a server offers in its answer to EHLO (RFC 5321, 4.1.1.1).

use super::Reply;
use super::authentication::Mechanism;
use std::str::FromStr;

/// Extensions that can be switched off for a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// `PIPELINING` (RFC 2920).
    pub pipelining: bool,
    /// `8BITMIME` (RFC 6152).
    pub eight_bit: bool,
    /// `SMTPUTF8` (RFC 6531).
    pub utf8: bool,
    /// `DSN` (RFC 3461).
    pub dsn: bool,
    /// `ENHANCEDSTATUSCODES` (RFC 2034).
    pub enhanced_codes: bool,
    /// `CHUNKING` (RFC 3030).
    pub chunking: bool,
    /// `STARTTLS` (RFC 3207).
    pub start_tls: bool,
    /// `REQUIRETLS` (RFC 8689).
    pub require_tls: bool,
    /// `SIZE` (RFC 1870).
    pub size: bool,
    /// `DELIVERBY` (RFC 2852).
    pub deliver_by: bool,
    /// `MT-PRIORITY` (RFC 6710).
    pub priority: bool,
    /// `AUTH` (RFC 4954).
    pub auth: bool,
}

/// Limits that a server names (`LIMITS`, RFC 9422).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of transactions of a session.
    pub transactions: Option<usize>,
    /// Maximum number of recipients of a transaction.
    pub recipients: Option<usize>,
    /// Maximum number of domains among the recipients of a transaction.
    pub domains: Option<usize>,
}

/// The capabilities of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The first word of the answer: the name that the server gives itself.
    pub name: String,
    /// The extensions that are offered.
    pub offers: Extensions,
    /// Maximum size of a message, in bytes; `None` if there is none or it is not known.
    pub max_size: Option<u64>,
    /// Minimum time of a `BY` parameter, in seconds.
    pub min_deliver_by: i64,
    /// The limits of `LIMITS`.
    pub limits: Limits,
    /// The mechanisms of `AUTH` that this program knows.
    pub mechanisms: Vec<Mechanism>,
    /// The lines after the first, as the server wrote them.
    pub lines: Vec<String>,
}

impl Capabilities {
    /// Parses the answer to EHLO or LHLO. Unknown and malformed lines are skipped.
    pub fn parse(reply: &Reply) -> Capabilities {
        let mut lines = reply.lines();
        let name = lines.next().and_then(|line| line.split_ascii_whitespace().next());
        let mut found = Capabilities { name: name.unwrap_or_default().into(), ..Self::default() };
        for line in lines {
            found.add(line);
            found.lines.push(line.trim().to_string());
        }
        found
    }

    fn add(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let Some(keyword) = words.next() else { return };
        let offers = &mut self.offers;
        match keyword.to_ascii_uppercase().as_str() {
            "PIPELINING" => offers.pipelining = true,
            "8BITMIME" => offers.eight_bit = true,
            "SMTPUTF8" => offers.utf8 = true,
            "DSN" => offers.dsn = true,
            "ENHANCEDSTATUSCODES" => offers.enhanced_codes = true,
            "CHUNKING" => offers.chunking = true,
            "STARTTLS" => offers.start_tls = true,
            "REQUIRETLS" => offers.require_tls = true,
            "MT-PRIORITY" => offers.priority = true,
            "SIZE" => {
                offers.size = true;
                self.max_size = words.next().and_then(|word| word.parse().ok()).filter(|n| *n > 0);
            }
            "DELIVERBY" => {
                offers.deliver_by = true;
                self.min_deliver_by = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            }
            "LIMITS" => words.for_each(|word| self.limits.add(word)),
            // `AUTH=LOGIN` is the form of servers that are older than the standard.
            keyword if keyword == "AUTH" || keyword.starts_with("AUTH=") => {
                offers.auth = true;
                let first = keyword.strip_prefix("AUTH=").into_iter();
                let known = first.chain(words).filter_map(|word| Mechanism::from_str(word).ok());
                for mechanism in known {
                    if !self.mechanisms.contains(&mechanism) {
                        self.mechanisms.push(mechanism);
                    }
                }
            }
            _ => {}
        }
    }

    /// The same without the extensions that a host does not get right, named by their keywords.
    pub fn without<'a>(mut self, keywords: impl IntoIterator<Item = &'a str>) -> Capabilities {
        for keyword in keywords {
            let offers = &mut self.offers;
            let switch = match keyword.to_ascii_uppercase().as_str() {
                "PIPELINING" => &mut offers.pipelining,
                "8BITMIME" => &mut offers.eight_bit,
                "SMTPUTF8" => &mut offers.utf8,
                "DSN" => &mut offers.dsn,
                "ENHANCEDSTATUSCODES" => &mut offers.enhanced_codes,
                "CHUNKING" => &mut offers.chunking,
                "STARTTLS" => &mut offers.start_tls,
                "REQUIRETLS" => &mut offers.require_tls,
                "MT-PRIORITY" => &mut offers.priority,
                "DELIVERBY" => &mut offers.deliver_by,
                "AUTH" => &mut offers.auth,
                "SIZE" => {
                    self.max_size = None;
                    &mut offers.size
                }
                "LIMITS" => {
                    self.limits = Limits::default();
                    continue;
                }
                _ => continue,
            };
            *switch = false;
        }
        self
    }

    /// The keywords that [`without`](Capabilities::without) knows.
    pub const KEYWORDS: [&'static str; 13] = [
        "PIPELINING",
        "8BITMIME",
        "SMTPUTF8",
        "DSN",
        "ENHANCEDSTATUSCODES",
        "CHUNKING",
        "STARTTLS",
        "REQUIRETLS",
        "MT-PRIORITY",
        "DELIVERBY",
        "AUTH",
        "SIZE",
        "LIMITS",
    ];
}

impl Limits {
    fn add(&mut self, word: &str) {
        let Some((name, value)) = word.split_once('=') else { return };
        let value = value.parse().ok().filter(|count| *count > 0);
        match name.to_ascii_uppercase().as_str() {
            "MAILMAX" => self.transactions = value,
            "RCPTMAX" => self.recipients = value,
            "RCPTDOMAINMAX" => self.domains = value,
            _ => {}
        }
    }
}
