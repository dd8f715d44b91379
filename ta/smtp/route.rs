//! Where the mail of a host goes: fixed addresses, without DNS.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use zsched_agent::{Outcome, Verdict};

/// A host to which mail goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanger {
    /// Its name; an address in brackets if it has none; the path of a UNIX socket.
    pub name: String,
    /// Where to connect to, in the order to try.
    pub endpoints: Vec<Endpoint>,
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a UNIX socket.
    Unix(PathBuf),
}

/// Finds the exchangers of a host.
pub fn route(host: &str, default_port: u16) -> Result<Vec<Exchanger>, Box<Outcome>> {
    let failed = |text: String| Box::new(Outcome::new(Verdict::Failed, "5.1.2", 550, text));
    if let Some(path) = host.strip_prefix("unix:").or(host.starts_with('/').then_some(host)) {
        let endpoints = vec![Endpoint::Unix(path.into())];
        return Ok(vec![Exchanger { name: path.to_string(), endpoints }]);
    }
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => match port.parse() {
            Ok(port) => (name, port),
            Err(_) => return Err(failed(format!("{port} is not a port"))),
        },
        _ => (host, default_port),
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let inner = inner.strip_prefix("IPv6:").unwrap_or(inner);
    let endpoints = match inner.parse::<IpAddr>() {
        Ok(address) => vec![Endpoint::Tcp(SocketAddr::new(address, port))],
        Err(_) => (inner, port)
            .to_socket_addrs()
            .map_err(|error| {
                Box::new(Outcome::new(Verdict::Deferred, "4.4.3", 451, error.to_string()))
            })?
            .map(Endpoint::Tcp)
            .collect(),
    };
    Ok(vec![Exchanger { name: name.to_string(), endpoints }])
}
