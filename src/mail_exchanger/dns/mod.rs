//! Answers of DNS, as routing and DANE need them.
//!
//! [`Lookups`] is what the pure parts of this crate ask: tests answer from a table, [`Dns`] asks
//! servers and keeps the answers.

mod answer_cache;
mod resolver;

pub(crate) use resolver::Dns;

use crate::tls::TlsaRecord;
use std::net::IpAddr;
use std::time::Instant;

/// The record type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RecordKind {
    Mx,
    A,
    Aaaa,
    Tlsa,
    Txt,
}

/// A question: what to look up, and for which name (in A-labels, without a final dot).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Question {
    pub(crate) kind: RecordKind,
    pub(crate) name: String,
}

impl Question {
    pub(crate) fn new(kind: RecordKind, name: &str) -> Question {
        Question { kind, name: name.to_string() }
    }
}

/// One record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A mail exchanger; the root is the empty name.
    Mx {
        preference: u16,
        exchanger: String,
    },
    Address(IpAddr),
    Tlsa(TlsaRecord),
    /// The strings of a TXT record, joined.
    Text(Vec<u8>),
}

impl Record {
    /// The address of an A or AAAA record.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Record::Address(address) => Some(*address),
            _ => None,
        }
    }
}

/// The records that answer a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// At least one.
    pub(crate) records: Vec<Record>,
    /// The name that has the records: the end of the chain of CNAMEs.
    pub(crate) canonical: String,
    /// True if all records and CNAMEs are validated by DNSSEC.
    pub(crate) is_validated: bool,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupFailure {
    /// The name does not exist (NXDOMAIN).
    #[error("the name does not exist")]
    NoDomain,
    /// The name has no such records.
    #[error("the name has no such records")]
    NoRecords,
    /// The servers answered with an error, such as SERVFAIL.
    #[error("{0}")]
    Server(String),
    /// Signatures are wrong or missing (DNSSEC).
    #[error("DNSSEC validation failed")]
    Bogus,
    /// No server answered in time.
    #[error("no DNS server answered in time")]
    Timeout,
}

impl LookupFailure {
    /// Returns true if a later try may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        !matches!(self, LookupFailure::NoDomain | LookupFailure::NoRecords)
    }
}

/// Asks DNS.
pub(crate) trait Lookups {
    /// Looks up several questions at a time; the answers are in their order.
    ///
    /// Questions without an answer at the deadline have timed out.
    fn look_up_all(
        &mut self,
        questions: &[Question],
        deadline: Instant,
    ) -> Vec<Result<Answer, LookupFailure>>;

    /// Looks up one question.
    fn look_up(&mut self, question: Question, deadline: Instant) -> Result<Answer, LookupFailure> {
        let mut answers = self.look_up_all(&[question], deadline);
        answers.pop().unwrap_or(Err(LookupFailure::Timeout))
    }
}
