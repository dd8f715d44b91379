//! Checks the certificate of a host as a policy requires.

use super::dane::TlsaRecord;
use super::policy::Verification;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Checks the certificates of one policy.
#[derive(Debug)]
pub(super) struct CertificateCheck {
    pub(super) verification: Verification,
    /// The certificate authorities; empty if none are needed.
    pub(super) roots: Arc<RootCertStore>,
    pub(super) provider: Arc<CryptoProvider>,
}

impl CertificateCheck {
    /// Checks the certificates that a host has sent, its own first.
    pub(super) fn check(
        &self,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        match &self.verification {
            Verification::None => Ok(()),
            Verification::Names(names) => {
                self.check_chain(&self.roots, certificate, issuers, now)?;
                check_names(certificate, names)
            }
            Verification::Dane { records, names } => {
                self.check_dane(records, names, certificate, issuers, now)
            }
        }
    }

    /// Checks by TLSA records (RFC 7672 3.1): one that matches is enough.
    fn check_dane(
        &self,
        records: &[TlsaRecord],
        names: &[String],
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let usable = || records.iter().filter(|record| record.is_usable());
        // Neither the names nor the dates of the certificate count.
        if usable().any(|record| record.is_end_entity() && record.matches(certificate)) {
            return Ok(());
        }
        let mut reason = CertificateError::UnknownIssuer.into();
        let mut is_anchor = |issuer: &&CertificateDer<'_>| {
            usable().any(|record| record.is_trust_anchor() && record.matches(issuer))
        };
        // The issuer may be left out of the chain if the record has all of it.
        let whole = usable()
            .filter(|record| {
                record.is_trust_anchor() && (record.selector, record.matching) == (0, 0)
            })
            .map(|record| CertificateDer::from(record.data.as_slice()));
        let anchors = issuers.iter().filter(&mut is_anchor).cloned().chain(whole);
        for anchor in anchors {
            let mut roots = RootCertStore::empty();
            let checked = roots
                .add(anchor.into_owned())
                .and_then(|()| self.check_chain(&roots, certificate, issuers, now))
                .and_then(|()| check_names(certificate, names));
            match checked {
                Ok(()) => return Ok(()),
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    fn check_chain(
        &self,
        roots: &RootCertStore,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let certificate = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, roots, issuers, now, algorithms)
    }
}

/// Checks that a certificate has one of the names, or addresses.
fn check_names(certificate: &CertificateDer<'_>, names: &[String]) -> Result<(), Error> {
    let certificate = ParsedCertificate::try_from(certificate)?;
    let mut reason = CertificateError::NotValidForName.into();
    for name in names {
        let Ok(name) = ServerName::try_from(name.as_str()) else { continue };
        match verify_server_name(&certificate, &name) {
            Ok(()) => return Ok(()),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

impl ServerCertVerifier for CertificateCheck {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(certificate, issuers, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // A signature by a key that any host may have made proves nothing. Old hosts have keys and
        // certificates that cannot be checked, and would get the mail in plain text otherwise.
        if self.verification == Verification::None {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.verification == Verification::None {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
