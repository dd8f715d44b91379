//! A TLS server on loopback, which echoes what it reads.

use crate::certificates::HostCertificate;
use rustls::crypto::ring::default_provider;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A server that runs as long as the process of the tests.
pub(crate) struct TlsServer {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl TlsServer {
    /// Starts a server that echoes.
    pub(crate) fn echo(certificate: &HostCertificate) -> TlsServer {
        TlsServer::start(config(certificate, None), echo)
    }

    /// Starts a server that echoes to clients with a certificate of this authority only.
    pub(crate) fn echo_to_known(
        certificate: &HostCertificate,
        authority: &crate::certificates::Authority,
    ) -> TlsServer {
        TlsServer::start(config(certificate, Some(authority)), echo)
    }

    /// Starts a server with a function for each connection.
    pub(crate) fn start(
        config: Arc<ServerConfig>,
        serve: impl Fn(&mut StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()>
        + Send
        + Sync
        + 'static,
    ) -> TlsServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { continue };
                socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let connection = ServerConnection::new(config.clone()).unwrap();
                let serve = serve.clone();
                // The client's side of a failure is what the tests look at.
                thread::spawn(move || serve(&mut StreamOwned::new(connection, socket)).ok());
            }
        });
        TlsServer { address, connections }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub(crate) fn config(
    certificate: &HostCertificate,
    clients: Option<&crate::certificates::Authority>,
) -> Arc<ServerConfig> {
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.certificate.clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let config =
        builder.with_single_cert(certificate.chain.clone(), certificate.key.clone_key()).unwrap();
    Arc::new(config)
}

fn echo(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    let mut buffer = [0; 1000];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length])?;
    }
}
