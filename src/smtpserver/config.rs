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
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use zsched_config::{
    Diagnostic, DiagnosticSink, Glob, Keyword, Name, Setting, ValueError, Word, Zenv, first_word,
    quote, read_settings,
};

/// Ports of this host on which the server listens without a configuration.
const DEFAULT_PORTS: [(u16, Service); 3] =
    [(2525, Service::Smtp), (2587, Service::Submission), (2524, Service::Lmtp)];

/// What follows a limit that may be switched off.
const LIMIT: &str = "a number, or none";
/// What follows a limit for an hour that may be switched off.
const HOURLY_LIMIT: &str = "a number for an hour, or none";

/// A limit that may be switched off.
macro_rules! limit {
    ($name:literal, $expected:ident => $($field:ident).+) => {
        Keyword::once($name, $expected, 1, first_word!(Word::limit => config.limits.$($field).+))
    };
}

/// The keywords.
pub static KEYWORDS: &[Keyword<Draft>] = &[
    Keyword::once("hostname", "the name of this host", 1, |draft, setting, _| {
        draft.config.hostname = Some(setting.words[0].text.to_lowercase());
        Ok(())
    }),
    Keyword::repeated(
        "listen",
        "an address with a port, and smtp, submission, submissions or lmtp",
        2,
        2,
        |draft, setting, _| draft.listen(&setting.words[0], &setting.words[1]),
    ),
    Keyword::repeated("relay", "one or more networks", 1, usize::MAX, |draft, setting, _| {
        if !std::mem::replace(&mut draft.has_relay, true) {
            draft.config.relay.clear();
        }
        add_networks(setting.words, &mut draft.config.relay)
    }),
    Keyword::repeated(
        "relay-domain",
        "one or more domains",
        1,
        usize::MAX,
        |draft, setting, sink| {
            for word in setting.words {
                draft.config.relay_domains.push(pattern(word, sink)?);
            }
            Ok(())
        },
    ),
    Keyword::repeated(
        "refuse-client",
        "a network, and perhaps a text",
        1,
        2,
        |draft, setting, _| {
            let refused = (network(&setting.words[0])?, text(setting, "this client is refused"));
            draft.config.refused_clients.push(refused);
            Ok(())
        },
    ),
    Keyword::repeated(
        "refuse-sender",
        "a domain or address, and perhaps a text",
        1,
        2,
        |draft, setting, sink| {
            let refused =
                (pattern(&setting.words[0], sink)?, text(setting, "this sender is refused"));
            draft.config.refused_senders.push(refused);
            Ok(())
        },
    ),
    Keyword::once(
        "certificate",
        "two files: the certificates, and the key",
        2,
        |draft, setting, _| {
            let [certificates, key] = setting.words else {
                return Err(setting.words[0].error("after `certificate` come two files"));
            };
            draft.config.certificate = Some((certificates.path()?, key.path()?));
            Ok(())
        },
    ),
    Keyword::once(
        "logins",
        "a file of users and hashes of passwords, or dovecot: and a socket",
        1,
        |draft, setting, _| {
            draft.config.logins = Some(login_source(&setting.words[0])?);
            Ok(())
        },
    ),
    Keyword::once("policy", "unix: and a path, or a host and a port", 1, |draft, setting, _| {
        let word = &setting.words[0];
        let parsed = ServiceAddress::parse(&word.text);
        draft.config.policy = Some(parsed.map_err(|why| word.error(why))?);
        Ok(())
    }),
    Keyword::repeated(
        "raise-priority",
        "networks, and logins",
        1,
        usize::MAX,
        |draft, setting, _| {
            let (logins, networks): (Vec<Word>, Vec<Word>) =
                setting.words.iter().cloned().partition(|word| word.text == "logins");
            draft.config.logins_raise_priority |= !logins.is_empty();
            add_networks(&networks, &mut draft.config.raise_priority)
        },
    ),
    Keyword::once(
        "max-size",
        "a number of bytes such as 50M",
        1,
        first_word!(Word::size => config.limits.max_size),
    ),
    Keyword::once("max-recipients", "a number", 1, |draft, setting, _| {
        draft.config.limits.max_recipients = setting.words[0].number()? as usize;
        Ok(())
    }),
    Keyword::once("max-connections", "a number", 1, |draft, setting, _| {
        draft.config.limits.max_connections = setting.words[0].number()? as usize;
        Ok(())
    }),
    limit!("max-connections-per-client", LIMIT => client.open),
    limit!("max-connections-per-login", LIMIT => login.open),
    limit!("max-connections-per-relay", LIMIT => relay.open),
    limit!("max-new-connections-per-client", HOURLY_LIMIT => client.connections),
    limit!("max-new-connections-per-login", HOURLY_LIMIT => login.connections),
    limit!("max-new-connections-per-relay", HOURLY_LIMIT => relay.connections),
    limit!("max-messages-per-client", HOURLY_LIMIT => client.messages),
    limit!("max-messages-per-login", HOURLY_LIMIT => login.messages),
    limit!("max-messages-per-relay", HOURLY_LIMIT => relay.messages),
    limit!("max-recipients-per-client", HOURLY_LIMIT => client.recipients),
    limit!("max-recipients-per-login", HOURLY_LIMIT => login.recipients),
    limit!("max-recipients-per-relay", HOURLY_LIMIT => relay.recipients),
    limit!("max-failed-logins", HOURLY_LIMIT => failed_logins),
    limit!("max-failed-logins-per-client", HOURLY_LIMIT => client_failed_logins),
    limit!("max-failed-logins-per-login", HOURLY_LIMIT => login_failed_logins),
    Keyword::once(
        "max-hold",
        "a time such as 7d; 0 offers no FUTURERELEASE",
        1,
        first_word!(Word::interval => config.limits.max_hold),
    ),
    Keyword::once(
        "max-memory",
        "a number of bytes such as 256M",
        1,
        first_word!(Word::size => config.limits.max_memory),
    ),
    Keyword::once(
        "min-free-space",
        "a number of bytes such as 32M",
        1,
        first_word!(Word::size => config.limits.min_free_space),
    ),
    Keyword::repeated(
        "disable",
        "MT-PRIORITY, FUTURERELEASE or both",
        1,
        2,
        |draft, setting, _| {
            for word in setting.words {
                match &*word.text.to_ascii_uppercase() {
                    "MT-PRIORITY" => draft.config.has_priorities = false,
                    "FUTURERELEASE" => draft.config.has_holds = false,
                    _ => {
                        return Err(
                            word.error("only MT-PRIORITY and FUTURERELEASE can be disabled")
                        );
                    }
                }
            }
            Ok(())
        },
    ),
    Keyword::once("timeout", "a time such as 5m", 1, |draft, setting, _| {
        draft.config.limits.timeout = setting.words[0].interval()?.max(Duration::from_secs(1));
        Ok(())
    }),
    Keyword::once(
        "greeting-delay",
        "a time such as 2s",
        1,
        first_word!(Word::interval => config.limits.greeting_delay),
    ),
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

impl Listener {
    /// What it is for, for people.
    pub fn title(&self) -> &'static str {
        match (self.service, self.is_tls) {
            (Service::Smtp, _) => "SMTP",
            (Service::Submission, false) => "submission",
            (Service::Submission, true) => "submission with TLS",
            (Service::Lmtp, _) => "LMTP",
        }
    }
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

/// Limits of one client, relay client or login.
#[derive(Clone, Copy, Debug)]
pub struct SubjectLimits {
    /// Maximum number of connections at a time.
    pub open: Option<u64>,
    /// Maximum number of connections in an hour.
    pub connections: Option<u64>,
    /// Maximum number of messages in an hour.
    pub messages: Option<u64>,
    /// Maximum number of recipients in an hour.
    pub recipients: Option<u64>,
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
    /// Limits of a client outside `relay` that has not logged in.
    pub client: SubjectLimits,
    /// Limits of a client of `relay` that has not logged in.
    pub relay: SubjectLimits,
    /// Limits of a login.
    pub login: SubjectLimits,
    /// Maximum number of failures in an hour of one client to log in as one user.
    pub failed_logins: Option<u64>,
    /// Maximum number of failed logins in an hour of a client outside `relay`.
    pub client_failed_logins: Option<u64>,
    /// Maximum number of failures in an hour to log in as one user.
    pub login_failed_logins: Option<u64>,
    /// Time after which a client without progress is disconnected.
    pub timeout: Duration,
    /// Time before the greeting of clients outside `relay`.
    pub greeting_delay: Duration,
    /// Maximum time for which a user may have a message held; zero is never.
    pub max_hold: Duration,
    /// Maximum memory of messages that are being received, in bytes.
    pub max_memory: u64,
    /// Free space of the spool that is left to the router and the scheduler, in bytes.
    pub min_free_space: u64,
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
    pub raise_priority: Vec<Network>,
    /// Clients that have logged in may do so, too.
    pub logins_raise_priority: bool,
    /// Messages may have a priority (MT-PRIORITY).
    pub has_priorities: bool,
    /// Users may have messages held (FUTURERELEASE).
    pub has_holds: bool,
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

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_size: 50 << 20,
            max_recipients: 1000,
            max_connections: 10_000,
            client: SubjectLimits {
                open: Some(50),
                connections: Some(10_000),
                messages: Some(10_000),
                recipients: Some(10_000),
            },
            relay: SubjectLimits {
                open: None,
                connections: None,
                messages: None,
                recipients: None,
            },
            login: SubjectLimits {
                open: Some(50),
                connections: Some(1000),
                messages: Some(500),
                recipients: Some(500),
            },
            failed_logins: Some(10),
            client_failed_logins: Some(100),
            login_failed_logins: Some(100),
            timeout: Duration::from_secs(300),
            greeting_delay: Duration::from_millis(200),
            max_hold: Duration::from_secs(7 * 86_400),
            max_memory: 256 << 20,
            min_free_space: 32 << 20,
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
            raise_priority: Vec::new(),
            logins_raise_priority: false,
            has_priorities: true,
            has_holds: true,
            limits: Limits::default(),
        }
    }
}

impl ServerConfig {
    /// Parses the text of a configuration file.
    ///
    /// `file_name` is used in messages only. Returns the warnings; on failure, all errors and
    /// warnings.
    pub fn parse(
        file_name: &Path,
        text: &[u8],
        zenv: &Zenv,
    ) -> Result<(ServerConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut draft = Draft::default();
        let warnings =
            read_settings(file_name, text, zenv, KEYWORDS, &mut draft, |draft, sink| {
                draft.check(sink);
            })?;
        Ok((draft.config, warnings))
    }

    /// Returns true if this host is a backup for a domain.
    pub fn is_relay_domain(&self, domain: &str) -> bool {
        let address = format!("@{domain}");
        self.relay_domains.iter().any(|pattern| pattern.matches(&address))
    }

    /// Returns true if a client may give messages a higher priority than the usual one.
    pub fn may_raise_priority(&self, ip: IpAddr) -> bool {
        self.raise_priority.iter().any(|network| network.contains(ip))
    }

    /// Returns true if a client may send to any address.
    pub fn may_relay(&self, ip: IpAddr) -> bool {
        self.relay.iter().any(|network| network.contains(ip))
    }
}

/// The configuration while the file is read.
#[derive(Debug, Default)]
pub struct Draft {
    config: ServerConfig,
    has_listener: bool,
    has_relay: bool,
    /// Offset of the first port with TLS.
    needs_certificate: Option<usize>,
    /// Offset of the first port for users.
    has_submission: Option<usize>,
}

impl Draft {
    fn listen(&mut self, address: &Word, service: &Word) -> Result<(), ValueError> {
        let parsed: SocketAddr = address.text.parse().map_err(|_| {
            let shown = quote(&address.text);
            address.error(format!("{shown} is no address such as 127.0.0.1:2525"))
        })?;
        let (kind, is_tls) = match &*service.text {
            "smtp" => (Service::Smtp, false),
            "submission" => (Service::Submission, false),
            "submissions" => (Service::Submission, true),
            "lmtp" => (Service::Lmtp, false),
            _ => {
                let message = "the services are smtp, submission, submissions and lmtp";
                return Err(service.error(message));
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
        Some(_) => Err(word.error("the path of the socket does not begin with a slash")),
    }
}

fn network(word: &Word) -> Result<Network, ValueError> {
    word.text.parse().map_err(|why: &str| word.error(why))
}

fn add_networks(words: &[Word], networks: &mut Vec<Network>) -> Result<(), ValueError> {
    words.iter().try_for_each(|word| network(word).map(|network| networks.push(network)))
}

fn pattern(word: &Word, sink: &mut DiagnosticSink<'_>) -> Result<AddressPattern, ValueError> {
    Ok(AddressPattern { glob: word.pattern(sink)?, is_address: word.text.contains('@') })
}

/// The text for refused clients.
fn text(setting: &Setting<'_>, default: &str) -> String {
    setting.words.get(1).map_or(default, |word| &word.text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<(ServerConfig, Vec<Diagnostic>), Vec<Diagnostic>> {
        ServerConfig::parse(Path::new("smtpserver.cf"), text.as_bytes(), &Zenv::default())
    }

    #[test]
    fn settings_are_read() {
        let text = "listen [::1]:25 smtp\nlisten 127.0.0.1:465 submissions\nrelay 10.0.0.0/8\n\
            certificate /c /k\nlogins /p\nmax-size 2M\nrelay-domain *.example.org\ntimeout 2m\n\
            policy unix:/run/policy\nrefuse-sender evil@* \"go away\"\n";
        let (config, _) = parse(text).expect("good");
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
