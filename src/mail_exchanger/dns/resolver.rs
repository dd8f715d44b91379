//! Asks DNS servers, with the parts of hickory-resolver.
//!
//! Servers are tried, retried and asked again over TCP by its pool. The chain of CNAMEs is
//! followed here, since DANE must know if all of it is validated; so is the cache, since answers
//! of each kind are kept: also that a name does not exist, and for a short time that no server
//! answers.

use super::answer_cache::AnswerCache;
use super::{Answer, LookupFailure, Lookups, Question, Record, RecordKind};
use crate::settings::{DnsSettings, Dnssec};
use crate::tls::TlsaRecord;
use futures_util::future::join_all;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverOpts};
use hickory_resolver::net::dnssec::DnssecDnsHandle;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::xfer::{DnsHandle, FirstAnswer, RetryDnsHandle};
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::dnssec::TrustAnchors;
use hickory_resolver::proto::op::{DnsRequestOptions, Message, Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{NameServerPool, PoolContext, TlsConfig, system_conf};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Maximum number of CNAMEs that are followed.
const MAX_CNAMES: usize = 8;
/// Time for which it is remembered that the servers fail.
const FAILURE_TTL: Duration = Duration::from_secs(5);
/// Time for which a negative answer without an SOA record is remembered.
const NEGATIVE_TTL: Duration = Duration::from_secs(60);

type Pool = RetryDnsHandle<NameServerPool<TokioRuntimeProvider>>;

/// DNS servers, and what they have answered.
pub(crate) struct Dns {
    settings: DnsSettings,
    cache: AnswerCache,
    /// The servers, from the first question on.
    servers: Option<Servers>,
}

/// How servers are asked.
#[derive(Clone)]
enum Servers {
    Plain(Pool),
    /// What they have validated counts.
    Trusted(Pool),
    Validating(DnssecDnsHandle<Pool>),
}

impl Dns {
    pub(crate) fn new(settings: DnsSettings) -> Dns {
        Dns { cache: AnswerCache::new(settings.cache_size), settings, servers: None }
    }

    /// Returns true if answers can be validated at all.
    pub(crate) fn validates(&self) -> bool {
        self.settings.dnssec != Dnssec::Off
    }

    /// Borrows it together with the runtime that its sockets use.
    pub(crate) fn on<'a>(&'a mut self, runtime: &'a Runtime) -> DnsOnRuntime<'a> {
        DnsOnRuntime { dns: self, runtime }
    }

    fn servers(&mut self) -> Result<Servers, LookupFailure> {
        if self.servers.is_none() {
            let found = find_servers(&self.settings).map_err(LookupFailure::Server)?;
            self.servers = Some(found);
        }
        self.servers.clone().ok_or(LookupFailure::Timeout)
    }
}

/// DNS servers, and the runtime that waits for them.
pub(crate) struct DnsOnRuntime<'a> {
    dns: &'a mut Dns,
    runtime: &'a Runtime,
}

impl Lookups for DnsOnRuntime<'_> {
    fn look_up_all(
        &mut self,
        questions: &[Question],
        deadline: Instant,
    ) -> Vec<Result<Answer, LookupFailure>> {
        let now = Instant::now();
        let mut answers: Vec<_> =
            questions.iter().map(|question| self.dns.cache.get(question, now)).collect();
        let open: Vec<usize> = (0..questions.len()).filter(|at| answers[*at].is_none()).collect();
        if !open.is_empty() {
            let servers = match self.dns.servers() {
                Ok(servers) => servers,
                Err(failure) => return vec![Err(failure); questions.len()],
            };
            let asked = open.iter().map(|at| servers.ask_until(&questions[*at], deadline));
            let found = self.runtime.block_on(async { join_all(asked).await });
            let now = Instant::now();
            for (at, (answer, ttl)) in open.into_iter().zip(found) {
                let ttl = ttl.min(self.dns.settings.max_ttl);
                self.dns.cache.insert(questions[at].clone(), answer.clone(), ttl, now);
                answers[at] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Err(LookupFailure::Timeout))).collect()
    }
}

/// An answer, and how long it is valid.
type Timed = (Result<Answer, LookupFailure>, Duration);

impl Servers {
    async fn ask_until(&self, question: &Question, deadline: Instant) -> Timed {
        let answer = tokio::time::timeout_at(deadline.into(), self.ask(question)).await;
        // The deadline is that of one job: the next one asks again.
        answer.unwrap_or((Err(LookupFailure::Timeout), Duration::ZERO))
    }

    /// Asks, and follows CNAMEs.
    async fn ask(&self, question: &Question) -> Timed {
        let mut answer =
            Answer { records: Vec::new(), canonical: question.name.clone(), is_validated: true };
        let mut ttl = Duration::MAX;
        // A server returns the whole chain, if it can.
        for _ in 0..=MAX_CNAMES {
            let message = match self.send(question.kind, &answer.canonical).await {
                Ok(message) => message,
                Err((failure, failure_ttl)) => return (Err(failure), ttl.min(failure_ttl)),
            };
            let is_complete = read_message(&message, question.kind, &mut answer, &mut ttl);
            answer.is_validated &= self.is_validated(&message, &answer, question.kind);
            if is_complete {
                return (Ok(answer), ttl);
            }
        }
        let text = format!("more than {MAX_CNAMES} CNAME records in a chain, or a loop of them");
        (Err(LookupFailure::Server(text)), ttl.min(NEGATIVE_TTL))
    }

    async fn send(
        &self,
        kind: RecordKind,
        name: &str,
    ) -> Result<Message, (LookupFailure, Duration)> {
        let mut name = Name::from_ascii(name)
            .map_err(|error| (LookupFailure::Server(error.to_string()), FAILURE_TTL))?;
        name.set_fqdn(true);
        let query = Query::query(name, record_type(kind));
        let mut options = DnsRequestOptions::default();
        options.use_edns = true;
        // Servers mark what they have validated only for a client that asks for DNSSEC.
        options.edns_set_dnssec_ok = !matches!(self, Servers::Plain(_));
        let response = match self {
            Servers::Plain(pool) | Servers::Trusted(pool) => {
                pool.lookup(query, options).first_answer().await
            }
            Servers::Validating(handle) => handle.lookup(query, options).first_answer().await,
        };
        let response = response.and_then(|found| Ok(DnsError::from_response(found)?));
        response.map(|found| found.into_message()).map_err(|error| failure(&error))
    }

    /// Returns true if the server, or the validation, vouches for what was read of a message.
    fn is_validated(&self, message: &Message, answer: &Answer, kind: RecordKind) -> bool {
        match self {
            Servers::Plain(_) => false,
            Servers::Trusted(_) => message.metadata.authentic_data,
            Servers::Validating(_) => {
                let is_used = |record: &&hickory_resolver::proto::rr::Record| {
                    record.record_type() == RecordType::CNAME
                        || record.record_type() == record_type(kind)
                            && plain_name(&record.name) == answer.canonical
                };
                message.answers.iter().filter(is_used).all(|record| record.proof.is_secure())
            }
        }
    }
}

/// Reads the records that follow from `answer.canonical`. Returns true if the wanted ones are
/// there; else the chain of CNAMEs goes on at the new `answer.canonical`.
fn read_message(
    message: &Message,
    kind: RecordKind,
    answer: &mut Answer,
    ttl: &mut Duration,
) -> bool {
    for _ in 0..=MAX_CNAMES {
        for record in &message.answers {
            if record.record_type() == record_type(kind)
                && plain_name(&record.name) == answer.canonical
                && let Some(found) = read_record(&record.data)
            {
                *ttl = (*ttl).min(Duration::from_secs(record.ttl.into()));
                answer.records.push(found);
            }
        }
        if !answer.records.is_empty() {
            return true;
        }
        let next = message.answers.iter().find_map(|record| match &record.data {
            RData::CNAME(target) if plain_name(&record.name) == answer.canonical => {
                Some((plain_name(target), record.ttl))
            }
            _ => None,
        });
        let Some((target, target_ttl)) = next else { return false };
        *ttl = (*ttl).min(Duration::from_secs(target_ttl.into()));
        answer.canonical = target;
    }
    false
}

fn read_record(data: &RData) -> Option<Record> {
    Some(match data {
        RData::MX(mx) => {
            Record::Mx { preference: mx.preference, exchanger: plain_name(&mx.exchange) }
        }
        RData::A(address) => Record::Address(address.0.into()),
        RData::AAAA(address) => Record::Address(address.0.into()),
        RData::TLSA(tlsa) => Record::Tlsa(TlsaRecord {
            usage: tlsa.cert_usage.into(),
            selector: tlsa.selector.into(),
            matching: tlsa.matching.into(),
            data: tlsa.cert_data.clone(),
        }),
        RData::TXT(text) => Record::Text(text.txt_data.concat()),
        _ => return None,
    })
}

fn record_type(kind: RecordKind) -> RecordType {
    match kind {
        RecordKind::Mx => RecordType::MX,
        RecordKind::A => RecordType::A,
        RecordKind::Aaaa => RecordType::AAAA,
        RecordKind::Tlsa => RecordType::TLSA,
        RecordKind::Txt => RecordType::TXT,
    }
}

/// A name in lower case without a final dot; the root is empty.
fn plain_name(name: &Name) -> String {
    name.to_ascii().trim_end_matches('.').to_ascii_lowercase()
}

/// What an error means, and how long it does.
fn failure(error: &NetError) -> (LookupFailure, Duration) {
    let negative = |code, ttl: Option<u32>| {
        let ttl = ttl.map_or(NEGATIVE_TTL, |ttl| Duration::from_secs(ttl.into()));
        match code {
            ResponseCode::NXDomain => (LookupFailure::NoDomain, ttl),
            _ => (LookupFailure::NoRecords, ttl),
        }
    };
    let server = |text: String| (LookupFailure::Server(text), FAILURE_TTL);
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => {
            negative(none.response_code, none.negative_ttl)
        }
        NetError::Dns(DnsError::Nsec { response, proof, .. }) => {
            if proof.is_bogus() {
                return (LookupFailure::Bogus, FAILURE_TTL);
            }
            negative(response.response_code, response.negative_ttl())
        }
        NetError::Dns(DnsError::DnssecBogus) => (LookupFailure::Bogus, FAILURE_TTL),
        NetError::Dns(DnsError::ResponseCode(code)) => {
            server(format!("the DNS server answers {}", code_name(*code)))
        }
        NetError::Timeout => (LookupFailure::Timeout, FAILURE_TTL),
        other => server(format!("DNS: {other}")),
    }
}

/// Name of an error as in dig and logs of DNS servers.
fn code_name(code: ResponseCode) -> String {
    match code {
        ResponseCode::ServFail => "SERVFAIL".into(),
        ResponseCode::Refused => "REFUSED".into(),
        ResponseCode::FormErr => "FORMERR".into(),
        ResponseCode::NotImp => "NOTIMP".into(),
        other => other.to_string(),
    }
}

/// Finds the servers. An error is a text for people.
fn find_servers(settings: &DnsSettings) -> Result<Servers, String> {
    let addresses = server_addresses(settings)?;
    if settings.dnssec == Dnssec::Trust
        && let Some(other) = addresses.iter().find(|address| !address.ip().is_loopback())
    {
        return Err(format!("`dnssec = \"trust\"`, but the DNS server {other} is not on loopback"));
    }
    let servers = addresses.into_iter().map(|address| {
        let with_port = |mut connection: ConnectionConfig| {
            connection.port = address.port();
            connection
        };
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(with_port);
        NameServerConfig::new(address.ip(), true, connections.into())
    });
    let mut options = ResolverOpts::default();
    options.timeout = settings.timeout;
    options.attempts = settings.attempts.max(1) - 1;
    options.validate = settings.dnssec == Dnssec::Validate;
    let tls = TlsConfig::new().map_err(|error| error.to_string())?;
    let context = Arc::new(PoolContext::new(options, tls));
    let pool = NameServerPool::from_config(servers, context, TokioRuntimeProvider::default());
    let pool = RetryDnsHandle::new(pool, settings.attempts.max(1) - 1);
    match settings.dnssec {
        Dnssec::Off => return Ok(Servers::Plain(pool)),
        Dnssec::Trust => return Ok(Servers::Trusted(pool)),
        Dnssec::Validate => {}
    }
    let anchors = match &settings.trust_anchor {
        None => TrustAnchors::default(),
        Some(path) => TrustAnchors::from_file(path)
            .map_err(|error| format!("trust anchor {}: {error}", path.display()))?,
    };
    Ok(Servers::Validating(DnssecDnsHandle::with_trust_anchor(pool, Arc::new(anchors))))
}

fn server_addresses(settings: &DnsSettings) -> Result<Vec<SocketAddr>, String> {
    if !settings.servers.is_empty() {
        return Ok(settings.servers.iter().map(|server| server.0).collect());
    }
    let (config, _) =
        system_conf::read_system_conf().map_err(|error| format!("/etc/resolv.conf: {error}"))?;
    Ok(config.name_servers.iter().map(|server| SocketAddr::new(server.ip, 53)).collect())
}
