//! Sockets for MAILQ clients and for notices of routers.

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixDatagram, UnixListener, UnixStream};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::path::{Path, PathBuf};
use zsched_bulk::draft;
use zsched_config::{BindAddress, MailqSocket, TcpPort};
use zsched_mailq_protocol::port;
use zsched_mailq_server::acl::Peer;
use zsched_service::bind_socket;
use zsched_spool::SpoolName;
use zsched_sys as sys;

/// Mode of a MAILQ socket: all users may connect.
const MAILQ_SOCKET_MODE: u32 = 0o666;
/// Mode of the control socket: only the scheduler's user and root may connect.
const CONTROL_SOCKET_MODE: u32 = 0o600;
/// Mode of the notify socket: only the scheduler's user and root may send.
const NOTIFY_SOCKET_MODE: u32 = 0o200;
/// Maximum length of a notice, in bytes. The rest of a longer datagram is cut off.
const MAX_NOTICE_LEN: usize = 1000;

/// Kind of clients that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// MAILQ clients, which may see the queue.
    Mailq,
    /// Control socket clients: the scheduler's own user, and root.
    Control,
}

/// Socket that clients connect to: on a TCP port, or on a path.
pub(crate) trait Listener: Source {
    /// Accepts the next connection. Without one, the error is [`ErrorKind::WouldBlock`].
    fn accept_client(&self) -> io::Result<Box<dyn Connection>>;
}

/// Connection of a client.
pub(crate) trait Connection: Source + Read + Write {
    /// Returns the address or user of the client.
    fn peer(&self) -> io::Result<Peer>;

    /// Returns true if the client is gone.
    ///
    /// `has_ended` is true if it has closed its sending direction.
    fn is_closed(&self, has_ended: bool) -> bool;

    /// Closes the sending direction.
    fn shutdown_write(&self) -> io::Result<()>;
}

/// Address of MAILQ: where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MailqAddress {
    /// Path of a UNIX socket.
    Unix(PathBuf),
    /// Address and TCP port.
    Tcp(SocketAddr),
}

impl fmt::Display for MailqAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MailqAddress::Unix(path) => write!(f, "{}", path.display()),
            MailqAddress::Tcp(address) => write!(f, "TCP {address}"),
        }
    }
}

impl MailqAddress {
    /// Returns all addresses of a configuration.
    pub(crate) fn all(socket: Option<&MailqSocket>) -> Vec<MailqAddress> {
        let default = MailqSocket::Tcp {
            port: TcpPort::Service("mailq".to_string()),
            address: BindAddress::Loopback,
        };
        let (port, addresses): (&TcpPort, Vec<IpAddr>) = match socket.unwrap_or(&default) {
            MailqSocket::Unix(path) => return vec![MailqAddress::Unix(path.clone())],
            MailqSocket::Tcp { port, address } => (port, addresses(*address)),
        };
        let port = port_number(port);
        let place = |address| MailqAddress::Tcp(SocketAddr::new(address, port));
        addresses.into_iter().map(place).collect()
    }

    /// Opens the socket. A port chosen by the system is stored in the address.
    pub(crate) fn open(&mut self) -> io::Result<Box<dyn Listener>> {
        match self {
            MailqAddress::Unix(path) => open_unix(path, MAILQ_SOCKET_MODE),
            MailqAddress::Tcp(address) => {
                let listener = TcpListener::bind(*address)?;
                *address = listener.local_addr()?;
                Ok(Box::new(listener))
            }
        }
    }

    /// Takes over the port of another address, if the system is to choose this one's.
    pub(crate) fn copy_port(&mut self, other: &MailqAddress) {
        if let (MailqAddress::Tcp(address), MailqAddress::Tcp(other)) = (self, other)
            && address.port() == 0
        {
            address.set_port(other.port());
        }
    }

    /// Writes the address into a file, in the form of `PARAMmailqsock`.
    ///
    /// Clients that read it meanwhile get the former address or this one.
    pub(crate) fn publish(&self, path: &Path) -> io::Result<()> {
        let new = sys::with_suffix(path, ".new");
        fs::write(&new, format!("{}\n", self.as_parameter()))?;
        fs::rename(&new, path)
    }

    fn as_parameter(&self) -> MailqSocket {
        let address = match self {
            MailqAddress::Unix(path) => return MailqSocket::Unix(path.clone()),
            MailqAddress::Tcp(address) => address,
        };
        let bound = match address.ip() {
            ip if ip.is_unspecified() => BindAddress::Any,
            ip => BindAddress::Address(ip),
        };
        MailqSocket::Tcp { port: TcpPort::Number(address.port()), address: bound }
    }

    /// Returns true if other hosts can connect.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, MailqAddress::Tcp(address) if !address.ip().is_loopback())
    }

    /// Returns true if the error is no reason to warn or retry.
    ///
    /// That is so if the host has no IPv6, or if the IPv6 socket serves IPv4, too.
    pub(crate) fn is_expected_failure(&self, error: &io::Error) -> bool {
        let MailqAddress::Tcp(address) = self else {
            return false;
        };
        let is_unknown_family = error.raw_os_error() == Some(libc::EAFNOSUPPORT);
        let is_served =
            address.ip() == Ipv4Addr::UNSPECIFIED && error.kind() == ErrorKind::AddrInUse;
        is_unknown_family || error.kind() == ErrorKind::AddrNotAvailable || is_served
    }
}

fn addresses(address: BindAddress) -> Vec<IpAddr> {
    match address {
        BindAddress::Loopback => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        BindAddress::Any => vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
        BindAddress::Address(address) => vec![address],
    }
}

/// Opens the control socket.
pub(crate) fn open_control(path: &Path) -> io::Result<Box<dyn Listener>> {
    open_unix(path, CONTROL_SOCKET_MODE)
}

fn open_unix(path: &Path, mode: u32) -> io::Result<Box<dyn Listener>> {
    Ok(Box::new(bind_socket(path, mode, |path| UnixListener::bind(path))?))
}

fn port_number(port: &TcpPort) -> u16 {
    match port {
        TcpPort::Number(number) => *number,
        TcpPort::Service(name) => port::from_services(name).unwrap_or_else(|| {
            if name != "mailq" {
                log::warn!(
                    "the service {name}/tcp is not known; MAILQ is on port {}",
                    port::DEFAULT_PORT
                );
            }
            port::DEFAULT_PORT
        }),
    }
}

impl Listener for TcpListener {
    fn accept_client(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.accept()?.0))
    }
}

impl Listener for UnixListener {
    fn accept_client(&self) -> io::Result<Box<dyn Connection>> {
        Ok(Box::new(self.accept()?.0))
    }
}

impl Connection for TcpStream {
    fn peer(&self) -> io::Result<Peer> {
        self.peer_addr().map(|address| Peer::at(address.ip()))
    }

    /// A half-closed connection cannot be told from a closed one.
    ///
    /// It counts as closed: no client has a reason to half-close during a session.
    fn is_closed(&self, has_ended: bool) -> bool {
        has_ended || sys::is_hung_up(self)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Connection for UnixStream {
    fn peer(&self) -> io::Result<Peer> {
        Ok(Peer::Local(sys::peer_user(self).ok()))
    }

    fn is_closed(&self, _has_ended: bool) -> bool {
        sys::is_hung_up(self)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

/// Opens the socket for notices of new control files from routers: `NEW <path>` in a datagram.
pub(crate) fn open_notify(path: &Path) -> io::Result<UnixDatagram> {
    bind_socket(path, NOTIFY_SOCKET_MODE, |path| UnixDatagram::bind(path))
}

/// A datagram about new mail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// There is a new control file.
    Message(SpoolName),
    /// There is a new bulk job.
    BulkJob,
    /// It names no control file.
    Unknown,
}

/// Receives the next notice.
pub(crate) fn next_notice(socket: &UnixDatagram) -> Option<Notice> {
    let mut buffer = [0; MAX_NOTICE_LEN];
    let count = socket.recv(&mut buffer).ok()?;
    Some(parse_notice(&buffer[..count]))
}

fn parse_notice(notice: &[u8]) -> Notice {
    if notice == draft::NOTICE.as_bytes() {
        return Notice::BulkJob;
    }
    let name = notice.strip_prefix(b"NEW ").and_then(SpoolName::from_notified);
    name.map_or(Notice::Unknown, Notice::Message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notice_names_control_file_or_nothing() {
        let name = |notice: &[u8]| match parse_notice(notice) {
            Notice::Message(name) => Some(name.path()),
            _ => None,
        };
        assert_eq!(parse_notice(b"NEW bulk"), Notice::BulkJob);
        assert_eq!(name(b"NEW 10101267").as_deref(), Some("10101267"));
        assert_eq!(name(b"NEW B/I/777").as_deref(), Some("B/I/777"));
        for notice in [&b"NEW 600\n"[..], b"NEW x702", b"NEW 0700", b"new 1", b"NEW", b"", b"OLD 1"]
        {
            assert_eq!(name(notice), None, "{notice:?}");
        }
    }

    #[test]
    fn mailq_port_chosen_by_system_is_same_for_both_families() {
        let socket = MailqSocket::Tcp { port: TcpPort::Number(0), address: BindAddress::Loopback };
        let mut places = MailqAddress::all(Some(&socket));
        let _first = places[0].open().expect("a port");
        let (first, second) = places.split_at_mut(1);
        second[0].copy_port(&first[0]);
        let port = |place: &MailqAddress| {
            place.to_string().rsplit_once(':').map(|(_, port)| port.to_string())
        };
        assert_eq!(port(&first[0]), port(&second[0]));
        assert_ne!(port(&first[0]).as_deref(), Some("0"));
    }

    #[test]
    fn control_socket_open_replaces_only_sockets() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("mailq");
        fs::write(&path, "precious").expect("written");
        assert!(open_control(&path).is_err());
        assert_eq!(fs::read_to_string(&path).expect("still there"), "precious");
        fs::remove_file(&path).expect("removed");
        drop(open_control(&path).expect("a socket"));
        open_control(&path).expect("the old socket makes way");
    }
}
