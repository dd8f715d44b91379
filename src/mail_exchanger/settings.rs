//! The settings of routing, DNS and TLS, as the sections of a TOML file.
//!
//! ```toml
//! [dns]
//! servers = ["127.0.0.1", "[::1]:5353"]
//! dnssec = "trust"
//!
//! [routing]
//! address-family = "prefer-ipv4"
//!
//! [[routing.smarthost]]
//! destination = "*.internal.example"
//! next-hop = "[relay.example]:587"
//!
//! [[routing.source]]
//! destination = "*.example"
//! addresses = [{ address = "192.0.2.1", weight = 3 }, { address = "192.0.2.2" }]
//!
//! [tls]
//! level = "may"
//!
//! [[tls.policy]]
//! destination = "bank.example"
//! level = "secure"
//! ```
//!
//! Rules of a table are tried in the order of the file; the first one that matches decides.

use crate::interval::deserialize_interval;
use crate::next_hop::{NextHop, NextHopError, domain_name};
use serde::{Deserialize, de::DeserializeOwned};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_config::{Diagnostic, DiagnosticSink, Glob, Name};

/// Section `[dns]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DnsSettings {
    /// Servers, with ports if not 53; empty for those of `/etc/resolv.conf`.
    pub servers: Vec<DnsServer>,
    /// Time for one try of a question.
    #[serde(deserialize_with = "deserialize_interval")]
    pub timeout: Duration,
    /// Number of tries of a question.
    pub attempts: usize,
    /// Which answers count as validated, for DANE.
    pub dnssec: Dnssec,
    /// File with DNSKEY records to begin the validation with; the root's keys by default.
    pub trust_anchor: Option<PathBuf>,
    /// Maximum number of answers that are kept.
    pub cache_size: usize,
    /// Maximum time for which an answer is kept, if its TTL is longer.
    #[serde(deserialize_with = "deserialize_interval")]
    pub max_ttl: Duration,
}

impl Default for DnsSettings {
    fn default() -> DnsSettings {
        DnsSettings {
            servers: Vec::new(),
            timeout: Duration::from_secs(5),
            attempts: 2,
            dnssec: Dnssec::Off,
            trust_anchor: None,
            cache_size: 1000,
            max_ttl: Duration::from_secs(86_400),
        }
    }
}

/// Which DNS answers count as validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dnssec {
    /// None: there is no DANE.
    #[default]
    Off,
    /// Those whose signatures the agent has checked itself.
    Validate,
    /// Those that the server has marked as authentic (AD). All servers must be on loopback.
    Trust,
}

/// Address and port of a DNS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DnsServer(pub SocketAddr);

impl TryFrom<String> for DnsServer {
    type Error = String;

    fn try_from(text: String) -> Result<DnsServer, String> {
        let plain = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let address = plain.unwrap_or(&text).parse::<IpAddr>().map(|ip| SocketAddr::new(ip, 53));
        address.or_else(|_| text.parse()).map(DnsServer).map_err(|_| {
            format!("`{text}` is not a DNS server, such as 127.0.0.1, ::1 or 127.0.0.1:5353")
        })
    }
}

/// Section `[routing]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RoutingSettings {
    /// Which addresses are used, and which first.
    pub address_family: AddressFamily,
    /// Maximum number of addresses that are tried for a message (`smtp_mx_address_limit`).
    pub max_addresses: usize,
    /// Maximum number of sessions for a message (`smtp_mx_session_limit`).
    ///
    /// A session has passed the greeting.
    pub max_sessions: usize,
    /// Maximum number of mail exchangers whose addresses are looked up.
    pub max_exchangers: usize,
    /// Time after which the next address is tried beside one that does not answer (RFC 8305).
    #[serde(deserialize_with = "deserialize_interval")]
    pub connection_attempt_delay: Duration,
    /// Names of this host as mail exchanger, beside its host name.
    pub own_names: Vec<DomainName>,
    /// Addresses of this host that it cannot know, such as that of a gateway.
    pub own_addresses: Vec<IpAddr>,
    /// Destinations that go by way of another host.
    pub smarthost: Vec<SmarthostRule>,
    /// Addresses that connections come from.
    pub source: Vec<SourceRule>,
}

impl Default for RoutingSettings {
    fn default() -> RoutingSettings {
        RoutingSettings {
            address_family: AddressFamily::default(),
            max_addresses: 5,
            max_sessions: 2,
            max_exchangers: 20,
            connection_attempt_delay: Duration::from_millis(250),
            own_names: Vec::new(),
            own_addresses: Vec::new(),
            smarthost: Vec::new(),
            source: Vec::new(),
        }
    }
}

/// Which addresses are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressFamily {
    /// Both, of each host the IPv6 addresses first.
    #[default]
    PreferIpv6,
    /// Both, of each host the IPv4 addresses first.
    PreferIpv4,
    /// Only IPv4.
    Ipv4,
    /// Only IPv6.
    Ipv6,
}

impl RoutingSettings {
    /// The rule of the smarthost table for a destination.
    pub(crate) fn smarthost_rule(&self, destination: &NextHop) -> Option<&SmarthostRule> {
        let host = destination.host();
        self.smarthost.iter().find(|rule| rule.destination.matches(&host))
    }
}

/// A rule of `[[routing.smarthost]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SmarthostRule {
    /// The destinations.
    pub destination: HostPattern,
    /// Where they go instead. Without it, they go to their own exchangers.
    #[serde(default)]
    pub next_hop: Option<NextHop>,
    /// Where they go if no server of the next hop takes mail (Postfix `smtp_fallback_relay`).
    #[serde(default)]
    pub fallback: Vec<NextHop>,
}

/// A rule of `[[routing.source]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourceRule {
    /// The channels; all by default.
    #[serde(default)]
    pub channel: HostPattern,
    /// The destinations; all by default.
    #[serde(default)]
    pub destination: HostPattern,
    /// The pool of addresses, of both families.
    pub addresses: Vec<SourceAddress>,
}

/// An address of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourceAddress {
    /// The address, which belongs to this host.
    pub address: IpAddr,
    /// Share of the connections, relative to the others of the pool.
    #[serde(default = "one")]
    pub weight: u32,
    /// Name for `EHLO` on these connections.
    #[serde(default)]
    pub helo: Option<String>,
}

const fn one() -> u32 {
    1
}

/// Section `[tls]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsSettings {
    /// What destinations without a rule get.
    pub level: TlsLevel,
    /// Follow the policies that domains publish (MTA-STS, RFC 8461).
    ///
    /// They concern the levels `may`, `encrypt` and `dane`.
    pub mta_sts: bool,
    /// Folder in which policies of MTA-STS are kept; only in memory by default.
    pub mta_sts_cache: Option<PathBuf>,
    /// Port of HTTPS for policies of MTA-STS.
    pub mta_sts_port: u16,
    /// Certificate authorities, in PEM; those of the system by default.
    pub ca_file: Option<PathBuf>,
    /// What this host shows to hosts that ask for a certificate; nothing by default.
    pub client_certificate: Option<ClientCertificate>,
    /// Rules for destinations.
    pub policy: Vec<TlsRule>,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings {
            level: TlsLevel::default(),
            mta_sts: false,
            mta_sts_cache: None,
            mta_sts_port: 443,
            ca_file: None,
            client_certificate: None,
            policy: Vec::new(),
        }
    }
}

/// Table `client-certificate` of `[tls]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ClientCertificate {
    /// The certificate with its chain, in PEM.
    pub certificate_file: PathBuf,
    /// The private key, in PEM.
    pub key_file: PathBuf,
}

/// A rule of `[[tls.policy]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsRule {
    /// The next hops, after smarthosts.
    pub destination: HostPattern,
    /// What they get.
    pub level: TlsLevel,
    /// Names of which the certificate must have one, for `verify` and `secure`.
    #[serde(default)]
    pub names: Vec<DomainName>,
    /// As in `[tls]`, for these destinations.
    #[serde(default)]
    pub mta_sts: Option<bool>,
}

/// How much a connection must be protected (Postfix `smtp_tls_security_level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsLevel {
    /// No TLS.
    None,
    /// TLS if the host offers it; its certificate is not checked. In plain text otherwise.
    #[default]
    May,
    /// TLS in any case; the certificate is not checked.
    Encrypt,
    /// TLS with a certificate for the name of the exchanger, which DNS has told.
    Verify,
    /// TLS with a certificate for the destination itself, or for a name below it.
    Secure,
    /// DANE where the host has usable TLSA records (RFC 7672); else `may`.
    Dane,
    /// DANE in any case.
    DaneOnly,
}

/// A domain name, in A-labels and lower case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct DomainName(String);

impl DomainName {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DomainName {
    type Error = NextHopError;

    fn try_from(text: String) -> Result<DomainName, NextHopError> {
        domain_name(&text).map(DomainName)
    }
}

/// A pattern of destinations in ZMailer's language: `*`, `?`, `[abc]`, `{a,b}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct HostPattern(Glob);

impl HostPattern {
    /// Returns true if a name, in lower case, matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(&Name::new(name.as_bytes()))
    }
}

impl Default for HostPattern {
    fn default() -> HostPattern {
        HostPattern::try_from("*".to_string()).expect("it is a pattern")
    }
}

impl TryFrom<String> for HostPattern {
    type Error = String;

    fn try_from(text: String) -> Result<HostPattern, String> {
        let mut warnings = Vec::new();
        let glob = Glob::parse(&text, 0, &mut warnings).map_err(|error| error.message)?;
        match warnings.into_iter().next() {
            Some(warning) => Err(warning.message),
            None => Ok(HostPattern(glob)),
        }
    }
}

/// Reads settings from the text of a TOML file.
///
/// The errors have the file, line and column.
pub fn parse_settings<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Vec<Diagnostic>> {
    toml::from_str(text).map_err(|error| {
        let mut sink = DiagnosticSink::new(path.into(), text.as_bytes());
        let message = error.message().replace('\n', ", ");
        match error.span() {
            Some(span) => sink.error(span.start, message),
            None => sink.file_error(message),
        }
        sink.finish()
    })
}

impl<'de> Deserialize<'de> for NextHop {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<NextHop, D::Error> {
        let text = String::deserialize(from)?;
        NextHop::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct File {
        dns: DnsSettings,
        routing: RoutingSettings,
        tls: TlsSettings,
    }

    fn error(text: &str) -> String {
        let errors = parse_settings::<File>(Path::new("x.conf"), text).unwrap_err();
        errors.iter().map(Diagnostic::in_one_line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn example_of_the_module_is_read() {
        let text = include_str!("settings.rs").split("```").nth(1).unwrap();
        let text: String =
            text.lines().skip(1).map(|line| line.replace("//!", "") + "\n").collect();
        let File { dns, routing, tls } = parse_settings(Path::new("x.conf"), &text).unwrap();
        assert_eq!(dns.servers[0].0, "127.0.0.1:53".parse().unwrap());
        assert_eq!(dns.servers[1].0, "[::1]:5353".parse().unwrap());
        assert_eq!(dns.dnssec, Dnssec::Trust);
        assert_eq!(routing.address_family, AddressFamily::PreferIpv4);
        let rule = &routing.smarthost[0];
        assert!(rule.destination.matches("a.internal.example"));
        assert!(!rule.destination.matches("internal.example"));
        let next_hop = rule.next_hop.as_ref().map(NextHop::to_string);
        assert_eq!(next_hop.as_deref(), Some("[relay.example]:587"));
        let weights: Vec<u32> = routing.source[0].addresses.iter().map(|a| a.weight).collect();
        assert_eq!(weights, [3, 1]);
        assert_eq!((tls.level, tls.policy[0].level), (TlsLevel::May, TlsLevel::Secure));
    }

    #[test]
    fn each_default_can_be_written() {
        let text = "[dns]\nservers = []\ntimeout = \"5s\"\nattempts = 2\ndnssec = \"off\"\n\
            cache-size = 1000\nmax-ttl = \"1d\"\n\
            [routing]\naddress-family = \"prefer-ipv6\"\nmax-addresses = 5\nmax-sessions = 2\n\
            max-exchangers = 20\nconnection-attempt-delay = \"250ms\"\nown-names = []\n\
            own-addresses = []\nsmarthost = []\nsource = []\n\
            [tls]\nlevel = \"may\"\nmta-sts = false\nmta-sts-port = 443\npolicy = []\n";
        let written: File = parse_settings(Path::new("x.conf"), text).unwrap();
        assert_eq!(format!("{written:?}"), format!("{:?}", File::default()));
    }

    #[test]
    fn an_error_has_line_and_column() {
        let check = |text: &str, expected: &str| assert_eq!(error(text), expected);
        check(
            "[dns]\nservers = [\"127.0.0.1\", \"localhost\"]\n",
            "x.conf:2:11: `localhost` is not a DNS server, such as 127.0.0.1, ::1 or 127.0.0.1:5353",
        );
        check(
            "[dns]\ntimeout = \"5parsecs\"\n",
            "x.conf:2:11: `parsecs` is not a unit of time (s, m, h, d or w)",
        );
        check(
            "[[routing.smarthost]]\ndestination = \"*\"\nnext-hop = \"[relay\"\n",
            "x.conf:3:12: the brackets of an address or host are not closed, or text follows them",
        );
        check(
            "[[tls.policy]]\ndestination = \"*.Example\"\nlevel = \"may\"\n",
            "x.conf:2:15: names are compared in lower case, so a capital `E` never matches",
        );
        check(
            "[[tls.policy]]\ndestination = \"{a,b}.example\"\nlevel = \"may\"\n",
            "x.conf:2:15: `.example` after the braces is ignored",
        );
        check(
            "[tls]\nlevel = \"perhaps\"\n",
            "x.conf:2:9: unknown variant `perhaps`, expected one of `none`, `may`, `encrypt`, \
             `verify`, `secure`, `dane`, `dane-only`",
        );
        check(
            "[tls.client-certificate]\ncertificate-file = \"/a\"\n",
            "x.conf:1:1: missing field `key-file`",
        );
        assert!(error("[routing]\nmax-mx = 3\n").starts_with("x.conf:2:1: unknown field `max-mx`"));
    }
}
