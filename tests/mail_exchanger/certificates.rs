//! Certificates of authorities and hosts, made for a test.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// An authority of a test.
pub(crate) struct Authority {
    pub(crate) certificate: CertificateDer<'static>,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct HostCertificate {
    /// The chain, the host's own first.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    pub(crate) pem: String,
    pub(crate) key_pem: String,
    /// The public key, in the form that selector 1 of TLSA records takes.
    pub(crate) public_key: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Authority { certificate: der, pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for these names.
    pub(crate) fn certify(&self, names: &[&str]) -> HostCertificate {
        self.certify_until(names, 2100)
    }

    /// A certificate that expires at the beginning of a year.
    pub(crate) fn certify_until(&self, names: &[&str], year: i32) -> HostCertificate {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        HostCertificate {
            chain: vec![certificate.der().clone(), self.certificate.clone()],
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            public_key: rcgen::PublicKeyData::subject_public_key_info(&key),
        }
    }

    /// Writes the authority's certificate to a file.
    pub(crate) fn write(&self, path: &Path) {
        std::fs::write(path, &self.pem).unwrap();
    }
}
