//! The certificate of the server.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::session::TlsFacts;

/// Reads certificates and key. TLS 1.2 and 1.3 are used, with the defaults of `rustls`.
pub(crate) fn load(certificates: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let named = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: error: {error}", path.display()))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect)
        .map_err(|error| named(certificates, &error))?;
    if chain.is_empty() {
        return Err(named(certificates, &"there is no certificate in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| named(certificates, &error))?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| named(certificates, &error))?;
    Ok(Arc::new(config))
}

/// What was agreed on.
pub(crate) fn facts(tls: &ServerConnection) -> TlsFacts {
    let version = match tls.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLS",
    };
    let cipher = tls.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    // IANA's names of ciphers of TLS 1.3 do not have its version.
    let cipher = cipher.map(|name| name.replace("TLS13_", "TLS_"));
    let cipher = cipher.unwrap_or_else(|| "unknown".into());
    let key_bits = if cipher.contains("AES_128") { 128 } else { 256 };
    TlsFacts { version: version.into(), cipher, key_bits }
}
