//! The sockets that others reach the scheduler by: MAILQ, and the notices of routers.

use crate::config::{BindAddress, MailqSocket, TcpPort};
use crate::mailq::port;
use crate::spool::SpoolName;
use crate::sys;
use mio::net::{TcpListener, TcpStream, UnixDatagram, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The umask under which a MAILQ socket is made: anybody may ask.
const ASKED_BY_ALL: u32 = 0o111;
/// The umask under which the control socket is made: only we and root may ask.
const ASKED_BY_OWNER: u32 = 0o177;
/// The umask under which the notify socket is made: only we and root may send.
const SENT_BY_OWNER: u32 = 0o577;
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

/// Opens the sockets for MAILQ clients. Returns those that could be opened, with what they are called
/// in the log, and the errors of the others.
pub fn open_mailq(socket: Option<&MailqSocket>) -> (Vec<(Listener, String)>, Vec<String>) {
    let default = MailqSocket::Tcp {
        port: TcpPort::Service("mailq".to_string()),
        address: BindAddress::Loopback,
    };
    match socket.unwrap_or(&default) {
        MailqSocket::Unix(path) => match open_unix(path, ASKED_BY_ALL) {
            Ok(listener) => (vec![(listener, path.display().to_string())], Vec::new()),
            Err(error) => (Vec::new(), vec![format!("{}: {error}", path.display())]),
        },
        MailqSocket::Tcp { port, address } => open_tcp(port_number(port), *address),
    }
}

/// Opens the control socket.
pub fn open_control(path: &Path) -> io::Result<Listener> {
    open_unix(path, ASKED_BY_OWNER)
}

fn open_unix(path: &Path, umask: u32) -> io::Result<Listener> {
    remove_socket(path)?;
    let former = sys::set_umask(umask);
    let listener = UnixListener::bind(path);
    sys::set_umask(former);
    Ok(Listener::Unix(listener?))
}

fn open_tcp(port: u16, address: BindAddress) -> (Vec<(Listener, String)>, Vec<String>) {
    let addresses: Vec<IpAddr> = match address {
        BindAddress::Loopback => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        BindAddress::Any => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
        BindAddress::Address(address) => vec![address],
    };
    let mut port = port;
    let (mut opened, mut errors) = (Vec::new(), Vec::new());
    for address in addresses {
        match bind(SocketAddr::new(address, port)) {
            Ok((listener, bound)) => {
                // If the system was to choose the port, it is the same for both families.
                port = bound.port();
                opened.push((Listener::Tcp(listener), format!("TCP {bound}")));
            }
            Err(error) => errors.push(format!("TCP {}: {error}", SocketAddr::new(address, port))),
        }
    }
    // A host without IPv6, or one whose IPv6 sockets serve IPv4 too, needs only one of them.
    if !opened.is_empty() {
        errors.clear();
    }
    (opened, errors)
}

fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
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
        let former = sys::set_umask(SENT_BY_OWNER);
        let socket = UnixDatagram::bind(path);
        sys::set_umask(former);
        let mut socket = socket?;
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
        let (opened, errors) = open_tcp(0, BindAddress::Loopback);
        assert_eq!(errors, [""; 0]);
        let ports: Vec<&str> =
            opened.iter().filter_map(|(_, name)| Some(name.rsplit_once(':')?.1)).collect();
        assert!(ports.windows(2).all(|pair| pair[0] == pair[1]), "{ports:?}");
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
