//! Starts TLS on connections.

use super::certificates::CertificateCheck;
use super::error::{TlsError, TlsErrorKind};
use super::policy::{TlsPolicy, Verification};
use super::session::{TlsStream, Verified};
use crate::settings::{ClientCertificate, TlsSettings};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Maximum number of policies whose sessions can be resumed.
const MAX_CONFIGS: usize = 32;
/// Maximum number of sessions of a policy that can be resumed, of all hosts.
const MAX_SESSIONS: usize = 32;

/// Starts TLS, for one agent and its life.
///
/// Certificate authorities are loaded when the first certificate is verified. Sessions are resumed
/// between connections that must be protected in the same way.
pub struct TlsConnector {
    settings: TlsSettings,
    provider: Arc<CryptoProvider>,
    roots: Option<Arc<RootCertStore>>,
    /// One for each way of verification, the one used last at the end.
    configs: Vec<(ConfigKey, Arc<ClientConfig>)>,
}

/// Sessions may be resumed only where the same check was made.
#[derive(Clone, PartialEq, Eq)]
struct ConfigKey {
    verification: Verification,
    only_tests: bool,
}

impl TlsConnector {
    /// Creates it; reads no file.
    pub fn new(settings: TlsSettings) -> TlsConnector {
        let provider = Arc::new(ring::default_provider());
        TlsConnector { settings, provider, roots: None, configs: Vec::new() }
    }

    /// Starts TLS on a stream, as the policy requires.
    ///
    /// Reads and writes of the stream must end at some time, as those of a
    /// [`crate::Connection`] do at its deadline.
    pub fn start<S: Read + Write>(
        &mut self,
        mut stream: S,
        policy: &TlsPolicy,
    ) -> Result<TlsStream<S>, TlsError> {
        let config = self.config(policy)?;
        let name = ServerName::try_from(policy.server_name.clone()).map_err(|_| {
            let text = format!("`{}` cannot be the name of a TLS host", policy.server_name);
            TlsError::new(TlsErrorKind::Handshake, text)
        })?;
        let mut connection =
            ClientConnection::new(config, name).map_err(|error| TlsError::of_rustls(&error))?;
        while connection.is_handshaking() {
            let done = connection.complete_io(&mut stream);
            done.map_err(|error| TlsError::of_handshake(&error))?;
        }
        let verified = self.verified(policy, &connection)?;
        Ok(TlsStream::new(connection, stream, verified, &policy.reason))
    }

    /// How the host was verified. A policy that only tests is checked here.
    fn verified(
        &mut self,
        policy: &TlsPolicy,
        connection: &ClientConnection,
    ) -> Result<Verified, TlsError> {
        let success = match &policy.verification {
            Verification::None => return Ok(Verified::NotAsked),
            Verification::Names(_) => Verified::ByAuthority,
            Verification::Dane { .. } => Verified::ByDane,
        };
        if !policy.only_tests {
            return Ok(success);
        }
        let check = self.check(&policy.verification)?;
        let checked = match connection.peer_certificates() {
            Some([certificate, issuers @ ..]) => check.check(certificate, issuers, UnixTime::now()),
            _ => Err(rustls::Error::NoCertificatesPresented),
        };
        Ok(checked.map_or_else(|error| Verified::Failed(TlsError::of_rustls(&error)), |()| success))
    }

    fn config(&mut self, policy: &TlsPolicy) -> Result<Arc<ClientConfig>, TlsError> {
        let key =
            ConfigKey { verification: policy.verification.clone(), only_tests: policy.only_tests };
        let found = self.configs.iter().position(|(known, _)| *known == key);
        let (key, config) = match found {
            Some(at) => self.configs.remove(at),
            None => {
                let config = Arc::new(self.new_config(&key)?);
                (key, config)
            }
        };
        if self.configs.len() >= MAX_CONFIGS {
            self.configs.remove(0);
        }
        self.configs.push((key, config.clone()));
        Ok(config)
    }

    fn new_config(&mut self, key: &ConfigKey) -> Result<ClientConfig, TlsError> {
        let verification = if key.only_tests { &Verification::None } else { &key.verification };
        let check = self.check(verification)?;
        let builder = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::of_rustls(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(check));
        let mut config = match &self.settings.client_certificate {
            Some(ClientCertificate { certificate_file, key_file }) => {
                let key = PrivateKeyDer::from_pem_file(key_file)
                    .map_err(|error| unusable(key_file, &error.to_string()))?;
                builder
                    .with_client_auth_cert(read_certificates(certificate_file)?, key)
                    .map_err(|error| unusable(certificate_file, &error.to_string()))?
            }
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
        Ok(config)
    }

    fn check(&mut self, verification: &Verification) -> Result<CertificateCheck, TlsError> {
        let roots = match verification {
            Verification::Names(_) => self.roots()?,
            Verification::None | Verification::Dane { .. } => Arc::new(RootCertStore::empty()),
        };
        let provider = self.provider.clone();
        Ok(CertificateCheck { verification: verification.clone(), roots, provider })
    }

    /// The certificate authorities of the settings, or else of the system.
    fn roots(&mut self) -> Result<Arc<RootCertStore>, TlsError> {
        if let Some(roots) = &self.roots {
            return Ok(roots.clone());
        }
        let certificates = authorities(&self.settings)?;
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            let text = "there are no certificate authorities; `ca-file` names a file with some";
            return Err(TlsError::new(TlsErrorKind::Settings, text));
        }
        Ok(self.roots.insert(Arc::new(roots)).clone())
    }
}

/// Reads the certificate authorities.
pub(crate) fn authorities(
    settings: &TlsSettings,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    match &settings.ca_file {
        Some(path) => read_certificates(path),
        None => Ok(rustls_native_certs::load_native_certs().certs),
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, &error.to_string()))
}

fn unusable(path: &Path, reason: &str) -> TlsError {
    TlsError::new(TlsErrorKind::Settings, format!("{}: {reason}", path.display()))
}
