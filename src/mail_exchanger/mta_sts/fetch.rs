//! Fetches the text of a policy over HTTPS.

use crate::settings::TlsSettings;
use crate::tls::{TlsResultType, authorities};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

/// Maximum length of a policy, in bytes (RFC 8461 3.3 suggests 64 kB).
const MAX_POLICY_LEN: u64 = 64 * 1024;
/// Maximum number of addresses that are tried.
const MAX_ADDRESSES: usize = 8;

/// Fetches a policy from `https://HOST/.well-known/mta-sts.txt`.
///
/// Redirections are not followed (RFC 8461 3.3).
pub(super) fn fetch(
    host: &str,
    addresses: Vec<IpAddr>,
    settings: &TlsSettings,
    deadline: Instant,
) -> Result<Vec<u8>, (TlsResultType, String)> {
    let failed = |reason: String| (TlsResultType::StsPolicyFetchError, reason);
    let roots = authorities(settings).map_err(|error| failed(error.to_string()))?;
    let roots: Vec<_> = roots.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Config::builder()
        .https_only(true)
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_global(Some(deadline.saturating_duration_since(Instant::now())))
        .user_agent("zsched")
        .tls_config(tls)
        .build();
    let port = settings.mta_sts_port;
    let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
    let agent = Agent::with_parts(config, DefaultConnector::default(), Addresses(addresses));
    let authority = if port == 443 { host.to_string() } else { format!("{host}:{port}") };
    let url = format!("https://{authority}/.well-known/mta-sts.txt");
    let mut response = agent.get(&url).call().map_err(|error| of_ureq(&url, &error))?;
    if response.status() != 200 {
        return Err(failed(format!("{url}: status {}", response.status().as_u16())));
    }
    let body = response.body_mut().with_config().limit(MAX_POLICY_LEN).read_to_vec();
    body.map_err(|error| of_ureq(&url, &error))
}

fn of_ureq(url: &str, error: &Error) -> (TlsResultType, String) {
    let is_certificate = match error {
        Error::Rustls(rustls::Error::InvalidCertificate(_)) => true,
        Error::Io(error) => error.get_ref().is_some_and(|inner| {
            matches!(inner.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
        }),
        _ => false,
    };
    let result_type = if is_certificate {
        TlsResultType::StsWebpkiInvalid
    } else {
        TlsResultType::StsPolicyFetchError
    };
    (result_type, format!("{url}: {error}"))
}

/// Addresses that are known already.
#[derive(Debug)]
struct Addresses(Vec<SocketAddr>);

impl Resolver for Addresses {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut found = self.empty();
        for address in self.0.iter().take(MAX_ADDRESSES) {
            found.push(*address);
        }
        Ok(found)
    }
}
