//! A connection to a service of another program.
//!
//! The service may be hung, or send bytes slowly or never.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use zsched_sys as sys;

/// Maximum time to connect. A service whose listen queue is full for longer does not work.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(5);

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceAddress {
    /// A UNIX socket.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

/// A socket with timeouts.
trait Socket: Read + Write {
    fn set_timeouts(&self, time: Duration) -> io::Result<()>;
}

impl Socket for UnixStream {
    fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Socket for TcpStream {
    fn set_timeouts(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// A stream that ends at a time, however slowly bytes come and go.
pub(crate) struct ServiceStream {
    socket: Box<dyn Socket>,
    end: Instant,
}

impl ServiceAddress {
    /// Parses `unix:/path`, `host:port` or `inet:host:port`.
    pub(crate) fn parse(text: &str) -> Result<ServiceAddress, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(ServiceAddress::Unix(path.into())),
                false => Err("the path of the socket does not begin with a slash"),
            };
        }
        let address = text.strip_prefix("inet:").unwrap_or(text);
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            Some(_) => Ok(ServiceAddress::Tcp(address.into())),
            None => Err("this is neither unix: and a path nor a host and a port"),
        }
    }

    /// Connects. The connection must be over at `end`.
    ///
    /// Looking up the name of a host may take longer: it is not in the hands of this program.
    pub(crate) fn connect(&self, end: Instant) -> io::Result<ServiceStream> {
        let socket: Box<dyn Socket> = match self {
            ServiceAddress::Unix(path) => Box::new(sys::connect_unix(path, connect_time(end)?)?),
            ServiceAddress::Tcp(address) => Box::new(connect_tcp(address, end)?),
        };
        Ok(ServiceStream { socket, end })
    }
}

/// Tries the addresses of a host in their order.
fn connect_tcp(address: &str, end: Instant) -> io::Result<TcpStream> {
    let mut error = io::Error::other("the host has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, connect_time(end)?) {
            Ok(stream) => return Ok(stream),
            Err(why) => error = why,
        }
    }
    Err(error)
}

fn connect_time(end: Instant) -> io::Result<Duration> {
    Ok(time_left(end)?.min(MAX_CONNECT_TIME))
}

fn time_left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for ServiceStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_timeouts(time_left(self.end)?)?;
        self.socket.read(buffer)
    }
}

impl Write for ServiceStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_timeouts(time_left(self.end)?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let unix = ServiceAddress::Unix("/run/p".into());
        assert_eq!(ServiceAddress::parse("unix:/run/p"), Ok(unix));
        let tcp = ServiceAddress::Tcp("127.0.0.1:10".into());
        assert_eq!(ServiceAddress::parse("inet:127.0.0.1:10"), Ok(tcp));
        for wrong in ["", "unix:run", "host", "host:x"] {
            ServiceAddress::parse(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn slow_bytes_do_not_put_off_the_end() {
        let (mut peer, stream) = UnixStream::pair().expect("a pair");
        let sender = std::thread::spawn(move || while peer.write_all(b"x").is_ok() {});
        let end = Instant::now() + Duration::from_millis(100);
        let mut stream = ServiceStream { socket: Box::new(stream), end };
        let error = io::copy(&mut stream, &mut io::sink()).expect_err("it would go on for ever");
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        drop(stream);
        sender.join().expect("it ends when nothing is read");
    }
}
