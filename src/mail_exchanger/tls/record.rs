//! What becomes of TLS on a connection, for reports of TLS-RPT (RFC 8460).

use super::error::TlsError;
use super::policy::{PolicyError, TlsPolicy};
use serde::Serialize;
use std::net::IpAddr;

/// The result of one connection, with the names of RFC 8460 4.4.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TlsRecord {
    /// Kind of policy that applied.
    pub policy_type: TlsPolicyType,
    /// The domain whose policy applied.
    pub policy_domain: String,
    /// The policy as published: its lines, or TLSA records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_string: Vec<String>,
    /// The patterns of exchangers of an MTA-STS policy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mx_host: Vec<String>,
    /// Name of the exchanger.
    pub receiving_mx_hostname: String,
    /// Address of the exchanger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiving_ip: Option<IpAddr>,
    /// Address of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sending_mta_ip: Option<IpAddr>,
    /// What failed; `None` for a session that the policy allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_type: Option<TlsResultType>,
    /// The reason of a failure, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason_code: Option<String>,
}

/// Kind of policy (RFC 8460 4.4, `policy-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsPolicyType {
    /// DANE.
    Tlsa,
    /// MTA-STS.
    Sts,
    /// Neither.
    #[default]
    NoPolicyFound,
}

/// Type of failure (RFC 8460 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsResultType {
    /// The host does not offer STARTTLS.
    StarttlsNotSupported,
    /// The certificate lacks the name.
    CertificateHostMismatch,
    /// The certificate has expired.
    CertificateExpired,
    /// The certificate is from an unknown authority.
    CertificateNotTrusted,
    /// Another failure of the handshake or the certificate.
    ValidationFailure,
    /// No TLSA record is valid.
    TlsaInvalid,
    /// DNSSEC validation failed.
    DnssecInvalid,
    /// DANE is required here, but the host has no TLSA records.
    DaneRequired,
    /// The policy cannot be fetched.
    StsPolicyFetchError,
    /// The policy cannot be used.
    StsPolicyInvalid,
    /// The certificate of the policy's web server is not valid.
    StsWebpkiInvalid,
}

impl TlsRecord {
    /// The record of a session: `error` is what failed, also where the policy only tests.
    ///
    /// Without an error, a policy that could not be fetched is the failure, if there is one.
    pub fn of_session(
        policy: &TlsPolicy,
        receiving_ip: Option<IpAddr>,
        sending_mta_ip: Option<IpAddr>,
        error: Option<&TlsError>,
    ) -> TlsRecord {
        TlsRecord {
            receiving_ip,
            sending_mta_ip,
            result_type: error.map(TlsError::result_type).or(policy.record.result_type),
            failure_reason_code: error
                .map(TlsError::to_string)
                .or_else(|| policy.record.failure_reason_code.clone()),
            ..(*policy.record).clone()
        }
    }

    /// The record of an exchanger to which no policy allows a session.
    pub fn of_policy_error(error: &PolicyError) -> TlsRecord {
        TlsRecord {
            result_type: Some(error.result_type),
            failure_reason_code: Some(error.to_string()),
            ..(*error.record).clone()
        }
    }

    /// The record of a policy before any session.
    pub(super) fn new(
        policy_type: TlsPolicyType,
        policy_domain: &str,
        exchanger: &str,
    ) -> TlsRecord {
        TlsRecord {
            policy_type,
            policy_domain: policy_domain.to_string(),
            policy_string: Vec::new(),
            mx_host: Vec::new(),
            receiving_mx_hostname: exchanger.to_string(),
            receiving_ip: None,
            sending_mta_ip: None,
            result_type: None,
            failure_reason_code: None,
        }
    }
}
