//! The sockets that others reach the scheduler by: MAILQ, and the notices of routers.

use mio::net::{TcpListener, TcpStream, UnixDatagram, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use zsched_config::{BindAddress, MailqSocket, TcpPort};
use zsched_mailq_protocol::port;
use zsched_mailq_server::acl::Peer;
use zsched_spool::SpoolName;
use zsched_sys as sys;

/// The mode of a MAILQ socket: anybody may ask.
const ASKED_BY_ALL: u32 = 0o666;
/// The mode of the control socket: only we and root may ask.
const ASKED_BY_OWNER: u32 = 0o600;
/// The mode of the notify socket: only we and root may send.
const SENT_BY_OWNER: u32 = 0o200;
/// Errors of `accept` that are of the connection it would have returned (accept(2)): the next one may be
/// good.
const OF_ONE_CONNECTION: [i32; 9] = [
    libc::ECONNABORTED,
    libc::EINTR,
    libc::EPERM,
    libc::EPROTO,
    libc::ENETDOWN,
    libc::ENETUNREACH,
    libc::EHOSTDOWN,
    libc::EHOSTUNREACH,
    libc::ENOPROTOOPT,
];
/// The longest datagram that is looked at, in bytes.
const LONGEST_NOTICE: usize = 1000;

/// Whom a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody who may see the queue: MAILQ.
    Mailq,
    /// The scheduler's own user, and root.
    Control,
}

/// A socket that clients connect to.
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a path.
    Unix(UnixListener),
}

/// A connection of a MAILQ client.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a UNIX socket.
    Unix(UnixStream),
}

/// Where MAILQ clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailqPlace {
    /// A path.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(SocketAddr),
}

impl fmt::Display for MailqPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MailqPlace::Unix(path) => write!(f, "{}", path.display()),
            MailqPlace::Tcp(address) => write!(f, "TCP {address}"),
        }
    }
}

impl MailqPlace {
    /// All places that a configuration asks for.
    pub fn all(socket: Option<&MailqSocket>) -> Vec<MailqPlace> {
        let default = MailqSocket::Tcp {
            port: TcpPort::Service("mailq".to_string()),
            address: BindAddress::Loopback,
        };
        let (port, addresses): (&TcpPort, Vec<IpAddr>) = match socket.unwrap_or(&default) {
            MailqSocket::Unix(path) => return vec![MailqPlace::Unix(path.clone())],
            MailqSocket::Tcp { port, address } => (port, addresses(*address)),
        };
        let port = port_number(port);
        let place = |address| MailqPlace::Tcp(SocketAddr::new(address, port));
        addresses.into_iter().map(place).collect()
    }

    /// Opens it. If the system is to choose the port, the place knows afterwards which it is.
    pub fn open(&mut self) -> io::Result<Listener> {
        match self {
            MailqPlace::Unix(path) => open_unix(path, ASKED_BY_ALL),
            MailqPlace::Tcp(address) => {
                let listener = TcpListener::bind(*address)?;
                *address = listener.local_addr()?;
                Ok(Listener::Tcp(listener))
            }
        }
    }

    /// Lets it have the same port as another place, if the system is to choose it.
    pub fn follow(&mut self, other: &MailqPlace) {
        if let (MailqPlace::Tcp(address), MailqPlace::Tcp(other)) = (self, other)
            && address.port() == 0
        {
            address.set_port(other.port());
        }
    }

    /// Whether other hosts can connect.
    pub fn is_for_others(&self) -> bool {
        matches!(self, MailqPlace::Tcp(address) if !address.ip().is_loopback())
    }

    /// Whether the host can do without this place, although it was asked for: it has no IPv6, or its
    /// IPv6 socket serves IPv4, too.
    pub fn can_be_missing(&self, error: &io::Error) -> bool {
        let MailqPlace::Tcp(address) = self else {
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
pub fn open_control(path: &Path) -> io::Result<Listener> {
    open_unix(path, ASKED_BY_OWNER)
}

fn open_unix(path: &Path, mode: u32) -> io::Result<Listener> {
    remove_socket(path)?;
    let listener = UnixListener::bind(path)?;
    set_mode(path, mode)?;
    Ok(Listener::Unix(listener))
}

/// Says who may use a socket that was made just now. Until then nobody but we and root could: our umask
/// (022) leaves no others the right to write. It is not changed for a moment instead, since the helper
/// threads may be making files and folders.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn port_number(port: &TcpPort) -> u16 {
    match port {
        TcpPort::Number(number) => *number,
        TcpPort::Service(name) => port::of_service(name).unwrap_or_else(|| {
            if name != "mailq" {
                log::warn!(
                    "the service {name}/tcp is not known; MAILQ is on port {}",
                    port::DEFAULT
                );
            }
            port::DEFAULT
        }),
    }
}

/// Takes away a socket that a former scheduler has left. Anything else stays.
fn remove_socket(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(ErrorKind::AlreadyExists, "there is a file that is no socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

impl Listener {
    /// Has it watched.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Listener::Unix(listener) => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// The next connection, if there is one.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Stream {
    /// Has it watched.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Stream::Tcp(stream) => registry.register(stream, token, interest),
            Stream::Unix(stream) => registry.register(stream, token, interest),
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> io::Result<Peer> {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().map(|address| Peer::at(address.ip())),
            Stream::Unix(stream) => Ok(Peer::Local(sys::peer_user(stream).ok())),
        }
    }

    /// Whether nobody is there any more, given whether the other end has closed its sending direction. Over TCP
    /// there is no telling that from a client that has gone; nobody has reason to do it amid a session.
    pub fn is_abandoned(&self, has_ended: bool) -> bool {
        match self {
            Stream::Tcp(stream) => has_ended || sys::has_hung_up(stream),
            Stream::Unix(stream) => sys::has_hung_up(stream),
        }
    }

    /// Says that nothing more will be sent.
    pub fn close_sending(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write),
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Write),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The socket on which routers tell of new control files: `NEW <path>` in a datagram.
pub struct NotifySocket {
    socket: UnixDatagram,
}

impl NotifySocket {
    /// Opens it, and has it watched.
    pub fn open(path: &Path, registry: &Registry, token: Token) -> io::Result<NotifySocket> {
        remove_socket(path)?;
        let mut socket = UnixDatagram::bind(path)?;
        set_mode(path, SENT_BY_OWNER)?;
        registry.register(&mut socket, token, Interest::READABLE)?;
        Ok(NotifySocket { socket })
    }

    /// The next notice: `Some(None)` for one that names no control file.
    pub fn receive(&self) -> Option<Option<SpoolName>> {
        let mut buffer = [0; LONGEST_NOTICE];
        let count = self.socket.recv(&mut buffer).ok()?;
        Some(parse_notice(&buffer[..count]))
    }
}

/// Whether an error of [`Listener::accept`] concerns nobody but the client it would have returned.
pub fn concerns_one_client(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| OF_ONE_CONNECTION.contains(&number))
}

fn parse_notice(notice: &[u8]) -> Option<SpoolName> {
    SpoolName::from_notified(notice.strip_prefix(b"NEW ")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_name_files_or_nothing() {
        let name = |notice: &[u8]| parse_notice(notice).map(|name| name.path());
        assert_eq!(name(b"NEW 10101267").as_deref(), Some("10101267"));
        assert_eq!(name(b"NEW B/I/777").as_deref(), Some("B/I/777"));
        for notice in [&b"NEW 600\n"[..], b"NEW x702", b"NEW 0700", b"new 1", b"NEW", b"", b"OLD 1"]
        {
            assert_eq!(name(notice), None, "{notice:?}");
        }
    }

    #[test]
    fn a_port_of_the_system_s_choice_is_the_same_for_both_families() {
        let socket = MailqSocket::Tcp { port: TcpPort::Number(0), address: BindAddress::Loopback };
        let mut places = MailqPlace::all(Some(&socket));
        let _first = places[0].open().expect("a port");
        let (first, second) = places.split_at_mut(1);
        second[0].follow(&first[0]);
        let port = |place: &MailqPlace| {
            place.to_string().rsplit_once(':').map(|(_, port)| port.to_string())
        };
        assert_eq!(port(&first[0]), port(&second[0]));
        assert_ne!(port(&first[0]).as_deref(), Some("0"));
    }

    #[test]
    fn one_client_that_has_gone_is_no_reason_to_keep_others_waiting() {
        let concerns = |number| concerns_one_client(&io::Error::from_raw_os_error(number));
        assert!(concerns(libc::ECONNABORTED));
        assert!(!concerns(libc::EMFILE) && !concerns(libc::ENFILE) && !concerns(libc::EBADF));
    }

    #[test]
    fn nothing_but_a_socket_is_taken_away() {
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
