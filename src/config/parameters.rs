//! `PARAM…` assignments: the settings of the scheduler as a whole.

use super::diagnostic::{ValueError, quote};
use super::keywords::Status;
use super::units::{Interval, parse_number};
use super::value::nonzero_interval;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default of `PARAMglobal-report-interval`, in seconds.
const DEFAULT_REPORT_INTERVAL: u64 = 300;

/// The settings of the scheduler as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The file of MAILQ accounts (version 2). `PARAMauthfile`, default none.
    pub auth_file: Option<PathBuf>,
    /// The socket for MAILQ clients.
    ///
    /// `PARAMmailqsock`, default the service `mailq` of the system, else TCP port 174.
    pub mailq_socket: Option<MailqSocket>,
    /// Trusts the network between MAILQ clients and this host.
    ///
    /// Other hosts may log in with passwords that are kept in plain text in the file of accounts.
    /// Without such a file they see the queue without a login. `PARAMmailq-trust-network`, default
    /// off.
    pub mailq_trust_network: bool,
    /// The datagram socket for routers' notices of new messages.
    ///
    /// `PARAMnotifysock`, default the ZENV variable SCHEDULERNOTIFY, else
    /// `$POSTOFFICE/.scheduler.notify`.
    pub notify_socket: Option<PathBuf>,
    /// Does not wait for the disk when reports are submitted. `PARAMmsgwriteasync`, default off.
    pub write_async: bool,
    /// Time between failure reports while other recipients of a message still wait.
    ///
    /// Never zero. `PARAMglobal-report-interval`, default 5m.
    pub global_report_interval: Duration,
    /// Stores a report without any recipient below `$POSTOFFICE/postman/`.
    ///
    /// `PARAMstore-error-on-error`, default off.
    pub store_error_on_error: bool,
    /// Maximum number of messages in memory.
    ///
    /// `PARAMmessage-active-limit`; see [`Parameters::memory`].
    pub message_active_limit: Option<u32>,
    /// Maximum number of recipients loaded with the first chunks of messages.
    ///
    /// `PARAMmessage-recipient-limit`; see [`Parameters::memory`].
    pub message_recipient_limit: Option<u32>,
    /// Number of recipients of each message that may be in memory in any case.
    ///
    /// `PARAMmessage-recipient-minimum`; see [`Parameters::memory`].
    pub message_recipient_minimum: Option<u32>,
}

/// Limits on the part of the queue in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum number of recipients loaded with the first chunks of messages.
    pub recipients: usize,
    /// Number of recipients of each message that may be loaded in any case.
    pub minimum: usize,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            auth_file: None,
            mailq_socket: None,
            mailq_trust_network: false,
            notify_socket: None,
            write_async: false,
            global_report_interval: Duration::from_secs(DEFAULT_REPORT_INTERVAL),
            store_error_on_error: false,
            message_active_limit: None,
            message_recipient_limit: None,
            message_recipient_minimum: None,
        }
    }
}

impl Parameters {
    /// Limits on the part of the queue in memory.
    ///
    /// `None` is no limit, and holds unless one of the three parameters is set.
    pub fn memory(&self) -> Option<MemoryLimits> {
        let given = [
            (self.message_active_limit, 20_000),
            (self.message_recipient_limit, 20_000),
            (self.message_recipient_minimum, 10),
        ];
        let is_any_given = given.iter().any(|(limit, _)| limit.is_some());
        let [messages, recipients, minimum] =
            given.map(|(limit, default)| limit.unwrap_or(default) as usize);
        is_any_given.then_some(MemoryLimits { messages, recipients, minimum })
    }
}

/// The socket for MAILQ clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailqSocket {
    /// A Unix stream socket with this path.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// The port.
        port: TcpPort,
        /// The addresses that it listens on.
        address: BindAddress,
    },
}

/// A TCP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpPort {
    /// Its number; 0 lets the system choose one.
    Number(u16),
    /// Its service name. The original uses 174 for an unknown one.
    Service(String),
}

/// The addresses that a port listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// The loopback addresses `127.0.0.1` and `::1`.
    Loopback,
    /// All addresses.
    Any,
    /// This address.
    Address(IpAddr),
}

impl MailqSocket {
    /// Parses the address of a socket.
    ///
    /// The forms are `UNIX:/path`, `/path`, `TCP:port`, `TCP:service`, `port` and `service`. The
    /// last four accept `@address` or `@any` at the end.
    pub fn parse(text: &str) -> Result<MailqSocket, ValueError> {
        if text.starts_with('/') || strip_scheme(text, "UNIX:").is_some() {
            return unix_path(text).map(MailqSocket::Unix);
        }
        let rest = strip_scheme(text, "TCP:").unwrap_or(text);
        let start = text.len() - rest.len();
        let (port, address) = match rest.split_once('@') {
            Some((port, address)) => {
                let at = start + port.len() + 1;
                (port, bind_address(address).map_err(|message| ValueError::new(at, message))?)
            }
            None => (rest, BindAddress::Loopback),
        };
        let port = tcp_port(port).map_err(|message| ValueError::new(start, message))?;
        Ok(MailqSocket::Tcp { port, address })
    }
}

impl fmt::Display for MailqSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (port, address) = match self {
            MailqSocket::Unix(path) => return write!(f, "UNIX:{}", path.display()),
            MailqSocket::Tcp { port, address } => (port, address),
        };
        match port {
            TcpPort::Number(number) => write!(f, "TCP:{number}")?,
            TcpPort::Service(name) => write!(f, "TCP:{name}")?,
        }
        match address {
            BindAddress::Loopback => Ok(()),
            BindAddress::Any => f.write_str("@any"),
            BindAddress::Address(address) => write!(f, "@{address}"),
        }
    }
}

fn strip_scheme<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let prefix = text.get(..scheme.len())?;
    prefix.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
}

/// `UNIX:/path` or `/path`.
fn unix_path(text: &str) -> Result<PathBuf, ValueError> {
    let path = strip_scheme(text, "UNIX:").unwrap_or(text);
    if path.starts_with('/') {
        return Ok(PathBuf::from(path));
    }
    let at = text.len() - path.len();
    Err(ValueError::new(
        at,
        format!("{} is not the path of a socket, such as UNIX:/path", quote(path)),
    ))
}

fn tcp_port(text: &str) -> Result<TcpPort, String> {
    if text.is_empty() {
        return Err("a port or the name of a service is missing here".to_string());
    }
    if let Ok(number) = text.parse() {
        return Ok(TcpPort::Number(number));
    }
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    let is_name =
        text.bytes().all(of_a_name) && text.bytes().any(|byte| byte.is_ascii_alphabetic());
    if !is_name {
        return Err(format!("{} is neither a port nor the name of a service", quote(text)));
    }
    Ok(TcpPort::Service(text.to_string()))
}

fn bind_address(text: &str) -> Result<BindAddress, String> {
    if text.eq_ignore_ascii_case("any") {
        return Ok(BindAddress::Any);
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse()
        .map(BindAddress::Address)
        .map_err(|_| format!("{} is neither an address nor `any`", quote(text)))
}

/// A parameter, as the table describes it.
#[derive(Debug)]
pub struct ParameterKeyword {
    /// Its name with the prefix, which the file may write in upper or lower case.
    pub name: &'static str,
    /// Other names for the same thing.
    pub aliases: &'static [&'static str],
    /// Its default.
    pub default: &'static str,
    /// Short description of its value.
    pub takes: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// How far it is implemented.
    pub status: Status,
    /// Parses and sets a value.
    pub(super) set: fn(&mut Parameters, &str) -> Result<(), ValueError>,
    /// The value in force, if there is one.
    pub(super) get: fn(&Parameters) -> Option<String>,
}

impl ParameterKeyword {
    /// All its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// All parameters, in alphabetic order.
pub fn parameters() -> &'static [ParameterKeyword] {
    PARAMETERS
}

/// The parameter with this name or alias, in upper or lower case.
pub(super) fn find(name: &str) -> Option<&'static ParameterKeyword> {
    PARAMETERS.iter().find(|row| row.names().any(|known| known.eq_ignore_ascii_case(name)))
}

fn path(text: &str) -> Result<PathBuf, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new(0, "a path is needed here"));
    }
    Ok(PathBuf::from(text))
}

/// Parses a switch: any number but 0 is "yes".
fn switch(text: &str) -> Result<bool, ValueError> {
    parse_number(text).map(|number| number != 0)
}

/// Parses a number greater than 0.
fn positive(text: &str) -> Result<u32, ValueError> {
    let number = parse_number(text)?;
    let positive = u32::try_from(number).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| ValueError::new(0, "a number above 0 is needed here"))
}

fn shown_path(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

fn shown_switch(is_on: bool) -> Option<String> {
    Some(i32::from(is_on).to_string())
}

static PARAMETERS: &[ParameterKeyword] = &[
    ParameterKeyword {
        name: "PARAMauthfile",
        aliases: &[],
        default: "none",
        takes: "a path",
        about: "The accounts of MAILQ version 2; without it, version 1 is spoken.",
        status: Status::Supported,
        set: |parameters, text| path(text).map(|path| parameters.auth_file = Some(path)),
        get: |parameters| shown_path(parameters.auth_file.as_deref()),
    },
    ParameterKeyword {
        name: "PARAMglobal-report-interval",
        aliases: &[],
        default: "5m",
        takes: "an interval",
        about: "Time between reports of failures while other recipients of a message still wait.",
        status: Status::Supported,
        set: |parameters, text| {
            nonzero_interval(text).map(|span| parameters.global_report_interval = span)
        },
        get: |parameters| Some(Interval(parameters.global_report_interval).to_string()),
    },
    ParameterKeyword {
        name: "PARAMmailq-trust-network",
        aliases: &[],
        default: "0",
        takes: "0 or 1",
        about: "Let other hosts log in to MAILQ with passwords that are kept as they are, and see the \
                queue without a login where there are no accounts.",
        status: Status::Supported,
        set: |parameters, text| switch(text).map(|is_on| parameters.mailq_trust_network = is_on),
        get: |parameters| shown_switch(parameters.mailq_trust_network),
    },
    ParameterKeyword {
        name: "PARAMmailqsock",
        aliases: &["PARAMmailqpath"],
        default: "TCP:mailq, which is port 174",
        takes: "a socket",
        about: "Where MAILQ clients connect.",
        status: Status::Supported,
        set: |parameters, text| {
            MailqSocket::parse(text).map(|socket| parameters.mailq_socket = Some(socket))
        },
        get: |parameters| parameters.mailq_socket.as_ref().map(MailqSocket::to_string),
    },
    ParameterKeyword {
        name: "PARAMmessage-active-limit",
        aliases: &[],
        default: "none; 20000 where another limit on memory is set",
        takes: "a number",
        about: "Messages in memory at a time; the others rest on disk.",
        status: Status::Supported,
        set: |parameters, text| {
            positive(text).map(|limit| parameters.message_active_limit = Some(limit))
        },
        get: |parameters| parameters.message_active_limit.map(|limit| limit.to_string()),
    },
    ParameterKeyword {
        name: "PARAMmessage-recipient-limit",
        aliases: &[],
        default: "none; 20000 where another limit on memory is set",
        takes: "a number",
        about: "Recipients in memory, as far as they come with the first part of a message.",
        status: Status::Supported,
        set: |parameters, text| {
            positive(text).map(|limit| parameters.message_recipient_limit = Some(limit))
        },
        get: |parameters| parameters.message_recipient_limit.map(|limit| limit.to_string()),
    },
    ParameterKeyword {
        name: "PARAMmessage-recipient-minimum",
        aliases: &[],
        default: "none; 10 where another limit on memory is set",
        takes: "a number",
        about: "Recipients of each message that are read whatever the other limits.",
        status: Status::Supported,
        set: |parameters, text| {
            positive(text).map(|limit| parameters.message_recipient_minimum = Some(limit))
        },
        get: |parameters| parameters.message_recipient_minimum.map(|limit| limit.to_string()),
    },
    ParameterKeyword {
        name: "PARAMmsgwriteasync",
        aliases: &[],
        default: "0",
        takes: "0 or 1",
        about: "Do not wait for the disk when reports are submitted: faster, and they may be lost.",
        status: Status::Supported,
        set: |parameters, text| switch(text).map(|is_on| parameters.write_async = is_on),
        get: |parameters| shown_switch(parameters.write_async),
    },
    ParameterKeyword {
        name: "PARAMnotifysock",
        aliases: &[],
        default: "SCHEDULERNOTIFY of the ZENV file, else .scheduler.notify in POSTOFFICE",
        takes: "a path",
        about: "The socket that routers send notices of new messages to.",
        status: Status::Supported,
        set: |parameters, text| unix_path(text).map(|path| parameters.notify_socket = Some(path)),
        get: |parameters| shown_path(parameters.notify_socket.as_deref()),
    },
    ParameterKeyword {
        name: "PARAMstore-error-on-error",
        aliases: &[],
        default: "0",
        takes: "0 or 1",
        about: "Keep reports that cannot be sent to anybody in the folder postman of POSTOFFICE.",
        status: Status::Supported,
        set: |parameters, text| switch(text).map(|is_on| parameters.store_error_on_error = is_on),
        get: |parameters| shown_switch(parameters.store_error_on_error),
    },
];
