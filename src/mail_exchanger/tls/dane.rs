//! TLSA records, and the certificates that match them (RFC 6698, 7671, 7672).

use ring::digest;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use std::fmt;

/// Certificate usage of a trust anchor: the record names an issuer of the certificate.
const DANE_TA: u8 = 2;
/// Certificate usage of an end entity: the record names the certificate of the host itself.
const DANE_EE: u8 = 3;

/// A TLSA record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsaRecord {
    /// Certificate usage (RFC 6698 2.1.1).
    pub usage: u8,
    /// Selector: 0 for the whole certificate, 1 for its public key.
    pub selector: u8,
    /// Matching type: 0 for all bytes, 1 for SHA-256, 2 for SHA-512.
    pub matching: u8,
    /// Certificate association data.
    pub data: Vec<u8>,
}

impl TlsaRecord {
    /// Returns true if mail can use the record: usage 2 or 3, and all else is known (RFC 7672 3.1).
    pub fn is_usable(&self) -> bool {
        let digest_len = match self.matching {
            0 => None,
            1 => Some(digest::SHA256_OUTPUT_LEN),
            2 => Some(digest::SHA512_OUTPUT_LEN),
            _ => return false,
        };
        let is_long_enough = digest_len.map_or(!self.data.is_empty(), |len| self.data.len() == len);
        is_long_enough && self.selector <= 1 && matches!(self.usage, DANE_TA | DANE_EE)
    }

    /// Returns true if it names the certificate of a host.
    pub(super) fn is_end_entity(&self) -> bool {
        self.usage == DANE_EE
    }

    /// Returns true if it names an issuer.
    pub(super) fn is_trust_anchor(&self) -> bool {
        self.usage == DANE_TA
    }

    /// Returns true if a certificate has the data.
    pub(super) fn matches(&self, certificate: &CertificateDer<'_>) -> bool {
        match self.selector {
            0 => self.has_digest_of(certificate),
            1 => match ParsedCertificate::try_from(certificate) {
                Ok(parsed) => self.has_digest_of(&parsed.subject_public_key_info()),
                Err(_) => false,
            },
            _ => false,
        }
    }

    fn has_digest_of(&self, bytes: &[u8]) -> bool {
        match self.matching {
            0 => bytes == self.data,
            1 => digest::digest(&digest::SHA256, bytes).as_ref() == self.data,
            2 => digest::digest(&digest::SHA512, bytes).as_ref() == self.data,
            _ => false,
        }
    }
}

impl fmt::Display for TlsaRecord {
    /// Formats as in a zone file and in reports of TLS-RPT.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} ", self.usage, self.selector, self.matching)?;
        self.data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
