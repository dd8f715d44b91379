//! Connections: which endpoint is used, from which address, and what ends the wait.

use crate::{mail_exchangers, soon};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use zsched_mail_exchanger::{
    Connection, DnsSettings, Endpoint, MailExchangers, Source, SourceAddress, TlsSettings,
};

fn exchangers() -> MailExchangers {
    mail_exchangers(DnsSettings::default(), &TlsSettings::default())
}

/// A listener on an address of loopback, and a port there that refuses connections.
fn listener() -> (TcpListener, Endpoint, Endpoint) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // Nothing listens on this address, but on this port of another one.
    let refusing = SocketAddr::new([127, 9, 9, 9].into(), address.port());
    (listener, Endpoint::Tcp(address), Endpoint::Tcp(refusing))
}

#[test]
fn the_first_endpoint_that_accepts_is_used() {
    let (listener, good, bad) = listener();
    let endpoints = [bad, good.clone()];
    let mut connection = exchangers().connect(&endpoints, &Source::default(), soon()).unwrap();
    assert_eq!(connection.peer(), &good);
    let (mut peer, from) = listener.accept().unwrap();
    assert_eq!(connection.local_address(), Some(from));
    peer.write_all(b"220 hello\r\n").unwrap();
    let mut line = [0; 11];
    connection.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"220 hello\r\n");
    connection.write_all(b"QUIT\r\n").unwrap();
    drop(connection);
    let mut said = String::new();
    peer.read_to_string(&mut said).unwrap();
    assert_eq!(said, "QUIT\r\n");
}

#[test]
fn an_error_names_each_endpoint() {
    // The port is in use on another address only. If it were free, another test could get it.
    let (listener, ..) = listener();
    let port = listener.local_addr().unwrap().port();
    let endpoints = [8, 9].map(|last| Endpoint::Tcp(SocketAddr::from(([127, 9, 9, last], port))));
    let error = exchangers().connect(&endpoints, &Source::default(), soon()).unwrap_err();
    let refused = "Connection refused (os error 111)";
    assert_eq!(
        error.to_string(),
        format!("connect to {}: {refused}, connect to {}: {refused}", endpoints[0], endpoints[1])
    );
    let none = exchangers().connect(&[], &Source::default(), soon()).unwrap_err();
    assert_eq!(none.to_string(), "no address to connect to");
}

/// A listener that takes no more connections, so that the next one waits.
struct FullListener {
    _waiting: Vec<std::net::TcpStream>,
    _listener: std::os::fd::OwnedFd,
    address: SocketAddr,
}

impl FullListener {
    fn new() -> FullListener {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listen(&listener, 0).unwrap();
        let address: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
        let mut waiting = Vec::new();
        while let Ok(socket) =
            std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100))
        {
            waiting.push(socket);
        }
        FullListener { _waiting: waiting, _listener: listener, address }
    }
}

#[test]
fn an_endpoint_that_does_not_answer_gets_company() {
    let slow = FullListener::new();
    let (_listener, good, _) = listener();
    let endpoints = [Endpoint::Tcp(slow.address), good.clone()];
    let connection = exchangers().connect(&endpoints, &Source::default(), soon()).unwrap();
    assert_eq!(connection.peer(), &good);
}

#[test]
fn connecting_ends_at_the_deadline() {
    let slow = FullListener::new();
    let deadline = Instant::now() + Duration::from_millis(300);
    let endpoints = [Endpoint::Tcp(slow.address)];
    let error = exchangers().connect(&endpoints, &Source::default(), deadline).unwrap_err();
    assert_eq!(error.to_string(), format!("connect to {}: timed out", slow.address));
    assert!(Instant::now() >= deadline);
}

#[test]
fn a_connection_comes_from_the_source_address() {
    let (listener, good, _) = listener();
    let from = |address: &str| Source {
        ipv4: Some(SourceAddress {
            address: address.parse().unwrap(),
            weight: 1,
            helo: Some("out.example".into()),
        }),
        ipv6: None,
    };
    let source = from("127.7.7.7");
    let endpoints = [good];
    let connection = exchangers().connect(&endpoints, &source, soon()).unwrap();
    let local = connection.local_address().unwrap().ip();
    assert_eq!(local.to_string(), "127.7.7.7");
    assert_eq!(source.helo_of(&local), Some("out.example"));
    assert_eq!(listener.accept().unwrap().1.ip(), local);

    let error = exchangers().connect(&endpoints, &from("198.51.100.7"), soon()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("bind to source address 198.51.100.7: Cannot assign"), "{text}");
}

#[test]
fn a_unix_socket_is_an_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lmtp");
    let endpoints = [Endpoint::Unix(path.clone())];
    let error = exchangers().connect(&endpoints, &Source::default(), soon()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("connect to {}: No such file or directory (os error 2)", path.display())
    );
    let listener = UnixListener::bind(&path).unwrap();
    let mut connection = exchangers().connect(&endpoints, &Source::default(), soon()).unwrap();
    listener.accept().unwrap().0.write_all(b"2").unwrap();
    let mut byte = [0];
    connection.read_exact(&mut byte).unwrap();
    assert_eq!((byte, connection.local_address()), (*b"2", None));
}

#[test]
fn reads_and_writes_end_at_the_deadline() {
    let (listener, good, _) = listener();
    let mut connection = exchangers().connect(&[good], &Source::default(), soon()).unwrap();
    let (_peer, _) = listener.accept().unwrap();
    let within = |connection: &mut Connection| {
        connection.set_deadline(Instant::now() + Duration::from_millis(50));
    };
    within(&mut connection);
    assert_eq!(connection.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    within(&mut connection);
    let many = vec![0; 100_000_000];
    assert_eq!(connection.write_all(&many).unwrap_err().kind(), ErrorKind::TimedOut);
}
