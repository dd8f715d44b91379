//! The file `smtpserver.cf`: one setting a line, a keyword and its words.
//!
//! ```text
//! listen 0.0.0.0:25 smtp
//! relay  127.0.0.0/8 192.0.2.0/24
//! certificate /etc/ssl/mail.pem /etc/ssl/private/mail.key
//! max-size 50M
//! ```
//!
//! All errors are collected with their positions. A file with an error yields no configuration.

use super::network::Network;
use super::service_stream::ServiceAddress;
use super::session::Service;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_config::{
    Diagnostic, DiagnosticSink, Glob, Keyword, Name, Setting, ValueError, Word, Zenv,
    parse_interval, quote, read_settings,
};

/// Maximum size of the file, in bytes.
const MAX_FILE_SIZE: usize = 1 << 20;
/// Ports of this host on which the server listens without a configuration.
const DEFAULT_PORTS: [(u16, Service); 3] =
    [(2525, Service::Smtp), (2587, Service::Submission), (2524, Service::Lmtp)];

/// Maximum time for which a user may have a message held, by default.
const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(7 * 86_400);

/// The keywords.
pub const KEYWORDS: [Keyword; 20] = [
    Keyword::once("hostname", "the name of this host", 1),
    Keyword::repeated(
        "listen",
        "an address with a port, and smtp, submission, submissions or lmtp",
        2,
        2,
    ),
    Keyword::repeated("relay", "one or more networks", 1, usize::MAX),
    Keyword::repeated("relay-domain", "one or more domains", 1, usize::MAX),
    Keyword::repeated("refuse-client", "a network, and perhaps a text", 1, 2),
    Keyword::repeated("refuse-sender", "a domain or address, and perhaps a text", 1, 2),
    Keyword::once("certificate", "two files: the certificates, and the key", 2),
    Keyword::once("logins", "a file of users and hashes of passwords, or dovecot: and a socket", 1),
    Keyword::once("policy", "unix: and a path, or a host and a port", 1),
    Keyword::once("max-size", "a number of bytes such as 50M", 1),
    Keyword::once("max-recipients", "a number", 1),
    Keyword::once("max-connections", "a number", 1),
    Keyword::once("max-connections-per-client", "a number", 1),
    Keyword::once("max-connections-per-login", "a number", 1),
    Keyword::once("max-recipients-per-client", "a number for an hour", 1),
    Keyword::once("max-recipients-per-login", "a number for an hour", 1),
    Keyword::once("max-hold", "a time such as 7d; 0 offers no FUTURERELEASE", 1),
    Keyword::repeated("raise-priority", "networks, and logins", 1, usize::MAX),
    Keyword::once("timeout", "a time such as 5m", 1),
    Keyword::once("greeting-delay", "a time such as 2s", 1),
];

/// A port, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address and port.
    pub address: SocketAddr,
    /// What it is for.
    pub service: Service,
    /// TLS begins at once.
    pub is_tls: bool,
}

/// What decides about logins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginSource {
    /// A file of users and hashes of passwords.
    File(PathBuf),
    /// Dovecot's authentication service.
    Dovecot(ServiceAddress),
}

impl LoginSource {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&PathBuf> {
        match self {
            LoginSource::File(path) => Some(path),
            LoginSource::Dovecot(_) => None,
        }
    }
}

/// Numbers that bound what clients may do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum size of a message, in bytes.
    pub max_size: u64,
    /// Maximum number of recipients of a message.
    pub max_recipients: usize,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of connections of a client that may not relay.
    pub max_connections_per_client: usize,
    /// Maximum number of connections of a login.
    pub max_connections_per_login: usize,
    /// Maximum number of recipients in an hour of a client that may not relay.
    pub max_recipients_per_client: u64,
    /// Maximum number of recipients in an hour of a login.
    pub max_recipients_per_login: u64,
    /// Time after which a client without progress is disconnected.
    pub timeout: Duration,
    /// Time before the greeting.
    pub greeting_delay: Duration,
    /// Maximum time for which a user may have a message held; zero is never.
    pub max_hold: Duration,
}

/// The settings of the server.
#[derive(Debug)]
pub struct ServerConfig {
    /// The name of this host, if it is not that of the router.
    pub hostname: Option<String>,
    /// The ports.
    pub listeners: Vec<Listener>,
    /// Networks whose clients may send to any address.
    pub relay: Vec<Network>,
    /// Domains of other hosts to which every client may send mail.
    pub relay_domains: Vec<AddressPattern>,
    /// Networks whose clients are refused, with the text.
    pub refused_clients: Vec<(Network, String)>,
    /// Senders that are refused, with the text.
    pub refused_senders: Vec<(AddressPattern, String)>,
    /// Files of the certificates and of their key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What decides about logins.
    pub logins: Option<LoginSource>,
    /// Where a policy service listens.
    pub policy: Option<ServiceAddress>,
    /// Networks whose clients may give messages a higher priority than the usual one.
    pub hurry: Vec<Network>,
    /// Clients that have logged in may do so, too.
    pub logins_hurry: bool,
    /// Numbers.
    pub limits: Limits,
}

/// A domain or, with an `@`, an address; both may have wildcards.
#[derive(Debug)]
pub struct AddressPattern {
    glob: Glob,
    is_address: bool,
}

impl AddressPattern {
    /// Returns true if an address or its domain matches.
    pub fn matches(&self, address: &str) -> bool {
        let address = address.to_lowercase();
        let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
        let text = if self.is_address { &address } else { domain };
        self.glob.matches(&Name::new(text.as_bytes()))
    }
}

/// A configuration and the warnings about it.
#[derive(Debug)]
pub struct LoadedServerConfig {
    /// The configuration.
    pub config: ServerConfig,
    /// The warnings, in the order of the file.
    pub warnings: Vec<Diagnostic>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_size: 50 << 20,
            max_recipients: 1000,
            max_connections: 10_000,
            max_connections_per_client: 50,
            max_connections_per_login: 50,
            max_recipients_per_client: 10_000,
            max_recipients_per_login: 500,
            timeout: Duration::from_secs(300),
            greeting_delay: Duration::ZERO,
            max_hold: DEFAULT_MAX_HOLD,
        }
    }
}

impl Default for ServerConfig {
    /// The configuration that applies without a file: ports of this host only.
    fn default() -> ServerConfig {
        let listener = |(port, service)| Listener {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            service,
            is_tls: false,
        };
        let own = ["127.0.0.0/8", "::1"];
        ServerConfig {
            hostname: None,
            listeners: DEFAULT_PORTS.map(listener).to_vec(),
            relay: own.iter().filter_map(|text| text.parse().ok()).collect(),
            relay_domains: Vec::new(),
            refused_clients: Vec::new(),
            refused_senders: Vec::new(),
            certificate: None,
            logins: None,
            policy: None,
            hurry: Vec::new(),
            logins_hurry: false,
            limits: Limits::default(),
        }
    }
}

impl ServerConfig {
    /// Parses the text of a configuration file.
    ///
    /// `file_name` is used in messages only. On failure, returns all errors and warnings.
    pub fn parse(
        file_name: &Path,
        text: &[u8],
        zenv: &Zenv,
    ) -> Result<LoadedServerConfig, Vec<Diagnostic>> {
        if text.len() > MAX_FILE_SIZE {
            return Err(vec![Diagnostic::of_file(file_name, "the file is larger than 1 MiB")]);
        }
        let mut sink = DiagnosticSink::new(file_name.into(), text);
        let mut builder = Builder::default();
        read_settings(text, zenv, &KEYWORDS, &mut sink, |setting, sink| {
            builder.apply(setting, sink)
        });
        builder.check(&mut sink);
        let is_usable = sink.is_usable();
        let warnings = sink.finish();
        match is_usable {
            true => Ok(LoadedServerConfig { config: builder.config, warnings }),
            false => Err(warnings),
        }
    }

    /// Returns true if this host is a backup for a domain.
    pub fn is_relay_domain(&self, domain: &str) -> bool {
        let address = format!("@{domain}");
        self.relay_domains.iter().any(|pattern| pattern.matches(&address))
    }

    /// Returns true if a client may give messages a higher priority than the usual one.
    pub fn may_hurry(&self, ip: std::net::IpAddr) -> bool {
        self.hurry.iter().any(|network| network.contains(ip))
    }

    /// Returns true if a client may send to any address.
    pub fn may_relay(&self, ip: std::net::IpAddr) -> bool {
        self.relay.iter().any(|network| network.contains(ip))
    }
}

/// The configuration while the file is read.
#[derive(Default)]
struct Builder {
    config: ServerConfig,
    has_listener: bool,
    has_relay: bool,
    /// Offset of the first port with TLS.
    needs_certificate: Option<usize>,
    /// Offset of the first port for users.
    has_submission: Option<usize>,
}

impl Builder {
    fn apply(
        &mut self,
        setting: Setting<'_>,
        sink: &mut DiagnosticSink<'_>,
    ) -> Result<(), ValueError> {
        let Setting { keyword, words, .. } = setting;
        let first = &words[0];
        let config = &mut self.config;
        let limits = &mut config.limits;
        match keyword {
            "hostname" => config.hostname = Some(first.text.to_lowercase()),
            "listen" => self.listen(first, &words[1])?,
            "relay" => {
                if !std::mem::replace(&mut self.has_relay, true) {
                    config.relay.clear();
                }
                for word in words {
                    config.relay.push(network(word)?);
                }
            }
            "relay-domain" => {
                for word in words {
                    config.relay_domains.push(pattern(word, sink)?);
                }
            }
            "refuse-client" => {
                config
                    .refused_clients
                    .push((network(first)?, text(words, "this client is refused")));
            }
            "refuse-sender" => {
                let text = text(words, "this sender is refused");
                config.refused_senders.push((pattern(first, sink)?, text));
            }
            "certificate" => {
                let Some(key) = words.get(1) else {
                    return Err(ValueError::new(first.at, "after `certificate` come two files"));
                };
                config.certificate = Some((first.path()?, key.path()?));
            }
            "logins" => config.logins = Some(login_source(first)?),
            "policy" => {
                let parsed = ServiceAddress::parse(&first.text);
                config.policy = Some(parsed.map_err(|why| ValueError::new(first.at, why))?);
            }
            "max-size" => limits.max_size = size(first)?,
            "max-recipients" => limits.max_recipients = number(first)? as usize,
            "max-connections" => limits.max_connections = number(first)? as usize,
            "max-connections-per-client" => {
                limits.max_connections_per_client = number(first)? as usize;
            }
            "max-connections-per-login" => {
                limits.max_connections_per_login = number(first)? as usize;
            }
            "max-recipients-per-client" => limits.max_recipients_per_client = number(first)?,
            "max-recipients-per-login" => limits.max_recipients_per_login = number(first)?,
            "max-hold" => limits.max_hold = interval(first)?,
            "raise-priority" => {
                for word in words {
                    match &*word.text {
                        "logins" => config.logins_hurry = true,
                        _ => config.hurry.push(network(word)?),
                    }
                }
            }
            "timeout" => limits.timeout = interval(first)?.max(Duration::from_secs(1)),
            _ => limits.greeting_delay = interval(first)?,
        }
        Ok(())
    }

    fn listen(&mut self, address: &Word, service: &Word) -> Result<(), ValueError> {
        let parsed: SocketAddr = address.text.parse().map_err(|_| {
            let shown = quote(&address.text);
            ValueError::new(address.at, format!("{shown} is no address such as 127.0.0.1:2525"))
        })?;
        let (kind, is_tls) = match &*service.text {
            "smtp" => (Service::Smtp, false),
            "submission" => (Service::Submission, false),
            "submissions" => (Service::Submission, true),
            "lmtp" => (Service::Lmtp, false),
            _ => {
                let message = "the services are smtp, submission, submissions and lmtp";
                return Err(ValueError::new(service.at, message));
            }
        };
        if !std::mem::replace(&mut self.has_listener, true) {
            self.config.listeners.clear();
        }
        if is_tls {
            self.needs_certificate.get_or_insert(service.at);
        }
        if kind == Service::Submission {
            self.has_submission.get_or_insert(service.at);
        }
        self.config.listeners.push(Listener { address: parsed, service: kind, is_tls });
        Ok(())
    }

    /// Checks what concerns several lines.
    fn check(&self, sink: &mut DiagnosticSink<'_>) {
        if let Some(at) = self.needs_certificate.filter(|_| self.config.certificate.is_none()) {
            sink.error(at, "submissions needs a `certificate`");
        }
        if let Some(at) = self.has_submission.filter(|_| self.config.logins.is_none()) {
            sink.warning(at, "without `logins`, only clients of `relay` can submit mail");
        }
    }
}

fn login_source(word: &Word) -> Result<LoginSource, ValueError> {
    match word.text.strip_prefix("dovecot:") {
        None => Ok(LoginSource::File(word.path()?)),
        Some(path) if path.starts_with('/') => {
            Ok(LoginSource::Dovecot(ServiceAddress::Unix(path.into())))
        }
        Some(_) => {
            Err(ValueError::new(word.at, "the path of the socket does not begin with a slash"))
        }
    }
}

fn network(word: &Word) -> Result<Network, ValueError> {
    word.text.parse().map_err(|why: &str| ValueError::new(word.at, why))
}

fn pattern(word: &Word, sink: &mut DiagnosticSink<'_>) -> Result<AddressPattern, ValueError> {
    let text = word.text.to_lowercase();
    let mut warnings = Vec::new();
    let glob = Glob::parse(&text, word.at, &mut warnings)?;
    warnings.into_iter().for_each(|one| sink.warning(one.at, one.message));
    Ok(AddressPattern { glob, is_address: text.contains('@') })
}

fn text(words: &[Word], default: &str) -> String {
    words.get(1).map_or(default, |word| &word.text).to_string()
}

fn number(word: &Word) -> Result<u64, ValueError> {
    let number = word.text.parse().ok().filter(|number| (1..=1 << 40).contains(number));
    number.ok_or_else(|| {
        ValueError::new(word.at, format!("{} is no number from 1", quote(&word.text)))
    })
}

fn size(word: &Word) -> Result<u64, ValueError> {
    let digits = word.text.trim_end_matches(['k', 'K', 'M', 'G']);
    let shift = match &word.text[digits.len()..] {
        "" => Some(0),
        "k" | "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        _ => None,
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .filter(|number| (1..=1 << 20).contains(number) || shift == Some(0));
    let size = number.zip(shift).map(|(number, shift)| number << shift);
    size.filter(|size| (1..=1 << 40).contains(size)).ok_or_else(|| {
        ValueError::new(word.at, format!("{} is no size such as 50M", quote(&word.text)))
    })
}

fn interval(word: &Word) -> Result<Duration, ValueError> {
    parse_interval(&word.text).map_err(|error| ValueError::new(word.at, error.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<LoadedServerConfig, Vec<Diagnostic>> {
        ServerConfig::parse(Path::new("smtpserver.cf"), text.as_bytes(), &Zenv::default())
    }

    #[test]
    fn settings_are_read() {
        let text = "listen [::1]:25 smtp\nlisten 127.0.0.1:465 submissions\nrelay 10.0.0.0/8\n\
            certificate /c /k\nlogins /p\nmax-size 2M\nrelay-domain *.example.org\ntimeout 2m\n\
            policy unix:/run/policy\nrefuse-sender evil@* \"go away\"\n";
        let config = parse(text).expect("good").config;
        assert_eq!(config.listeners.len(), 2);
        assert!(config.listeners[1].is_tls);
        assert_eq!((config.limits.max_size, config.limits.timeout.as_secs()), (2 << 20, 120));
        assert!(config.may_relay("10.1.2.3".parse().expect("an address")));
        assert!(!config.may_relay("127.0.0.1".parse().expect("an address")));
        assert!(config.relay_domains[0].matches("a@b.Example.org"));
        assert!(config.refused_senders[0].0.matches("Evil@x.test"));
        assert!(!config.refused_senders[0].0.matches("good@x.test"));
    }

    #[test]
    fn errors_have_positions_and_suggestions() {
        for (text, expected) in [
            (
                "lisen 1.2.3.4:25 smtp",
                "smtpserver.cf:1:1: unknown keyword `lisen`; did you mean `listen`?",
            ),
            ("\nlisten 25 smtp", "smtpserver.cf:2:8: `25` is no address such as 127.0.0.1:2525"),
            (
                "listen 1.2.3.4:25 imap",
                "smtpserver.cf:1:19: the services are smtp, submission, submissions and lmtp",
            ),
            (
                "listen 1.2.3.4:465 submissions",
                "smtpserver.cf:1:20: submissions needs a `certificate`",
            ),
            ("relay 10.0.0.1/8", "smtpserver.cf:1:7: the address has bits behind the prefix"),
            (
                "logins dovecot:auth",
                "smtpserver.cf:1:8: the path of the socket does not begin with a slash",
            ),
            ("certificate /a", "smtpserver.cf:1:13: after `certificate` come two files"),
            ("max-size 5X", "smtpserver.cf:1:10: `5X` is no size such as 50M"),
            ("max-size 1M\nmax-size 2M", "smtpserver.cf:2:1: `max-size` is set in line 1 already"),
        ] {
            let said = parse(text).expect_err(text);
            let found: Vec<String> =
                said.iter().filter(|one| one.is_error()).map(Diagnostic::in_one_line).collect();
            assert_eq!(found, [expected], "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_words_do_not_panic(
            lines in prop::collection::vec(
                "(listen|relay|policy|max-size|timeout|refuse-sender)( [a0.:/*\\[\\]{}$\"\u{e9}]{0,6}){0,3}",
                0..5,
            )
        ) {
            drop(parse(&lines.join("\n")));
        }
    }
}
