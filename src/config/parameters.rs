//! `PARAM…` assignments: the settings of the scheduler as a whole.

use super::diagnostic::{ValueError, quote};
use super::kinds::{NONZERO_INTERVAL, Syntax, syntax};
use super::table::{Keyword, table};
use super::units::parse_number;
use super::value::Shown;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
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
    /// Obeys `x` lines: a message takes the place of an older one of the same local user.
    ///
    /// `PARAMobey-obsoletes`, default off.
    pub obey_obsoletes: bool,
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
            obey_obsoletes: false,
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

/// A path.
const PATH: Syntax<PathBuf> = syntax("a path", |input| match input.text {
    "" => Err(ValueError::new(0, "a path is needed here")),
    path => Ok(path.into()),
});
/// The path of a Unix socket.
const UNIX_PATH: Syntax<PathBuf> = syntax("a path", |input| unix_path(input.text));
/// The socket for MAILQ clients.
const MAILQ_SOCKET: Syntax<MailqSocket> =
    syntax("a socket", |input| MailqSocket::parse(input.text));
/// A switch: any number but 0 is "yes".
const SWITCH: Syntax<bool> = syntax("0 or 1", |input| Ok(parse_number(input.text)? != 0));
/// A number greater than 0.
const POSITIVE: Syntax<u32> = syntax("a number", |input| {
    let positive = u32::try_from(parse_number(input.text)?).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| ValueError::new(0, "a number above 0 is needed here"))
});

/// All parameters, in alphabetic order.
pub(crate) static PARAMETERS: &[Keyword<Parameters>] = table! { Parameters:
    /// The accounts of MAILQ version 2; without it, MAILQ is version 1.
    "PARAMauthfile": PATH, "none" => auth_file;
    /// Time between reports of failures while other recipients of a message still wait.
    "PARAMglobal-report-interval": NONZERO_INTERVAL, "5m" => global_report_interval;
    /// Other hosts may use passwords kept as plain text; without accounts they see the queue, too.
    "PARAMmailq-trust-network": SWITCH, "0" => mailq_trust_network or zero;
    /// The socket to which MAILQ clients connect.
    "PARAMmailqsock" | "PARAMmailqpath": MAILQ_SOCKET, "TCP:mailq, which is port 174"
        => mailq_socket;
    /// Maximum number of messages in memory; the others are on disk only.
    "PARAMmessage-active-limit": POSITIVE, "none; 20000 where another limit on memory is set"
        => message_active_limit;
    /// Maximum number of recipients in memory that come with the first chunk of a message.
    "PARAMmessage-recipient-limit": POSITIVE, "none; 20000 where another limit on memory is set"
        => message_recipient_limit;
    /// Number of recipients of each message that are read in any case.
    "PARAMmessage-recipient-minimum": POSITIVE, "none; 10 where another limit on memory is set"
        => message_recipient_minimum;
    /// Do not wait for the disk when reports are submitted: faster, but they may be lost.
    "PARAMmsgwriteasync": SWITCH, "0" => write_async or zero;
    /// The socket to which routers send notices of new messages.
    "PARAMnotifysock": UNIX_PATH,
        "SCHEDULERNOTIFY of the ZENV file, else .scheduler.notify in POSTOFFICE" => notify_socket;
    /// A message replaces the older one that its x line names.
    ///
    /// Both are of the same local user.
    "PARAMobey-obsoletes": SWITCH, "0" => obey_obsoletes or zero;
    /// Keep reports that cannot be sent in the folder postman of POSTOFFICE.
    "PARAMstore-error-on-error": SWITCH, "0" => store_error_on_error or zero;
};
