//! Decides how a message with REQUIRETLS must be protected (RFC 8689, 4.2.1).
//!
//! The level of the destination does not matter: TLS is required, and so is a certificate for a
//! name that is known by more than an unsigned MX record.

use super::policy::{
    Dane, PolicyError, PolicyFinder, TlsPolicy, Verification, dane, dane_required, of_mta_sts,
    plain, server_name, verified,
};
use super::record::{TlsPolicyType, TlsRecord, TlsResultType};
use crate::dns::{LookupFailure, Lookups, Question, RecordKind};
use crate::mta_sts::StsMode;
use crate::next_hop::NextHopKind;
use crate::route::{Exchanger, Route};
use crate::settings::TlsLevel;
use std::time::Instant;

impl PolicyFinder {
    /// The policy that a message with REQUIRETLS asks for.
    ///
    /// # Errors
    ///
    /// The name of the exchanger is not authenticated, or a lookup has failed.
    pub(super) fn of_message(
        &mut self,
        host: &str,
        route: &Route,
        exchanger: &Exchanger,
        validates: bool,
        lookups: &mut impl Lookups,
        deadline: Instant,
    ) -> Result<TlsPolicy, PolicyError> {
        let setting = self.setting(host);
        let has_names = setting.rule.is_some_and(|rule| !rule.names.is_empty());
        if setting.level == TlsLevel::Secure || (setting.level == TlsLevel::Verify && has_names) {
            // The operator has said which names count.
            return Ok(verified(route, exchanger, setting.level, setting.rule));
        }
        let (level, uses_mta_sts) = (setting.level, setting.rule.and_then(|rule| rule.mta_sts));
        match dane(route, exchanger, validates, lookups, deadline)? {
            Dane::Policy(policy) if policy.verification != Verification::None => {
                return Ok(*policy);
            }
            Dane::Absent(reason) if level == TlsLevel::DaneOnly => {
                return Err(dane_required(host, exchanger, &reason));
            }
            Dane::Policy(_) | Dane::Absent(_) => {}
        }
        let by_name = TlsPolicy {
            is_required: true,
            verification: Verification::Names(vec![server_name(exchanger)]),
            ..plain(host, exchanger, TlsLevel::Verify, "REQUIRETLS")
        };
        if route.is_mx_validated {
            return Ok(by_name);
        }
        let (NextHopKind::Domain(domain), false) = (&route.next_hop.kind, route.is_smarthost)
        else {
            return Err(not_authenticated(by_name, "the MX records are not signed"));
        };
        if uses_mta_sts == Some(false) {
            return Err(not_authenticated(by_name, "the MX records are not signed"));
        }
        match self.mta_sts.policy(domain, lookups, deadline) {
            Ok(Some(kept)) if kept.policy.mode != StsMode::None => {
                if !kept.policy.lists(&exchanger.name) {
                    return Err(not_authenticated(by_name, "its MTA-STS policy does not list it"));
                }
                let policy = of_mta_sts(domain, &kept, exchanger, by_name)?;
                Ok(TlsPolicy { is_required: true, only_tests: false, ..policy })
            }
            Ok(_) => {
                let question = Question::new(RecordKind::Txt, &format!("_mta-sts.{domain}"));
                match lookups.look_up(question, deadline) {
                    Err(failure) if failure.is_temporary() => {
                        Err(unknown(by_name, domain, &failure))
                    }
                    _ => {
                        let why =
                            "neither are the MX records signed, nor is there an MTA-STS policy";
                        Err(not_authenticated(by_name, why))
                    }
                }
            }
            Err(failure) => {
                let mut record = by_name.record;
                record.policy_type = TlsPolicyType::Sts;
                let text = format!("REQUIRETLS: {failure}");
                Err(PolicyError { text, result_type: failure.result_type, record })
            }
        }
    }
}

fn not_authenticated(policy: TlsPolicy, why: &str) -> PolicyError {
    let exchanger = &policy.record.receiving_mx_hostname;
    PolicyError {
        text: format!("REQUIRETLS: the name {exchanger} is not authenticated: {why}"),
        result_type: TlsResultType::ValidationFailure,
        record: policy.record,
    }
}

fn unknown(policy: TlsPolicy, domain: &str, failure: &LookupFailure) -> PolicyError {
    let exchanger = policy.record.receiving_mx_hostname;
    PolicyError {
        text: format!("REQUIRETLS: MTA-STS policy of {domain}: {failure}"),
        result_type: TlsResultType::StsPolicyFetchError,
        record: TlsRecord::new(TlsPolicyType::Sts, domain, &exchanger).into(),
    }
}
