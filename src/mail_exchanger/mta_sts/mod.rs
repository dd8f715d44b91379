//! Policies that domains publish with MTA-STS (RFC 8461).
//!
//! ```text
//! TXT _mta-sts.DOMAIN: v=STSv1; id=1 ──new id──► https://mta-sts.DOMAIN/.well-known/mta-sts.txt
//!                          └──known id──► the policy that is kept, in memory and on disk
//! ```

mod fetch;
mod policy;
mod store;

pub(crate) use policy::StsMode;

use crate::dns::{LookupFailure, Lookups, Question, Record, RecordKind};
use crate::settings::TlsSettings;
use crate::tls::TlsResultType;
use policy::StsPolicy;
use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};
use store::Store;

/// Time before an id that failed is fetched again (RFC 8461 3.3).
const FETCH_PAUSE: Duration = Duration::from_secs(300);
/// Maximum time for a fetch (RFC 8461 3.3).
const MAX_FETCH_TIME: Duration = Duration::from_secs(60);
/// Maximum number of failed fetches that are remembered.
const MAX_FAILURES: usize = 256;

/// A policy, and until when it is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptPolicy {
    /// The id of the TXT record with which it was fetched.
    pub(crate) id: String,
    /// When it was fetched, plus `max_age`.
    pub(crate) expires: SystemTime,
    pub(crate) policy: StsPolicy,
}

/// Why a domain that announces a policy has none that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MTA-STS policy of {domain}: {reason}")]
pub(crate) struct StsFailure {
    pub(crate) domain: String,
    pub(crate) reason: String,
    pub(crate) result_type: TlsResultType,
}

/// Finds policies of MTA-STS.
pub(crate) struct MtaSts {
    settings: TlsSettings,
    store: Store,
    /// The ids that could not be fetched, by domain.
    ///
    /// Each has the time of its next try.
    failures: HashMap<String, (String, Instant, StsFailure)>,
}

impl MtaSts {
    pub(crate) fn new(settings: TlsSettings) -> MtaSts {
        let store = Store::new(settings.mta_sts_cache.clone());
        MtaSts { settings, store, failures: HashMap::new() }
    }

    /// Returns the policy of a domain, if it has one.
    ///
    /// A policy that is kept stays in force while the domain's DNS or web server fails.
    pub(crate) fn policy(
        &mut self,
        domain: &str,
        lookups: &mut impl Lookups,
        deadline: Instant,
    ) -> Result<Option<KeptPolicy>, StsFailure> {
        let kept = self.store.get(domain, SystemTime::now());
        let question = Question::new(RecordKind::Txt, &format!("_mta-sts.{domain}"));
        let answer = lookups.look_up(question, deadline);
        let Some(id) = answer.ok().and_then(|answer| policy_id(&answer.records)) else {
            return Ok(kept);
        };
        if kept.as_ref().is_some_and(|kept| kept.id == id) {
            return Ok(kept);
        }
        match self.fetch(domain, &id, lookups, deadline) {
            Ok(policy) => {
                let expires = SystemTime::now() + policy.max_age;
                let fetched = KeptPolicy { id, expires, policy };
                self.store.insert(domain, fetched.clone());
                Ok(Some(fetched))
            }
            Err(failure) if kept.is_none() => Err(failure),
            Err(_) => Ok(kept),
        }
    }

    /// Fetches a policy, unless that has just failed.
    fn fetch(
        &mut self,
        domain: &str,
        id: &str,
        lookups: &mut impl Lookups,
        deadline: Instant,
    ) -> Result<StsPolicy, StsFailure> {
        let now = Instant::now();
        if let Some((failed_id, until, failure)) = self.failures.get(domain)
            && failed_id == id
            && now < *until
        {
            return Err(failure.clone());
        }
        let found = self.fetch_now(domain, lookups, deadline.min(now + MAX_FETCH_TIME));
        match &found {
            Ok(_) => {
                self.failures.remove(domain);
            }
            Err(failure) => {
                self.failures.retain(|_, (_, until, _)| now < *until);
                if self.failures.len() < MAX_FAILURES {
                    let kept = (id.to_string(), now + FETCH_PAUSE, failure.clone());
                    self.failures.insert(domain.to_string(), kept);
                }
            }
        }
        found
    }

    fn fetch_now(
        &self,
        domain: &str,
        lookups: &mut impl Lookups,
        deadline: Instant,
    ) -> Result<StsPolicy, StsFailure> {
        let failed = |result_type, reason: String| StsFailure {
            domain: domain.to_string(),
            reason,
            result_type,
        };
        let host = format!("mta-sts.{domain}");
        let questions = [RecordKind::Aaaa, RecordKind::A].map(|kind| Question::new(kind, &host));
        let mut addresses = Vec::new();
        let mut failure = LookupFailure::NoRecords;
        for answer in lookups.look_up_all(&questions, deadline) {
            match answer {
                Ok(answer) => addresses.extend(answer.records.iter().filter_map(Record::address)),
                Err(other) => failure = other,
            }
        }
        if addresses.is_empty() {
            let reason = format!("addresses of {host}: {failure}");
            return Err(failed(TlsResultType::StsPolicyFetchError, reason));
        }
        let text = fetch::fetch(&host, addresses, &self.settings, deadline)
            .map_err(|(result_type, reason)| failed(result_type, reason))?;
        StsPolicy::parse(&text)
            .map_err(|reason| failed(TlsResultType::StsPolicyInvalid, reason.to_string()))
    }
}

/// The id of the TXT record; `None` if there is no valid one, or several (RFC 8461 3.1).
fn policy_id(records: &[Record]) -> Option<String> {
    let mut found = records.iter().filter_map(|record| match record {
        Record::Text(text) => std::str::from_utf8(text).ok()?.strip_prefix("v=STSv1"),
        _ => None,
    });
    let fields = found.next().filter(|_| found.next().is_none())?.trim_start();
    let mut fields = fields.strip_prefix(';')?.split(';');
    let id = fields.find_map(|field| field.trim().strip_prefix("id="))?.trim();
    let is_id = (1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
    is_id.then(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_id_is_read_from_the_only_record() {
        let check = |texts: &[&str], expected: Option<&str>| {
            let records: Vec<_> = texts.iter().map(|text| Record::Text((*text).into())).collect();
            assert_eq!(policy_id(&records).as_deref(), expected, "{texts:?}");
        };
        check(&["v=STSv1; id=20260101T000000;"], Some("20260101T000000"));
        check(&["v=spf1 -all", "v=STSv1;id=1"], Some("1"));
        check(&["v=STSv1 ; x=y; id=a1 "], Some("a1"));
        check(&["v=STSv1; id=1", "v=STSv1; id=2"], None);
        check(&["v=STSv2; id=1"], None);
        check(&["v=STSv1; id=../x"], None);
        check(&["v=STSv1; id="], None);
        check(&["v=STSv1"], None);
        check(&[], None);
    }
}
