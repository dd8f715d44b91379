//! The server to ask, and its addresses.

use super::connection::stopped_scheduler;
use crate::failure::Failure;
use crate::installation::Installation;
use crate::options::{ConnectOptions, similar_command};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use zsched_config::{BindAddress, MailqSocket, TcpPort};
use zsched_mailq_protocol::port;
use zsched_spool::describe_folder_error;

/// Timeout for resolving the addresses of a host.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(15);

/// A server, as it was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// A UNIX socket on this host.
    Unix(PathBuf),
    /// A TCP port of a host.
    Tcp {
        /// Name or address of the host.
        host: String,
        /// Port.
        port: u16,
    },
}

impl Server {
    /// Finds the server that the options or the ZENV file name.
    ///
    /// The default is the scheduler of the spool.
    ///
    /// Fails if no port is named, and that scheduler does not run.
    pub(crate) fn find(installation: &Installation) -> Result<Server, Failure> {
        let options = &installation.options;
        let (port, bound) = match (&options.port, installation.mailq_port()) {
            (Some(text), _) => match read_port(text).map_err(Failure::Usage)? {
                MailqSocket::Unix(path) => return Ok(Server::Unix(path)),
                MailqSocket::Tcp { port, address } => (port, address),
            },
            (None, Some(text)) => {
                let wrong = |error| Failure::Installation(format!("MAILQPORT: {error}"));
                match read_port(text).map_err(wrong)? {
                    MailqSocket::Unix(_) => return Err(wrong(format!("{text} is not a TCP port"))),
                    MailqSocket::Tcp { port, address } => (port, address),
                }
            }
            (None, None) => match Server::of_spool(installation)? {
                Some(MailqSocket::Unix(path)) => return Ok(Server::Unix(path)),
                Some(MailqSocket::Tcp { port, address }) => (port, address),
                None => (TcpPort::Service("mailq".to_string()), BindAddress::Loopback),
            },
        };
        let port = port_number(&port).map_err(Failure::Usage)?;
        let named = options.server.as_deref().or(installation.mail_server());
        let host = match (named, bound) {
            (Some(name), _) => without_brackets(name).to_string(),
            (None, BindAddress::Address(address)) => address.to_string(),
            (None, _) => "localhost".to_string(),
        };
        Ok(Server::Tcp { host, port })
    }

    /// Where the scheduler of this spool serves MAILQ; `None` if it does not say so.
    ///
    /// Another scheduler of this host may have the default port.
    ///
    /// Fails if there is no spool, or its scheduler does not run.
    fn of_spool(installation: &Installation) -> Result<Option<MailqSocket>, Failure> {
        if !installation.asks_own_scheduler() {
            return Ok(None);
        }
        let spool = installation.spool();
        if let Err(error) = fs::metadata(spool.postoffice())
            && error.kind() == ErrorKind::NotFound
        {
            let missing = describe_folder_error(spool.transport(), &error);
            let advice = "option -Z names another installation, --server a host";
            return Err(Failure::Installation(format!("{missing}; {advice}")));
        }
        if let Some(stopped) = stopped_scheduler(installation) {
            return Err(Failure::Unavailable(stopped));
        }
        let control = spool.control_socket();
        let is_usable = || UnixStream::connect(&control).is_ok();
        Ok(installation
            .served_mailq()
            .or_else(|| is_usable().then(|| MailqSocket::Unix(control.clone()))))
    }

    /// Name of the host, as it was given.
    pub(crate) fn host(&self) -> &str {
        match self {
            Server::Unix(_) => "localhost",
            Server::Tcp { host, .. } => host,
        }
    }

    /// Returns true if the server is on this host: any of its addresses is one of this host.
    pub(crate) fn is_local(&self, addresses: &[SocketAddr]) -> bool {
        matches!(self, Server::Unix(_)) || addresses.iter().any(is_own)
    }

    /// Resolves the addresses, in the order in which the system tries them.
    ///
    /// There is at least one, but for a UNIX socket, which has none.
    pub(crate) fn addresses(&self, options: &ConnectOptions) -> Result<Vec<SocketAddr>, Failure> {
        let Server::Tcp { host, port } = self else { return Ok(Vec::new()) };
        let (name, port) = (host.clone(), *port);
        let resolved =
            within(RESOLVE_TIMEOUT, move || (name, port).to_socket_addrs().map(Vec::from_iter));
        let failed = |why: String| {
            // A mistyped command is taken for the name of a host.
            let advice = match similar_command(host) {
                _ if host.contains('.') => String::new(),
                Some(command) => {
                    format!("\nmailq: {host} is no command, either; did you mean \"{command}\"?")
                }
                None => format!("\nmailq: {host} is no command, either; --help lists the commands"),
            };
            Failure::Unavailable(format!("cannot resolve {host}: {why}{advice}"))
        };
        let mut addresses = match resolved {
            Some(Ok(addresses)) => addresses,
            // Even where nothing resolves it, this name is the loopback interface (RFC 6761).
            _ if host == "localhost" => {
                vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
            }
            Some(Err(error)) => return Err(failed(error.to_string())),
            None => return Err(failed("no answer from the name service".to_string())),
        };
        addresses.retain(|address| options.permit(address));
        if addresses.is_empty() {
            let option = if options.ipv4 { "-4" } else { "-6" };
            return Err(failed(format!("it has no address of the kind that {option} selects")));
        }
        Ok(addresses)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Unix(path) => write!(f, "{}", path.display()),
            Server::Tcp { host, port } => write!(f, "{host} port {port}"),
        }
    }
}

/// Returns true if an address is one of this host.
///
/// Only such an address can be bound to.
fn is_own(address: &SocketAddr) -> bool {
    let mut address = *address;
    address.set_port(0);
    address.ip().is_loopback() || UdpSocket::bind(address).is_ok()
}

fn read_port(text: &str) -> Result<MailqSocket, String> {
    MailqSocket::parse(text).map_err(|error| error.message)
}

fn port_number(port: &TcpPort) -> Result<u16, String> {
    match port {
        TcpPort::Number(0) => Err("0 is not a valid port".to_string()),
        TcpPort::Number(number) => Ok(*number),
        TcpPort::Service(name) => match port::from_services(name) {
            Some(port) => Ok(port),
            None if name == "mailq" => Ok(port::DEFAULT_PORT),
            None => Err(format!("unknown service {name}/tcp")),
        },
    }
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host)
}

/// Returns the result of `work`, or `None` after the timeout.
///
/// The work continues in its worker, and its result is dropped.
pub(crate) fn within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    // The send fails if the timeout is over.
    thread::spawn(move || drop(sender.send(work())));
    receiver.recv_timeout(time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MailqOptions;
    use clap::Parser;

    fn find(arguments: &str, zenv: &str) -> Result<String, i32> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("zmailer.conf");
        let own = format!("{}\n", std::process::id());
        std::fs::write(folder.path().join(".pid.scheduler"), own).expect("written");
        let zenv = format!("POSTOFFICE={}\n{zenv}", folder.path().display());
        std::fs::write(&path, zenv).expect("written");
        let words = std::iter::once("mailq").chain(arguments.split_ascii_whitespace());
        let options = MailqOptions::try_parse_from(words).expect("good options");
        let mut options = options.check().expect("good options").server_options;
        options.zenv = Some(path);
        let installation = Installation::read(&options).expect("a ZENV file");
        let found = Server::find(&installation);
        found.map(|server| server.to_string()).map_err(|failure| failure.status())
    }

    #[test]
    fn find_prefers_options_to_zenv_file() {
        for (arguments, zenv, server) in [
            ("-p 1174", "", "localhost port 1174"),
            ("-p 1174 mail", "MAILSERVER=other\nMAILQPORT=5\n", "mail port 1174"),
            ("-p TCP:1174", "MAILSERVER=other\n", "other port 1174"),
            ("-p smtp", "", "localhost port 25"),
            ("-p /run/mailq mail", "MAILQPORT=5\n", "/run/mailq"),
            ("-p UNIX:/run/mailq", "", "/run/mailq"),
            ("", "MAILQPORT=10174\n", "localhost port 10174"),
            ("mail", "MAILQPORT=10174@any\n", "mail port 10174"),
            ("", "MAILQPORT=10174@192.0.2.1\n", "192.0.2.1 port 10174"),
            ("", "MAILQPORT=\nMAILSERVER=\n", "localhost port 174"),
            ("[::1]", "", "::1 port 174"),
        ] {
            assert_eq!(find(arguments, zenv).as_deref(), Ok(server), "{arguments} {zenv}");
        }
        for (arguments, zenv, status) in [
            ("-p 70000", "", 64),
            ("-p 0", "", 64),
            ("-p no-such-service", "", 64),
            ("-p", "MAILQPORT=/run/mailq\n", 72),
            ("-p", "MAILQPORT=1 2\n", 72),
        ] {
            let arguments = if arguments == "-p" { "" } else { arguments };
            assert_eq!(find(arguments, zenv), Err(status), "{arguments} {zenv}");
        }
    }

    #[test]
    fn addresses_are_limited_to_family() {
        let server = |host: &str| Server::Tcp { host: host.to_string(), port: 174 };
        let any = ConnectOptions::default();
        let (mut v4, mut v6) = (any.clone(), any.clone());
        (v4.ipv4, v6.ipv6) = (true, true);
        for (host, options, is_found) in [
            ("127.0.0.1", &any, true),
            ("127.0.0.1", &v4, true),
            ("127.0.0.1", &v6, false),
            ("::1", &v6, true),
            ("::1", &v4, false),
        ] {
            let addresses = server(host).addresses(options);
            assert_eq!(addresses.is_ok(), is_found, "{host} {options:?}");
            assert!(addresses.is_ok_and(|addresses| server(host).is_local(&addresses)) == is_found);
        }
        let documented = server("192.0.2.1");
        let addresses = documented.addresses(&any).expect("an address");
        assert!(!documented.is_local(&addresses));
    }

    #[test]
    fn within_gives_up_after_timeout() {
        let forever = || thread::sleep(Duration::from_secs(3600));
        assert_eq!(within(Duration::from_millis(10), forever), None);
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
    }
}
