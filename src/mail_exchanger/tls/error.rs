//! Why TLS could not be started, with the codes for reports.

use super::record::TlsResultType;
use rustls::CertificateError;
use std::io;

/// Why TLS could not be started.
///
/// `Display` gives the text for reports and logs, without codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct TlsError {
    /// What failed.
    pub kind: TlsErrorKind,
    /// The text for people.
    pub text: String,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsErrorKind {
    /// The host does not offer STARTTLS, or refuses it, and the policy requires TLS.
    NotOffered,
    /// The hosts agree on no version or cipher.
    ///
    /// Or one of them breaks the protocol.
    Handshake,
    /// The certificate is not for the name that it must have.
    NameMismatch,
    /// The certificate has expired, or is not valid yet.
    Expired,
    /// The certificate is not from a known authority, or does not match a TLSA record.
    NotTrusted,
    /// The certificate is wrong in another way.
    Certificate,
    /// The connection was lost.
    Io,
    /// The time was over.
    Timeout,
    /// Certificates or keys of this host cannot be used.
    Settings,
}

impl TlsError {
    pub(super) fn new(kind: TlsErrorKind, text: impl Into<String>) -> TlsError {
        TlsError { kind, text: text.into() }
    }

    /// The enhanced status code (RFC 3463). It is always temporary: a host may be mended.
    pub fn enhanced_code(&self) -> &'static str {
        match self.kind {
            TlsErrorKind::NotOffered => "4.7.4",
            TlsErrorKind::Io | TlsErrorKind::Timeout => "4.4.2",
            TlsErrorKind::Settings => "4.3.5",
            _ => "4.7.5",
        }
    }

    /// Returns true if a later try may succeed without a change of the host's settings.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, TlsErrorKind::Io | TlsErrorKind::Timeout | TlsErrorKind::Settings)
    }

    /// The type of result in reports of TLS-RPT (RFC 8460 4.3).
    pub fn result_type(&self) -> TlsResultType {
        match self.kind {
            TlsErrorKind::NotOffered => TlsResultType::StarttlsNotSupported,
            TlsErrorKind::NameMismatch => TlsResultType::CertificateHostMismatch,
            TlsErrorKind::Expired => TlsResultType::CertificateExpired,
            TlsErrorKind::NotTrusted => TlsResultType::CertificateNotTrusted,
            _ => TlsResultType::ValidationFailure,
        }
    }

    pub(super) fn of_handshake(error: &io::Error) -> TlsError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(error) => TlsError::of_rustls(error),
            None if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                TlsError::new(TlsErrorKind::Timeout, "TLS handshake timed out")
            }
            None => TlsError::new(TlsErrorKind::Io, format!("lost in the TLS handshake: {error}")),
        }
    }

    pub(super) fn of_rustls(error: &rustls::Error) -> TlsError {
        use CertificateError as Wrong;
        let rustls::Error::InvalidCertificate(wrong) = error else {
            return TlsError::new(TlsErrorKind::Handshake, format!("TLS handshake: {error}"));
        };
        let kind = match wrong {
            Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
                TlsErrorKind::NameMismatch
            }
            Wrong::Expired
            | Wrong::ExpiredContext { .. }
            | Wrong::NotValidYet
            | Wrong::NotValidYetContext { .. } => TlsErrorKind::Expired,
            // An authority of the same name has not signed it.
            Wrong::UnknownIssuer | Wrong::BadSignature => TlsErrorKind::NotTrusted,
            _ => TlsErrorKind::Certificate,
        };
        TlsError::new(kind, format!("the certificate of the host is not accepted: {wrong}"))
    }
}
