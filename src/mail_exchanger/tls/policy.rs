//! Decides how a connection to an exchanger must be protected.
//!
//! ```text
//! level of the destination ──dane: TLSA records──► else MTA-STS policy ──► else the level alone
//! ```

use super::dane::TlsaRecord;
use super::error::{TlsError, TlsErrorKind};
use super::record::{TlsPolicyType, TlsRecord, TlsResultType};
use crate::dns::{LookupFailure, Lookups, Question, Record, RecordKind};
use crate::mta_sts::{KeptPolicy, MtaSts, StsFailure, StsMode};
use crate::next_hop::NextHopKind;
use crate::route::{Endpoint, Exchanger, Route};
use crate::settings::{TlsLevel, TlsRule, TlsSettings};
use std::time::Instant;

/// How a connection must be protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPolicy {
    /// True if TLS is tried when the host offers it.
    pub uses_tls: bool,
    /// True if no mail may be sent without TLS.
    pub is_required: bool,
    /// What the certificate is checked against.
    pub verification: Verification,
    /// True if a certificate that is not accepted is only reported: a policy of MTA-STS in testing.
    pub only_tests: bool,
    /// Name that is sent to the host for its choice of a certificate (SNI).
    pub server_name: String,
    /// Where the policy is from, for diagnostics: `level may`, `DANE, 2 TLSA records`.
    pub reason: String,
    /// The policy in reports of TLS-RPT; see [`TlsRecord::of_session`].
    pub record: Box<TlsRecord>,
}

impl TlsPolicy {
    /// Returns true if another try, in plain text, may follow a failed handshake.
    pub fn allows_retry_without_tls(&self, error: &TlsError) -> bool {
        !self.is_required && error.kind != TlsErrorKind::Timeout
    }

    /// The error of a host without STARTTLS where TLS is required.
    ///
    /// It does not offer it, or refuses it.
    ///
    /// `reply` is what the host has said, if it has refused.
    pub fn not_offered(&self, reply: Option<&str>) -> TlsError {
        let what = match reply {
            Some(reply) => format!("the host refused STARTTLS ({})", reply.escape_debug()),
            None => "the host does not offer STARTTLS".to_string(),
        };
        let text = format!("TLS is required ({}), but {what}", self.reason);
        TlsError::new(TlsErrorKind::NotOffered, text)
    }
}

/// What a certificate is checked against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verification {
    /// Nothing.
    None,
    /// It must be from a known authority, and for one of these names.
    Names(Vec<String>),
    /// It must match one of these records; an issuer's is for these names.
    Dane {
        /// TLSA records.
        records: Vec<TlsaRecord>,
        /// Names, for records of usage 2.
        names: Vec<String>,
    },
}

/// No connection to an exchanger is allowed now, or none can be decided on.
///
/// The next exchanger may be tried; without one, the mail is deferred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PolicyError {
    /// The text for people.
    pub text: String,
    /// The type in reports of TLS-RPT.
    pub result_type: TlsResultType,
    /// The policy in reports; see [`TlsRecord::of_policy_error`].
    pub record: Box<TlsRecord>,
}

impl PolicyError {
    /// Returns true if a later try may find another policy without a change of the destination's.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self.result_type,
            TlsResultType::DnssecInvalid
                | TlsResultType::StsPolicyFetchError
                | TlsResultType::StsPolicyInvalid
                | TlsResultType::StsWebpkiInvalid
        )
    }

    /// The enhanced status code (RFC 3463).
    pub fn enhanced_code(&self) -> &'static str {
        match self.result_type {
            TlsResultType::DnssecInvalid => "4.4.3",
            _ => "4.7.5",
        }
    }
}

/// Finds policies, and keeps those of MTA-STS.
pub(crate) struct PolicyFinder {
    settings: TlsSettings,
    pub(super) mta_sts: MtaSts,
}

/// What the settings say about a destination.
pub(super) struct Setting<'a> {
    pub(super) level: TlsLevel,
    uses_mta_sts: bool,
    pub(super) rule: Option<&'a TlsRule>,
}

impl PolicyFinder {
    pub(crate) fn new(settings: TlsSettings) -> PolicyFinder {
        PolicyFinder { mta_sts: MtaSts::new(settings.clone()), settings }
    }

    pub(super) fn setting(&self, host: &str) -> Setting<'_> {
        let rule = self.settings.policy.iter().find(|rule| rule.destination.matches(host));
        let uses_mta_sts = rule.and_then(|rule| rule.mta_sts).unwrap_or(self.settings.mta_sts);
        Setting { level: rule.map_or(self.settings.level, |rule| rule.level), uses_mta_sts, rule }
    }

    /// Decides on one exchanger of a route.
    ///
    /// `requires_tls` is true for a message with REQUIRETLS, `validates` if DNS answers can be
    /// validated. A UNIX socket does not leave the host, and needs no protection.
    pub(crate) fn find(
        &mut self,
        route: &Route,
        exchanger: &Exchanger,
        requires_tls: bool,
        validates: bool,
        lookups: &mut impl Lookups,
        deadline: Instant,
    ) -> Result<TlsPolicy, PolicyError> {
        let host = route.next_hop.host();
        if matches!(route.next_hop.kind, NextHopKind::Socket(_)) {
            return Ok(plain(&host, exchanger, TlsLevel::None, "UNIX socket"));
        }
        match requires_tls {
            true => self.of_message(&host, route, exchanger, validates, lookups, deadline),
            false => self.of_settings(&host, route, exchanger, validates, lookups, deadline),
        }
    }

    /// The policy that the settings of the destination ask for.
    fn of_settings(
        &mut self,
        host: &str,
        route: &Route,
        exchanger: &Exchanger,
        validates: bool,
        lookups: &mut impl Lookups,
        deadline: Instant,
    ) -> Result<TlsPolicy, PolicyError> {
        let setting = self.setting(host);
        let uses_mta_sts = setting.uses_mta_sts;
        let level = setting.level;
        let (level, reason) = match level {
            TlsLevel::None => return Ok(plain(host, exchanger, level, level_name(level))),
            TlsLevel::May | TlsLevel::Encrypt => (level, level_name(level).to_string()),
            TlsLevel::Verify | TlsLevel::Secure => {
                return Ok(verified(route, exchanger, level, setting.rule));
            }
            TlsLevel::Dane | TlsLevel::DaneOnly => {
                match dane(route, exchanger, validates, lookups, deadline)? {
                    Dane::Policy(policy) => {
                        return dane_only_if_usable(level, *policy, exchanger);
                    }
                    Dane::Absent(reason) if level == TlsLevel::DaneOnly => {
                        return Err(dane_required(host, exchanger, &reason));
                    }
                    Dane::Absent(reason) => (TlsLevel::May, format!("level dane, {reason}")),
                }
            }
        };
        let fallback = plain(host, exchanger, level, &reason);
        // A policy is for the domain of recipients, whose MX records are followed.
        match &route.next_hop.kind {
            NextHopKind::Domain(domain) if uses_mta_sts && !route.is_smarthost => {
                match self.mta_sts.policy(domain, lookups, deadline) {
                    Ok(None) => Ok(fallback),
                    Ok(Some(kept)) => of_mta_sts(domain, &kept, exchanger, fallback),
                    Err(failure) => Ok(without_mta_sts(&failure, fallback)),
                }
            }
            _ => Ok(fallback),
        }
    }
}

/// The policy that a domain has published with MTA-STS (RFC 8461 5).
pub(super) fn of_mta_sts(
    domain: &str,
    kept: &KeptPolicy,
    exchanger: &Exchanger,
    fallback: TlsPolicy,
) -> Result<TlsPolicy, PolicyError> {
    let policy = &kept.policy;
    let mut record = TlsRecord::new(TlsPolicyType::Sts, domain, &exchanger.name);
    record.policy_string.clone_from(&policy.lines);
    record.mx_host.clone_from(&policy.mx);
    let is_listed = policy.lists(&exchanger.name);
    let not_listed = || format!("the MTA-STS policy of {domain} does not list {}", exchanger.name);
    let only_tests = match policy.mode {
        StsMode::None => return Ok(fallback),
        StsMode::Testing if !is_listed => {
            record.result_type = Some(TlsResultType::ValidationFailure);
            record.failure_reason_code = Some(not_listed());
            return Ok(TlsPolicy { record: record.into(), ..fallback });
        }
        StsMode::Testing => true,
        StsMode::Enforce if !is_listed => {
            return Err(PolicyError {
                text: not_listed(),
                result_type: TlsResultType::ValidationFailure,
                record: record.into(),
            });
        }
        StsMode::Enforce => false,
    };
    let mode = if only_tests { "testing" } else { "enforce" };
    Ok(TlsPolicy {
        is_required: fallback.is_required || !only_tests,
        verification: Verification::Names(vec![exchanger.name.clone()]),
        only_tests,
        reason: format!("MTA-STS policy of {domain}, mode {mode}"),
        record: record.into(),
        ..fallback
    })
}

/// The policy of the level, where one of MTA-STS cannot be had (RFC 8461 3.3).
fn without_mta_sts(failure: &StsFailure, fallback: TlsPolicy) -> TlsPolicy {
    let exchanger = &fallback.record.receiving_mx_hostname;
    let mut record = TlsRecord::new(TlsPolicyType::Sts, &failure.domain, exchanger);
    record.result_type = Some(failure.result_type);
    record.failure_reason_code = Some(failure.reason.clone());
    let reason = format!("{}, {failure}", fallback.reason);
    TlsPolicy { reason, record: record.into(), ..fallback }
}

/// Records that no program can use are not enough for the level `dane-only`.
fn dane_only_if_usable(
    level: TlsLevel,
    policy: TlsPolicy,
    exchanger: &Exchanger,
) -> Result<TlsPolicy, PolicyError> {
    if level == TlsLevel::Dane || policy.verification != Verification::None {
        return Ok(policy);
    }
    Err(PolicyError {
        text: format!("DANE is required for {}, but no TLSA record is usable", exchanger.name),
        result_type: TlsResultType::TlsaInvalid,
        record: policy.record,
    })
}

pub(super) fn dane_required(host: &str, exchanger: &Exchanger, reason: &str) -> PolicyError {
    PolicyError {
        text: format!("DANE is required for {}, but {reason}", exchanger.name),
        result_type: TlsResultType::DaneRequired,
        record: TlsRecord::new(TlsPolicyType::Tlsa, host, &exchanger.name).into(),
    }
}

/// The policy of a level that checks no certificate.
pub(super) fn plain(host: &str, exchanger: &Exchanger, level: TlsLevel, reason: &str) -> TlsPolicy {
    TlsPolicy {
        uses_tls: level != TlsLevel::None,
        is_required: level == TlsLevel::Encrypt,
        verification: Verification::None,
        only_tests: false,
        server_name: server_name(exchanger),
        reason: reason.to_string(),
        record: TlsRecord::new(TlsPolicyType::NoPolicyFound, host, &exchanger.name).into(),
    }
}

/// The policy of the levels `verify` and `secure`.
pub(super) fn verified(
    route: &Route,
    exchanger: &Exchanger,
    level: TlsLevel,
    rule: Option<&TlsRule>,
) -> TlsPolicy {
    let host = route.next_hop.host();
    let exchanger_name = server_name(exchanger);
    let names = match rule {
        Some(rule) if !rule.names.is_empty() => {
            rule.names.iter().map(|name| name.as_str().to_string()).collect()
        }
        _ if level == TlsLevel::Verify => vec![exchanger_name],
        // MX records are no proof: the exchanger's name counts if it is below the destination.
        _ => {
            let is_below = exchanger_name.strip_suffix(&host).is_some_and(|at| at.ends_with('.'));
            [host.clone()].into_iter().chain(is_below.then_some(exchanger_name)).collect()
        }
    };
    TlsPolicy {
        is_required: true,
        verification: Verification::Names(names),
        ..plain(&host, exchanger, level, level_name(level))
    }
}

/// What DNS says about DANE of an exchanger.
pub(super) enum Dane {
    Policy(Box<TlsPolicy>),
    /// There is no DANE, with the reason.
    Absent(String),
}

/// Looks up TLSA records (RFC 7672 2.2).
pub(super) fn dane(
    route: &Route,
    exchanger: &Exchanger,
    validates: bool,
    lookups: &mut impl Lookups,
    deadline: Instant,
) -> Result<Dane, PolicyError> {
    let absent = |reason: &str| Ok(Dane::Absent(reason.to_string()));
    let Some(Endpoint::Tcp(address)) = exchanger.endpoints.first() else {
        return absent("it has no address");
    };
    if matches!(route.next_hop.kind, NextHopKind::Address(_)) {
        return absent("an address has no TLSA records");
    }
    if !validates {
        return absent("`dnssec` is off");
    }
    if !route.is_mx_validated {
        return absent("the MX records are not signed");
    }
    if !exchanger.is_validated {
        return absent("the addresses are not signed");
    }
    // The end of a chain of CNAMEs is asked first (RFC 7672 2.2.2).
    let mut bases = vec![exchanger.canonical.as_str(), exchanger.name.as_str()];
    bases.dedup();
    for base in bases {
        let name = format!("_{}._tcp.{base}", address.port());
        match lookups.look_up(Question::new(RecordKind::Tlsa, &name), deadline) {
            Ok(answer) if answer.is_validated => {
                let records = answer.records.into_iter().filter_map(tlsa).collect();
                let policy = dane_policy(route, exchanger, base, records);
                return Ok(Dane::Policy(policy.into()));
            }
            Ok(_) | Err(LookupFailure::NoDomain | LookupFailure::NoRecords) => {}
            Err(failure) => {
                let host = route.next_hop.host();
                return Err(PolicyError {
                    text: format!("TLSA records of {name}: {failure}"),
                    result_type: TlsResultType::DnssecInvalid,
                    record: TlsRecord::new(TlsPolicyType::Tlsa, &host, &exchanger.name).into(),
                });
            }
        }
    }
    absent("no signed TLSA records")
}

fn dane_policy(
    route: &Route,
    exchanger: &Exchanger,
    base: &str,
    records: Vec<TlsaRecord>,
) -> TlsPolicy {
    let host = route.next_hop.host();
    let mut record = TlsRecord::new(TlsPolicyType::Tlsa, base, &exchanger.name);
    record.policy_string = records.iter().map(TlsaRecord::to_string).collect();
    let usable: Vec<_> = records.into_iter().filter(TlsaRecord::is_usable).collect();
    let count = usable.len();
    // Records that no program can use still ask for TLS (RFC 7672 2.2).
    let verification = if usable.is_empty() {
        Verification::None
    } else {
        let mut names = vec![base.to_string(), exchanger.name.clone(), host.clone()];
        names.dedup();
        Verification::Dane { records: usable, names }
    };
    TlsPolicy {
        is_required: true,
        verification,
        server_name: base.to_string(),
        reason: match count {
            0 => "DANE, no usable TLSA records".to_string(),
            1 => "DANE, 1 TLSA record".to_string(),
            _ => format!("DANE, {count} TLSA records"),
        },
        record: record.into(),
        ..plain(&host, exchanger, TlsLevel::Dane, "")
    }
}

fn tlsa(record: Record) -> Option<TlsaRecord> {
    match record {
        Record::Tlsa(tlsa) => Some(tlsa),
        _ => None,
    }
}

/// The name of an exchanger as TLS takes it: addresses without brackets.
pub(super) fn server_name(exchanger: &Exchanger) -> String {
    let name = exchanger.name.trim_start_matches('[').trim_end_matches(']');
    name.trim_start_matches("IPv6:").to_string()
}

fn level_name(level: TlsLevel) -> &'static str {
    match level {
        TlsLevel::None => "level none",
        TlsLevel::May => "level may",
        TlsLevel::Encrypt => "level encrypt",
        TlsLevel::Verify => "level verify",
        TlsLevel::Secure => "level secure",
        TlsLevel::Dane => "level dane",
        TlsLevel::DaneOnly => "level dane-only",
    }
}
