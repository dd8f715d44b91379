//! Decides to which hosts the mail of a destination goes, and in which order.
//!
//! ```text
//! destination ──smarthost table──► next hop ──MX──► exchangers ──A, AAAA──► addresses in order
//! ```
//!
//! Pure: DNS is asked through [`Lookups`], chance comes from a generator, and whether an address
//! is this host's own is asked through [`OwnAddresses`].

use crate::dns::{Answer, LookupFailure, Lookups, Question, Record, RecordKind};
use crate::next_hop::{NextHop, NextHopKind};
use crate::route_error::{RouteError, RouteErrorKind};
use crate::settings::{AddressFamily, RoutingSettings};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

/// The port on which this host receives mail of others: loops are looked for on this one only.
const SMTP_PORT: u16 = 25;

/// Where the mail of a destination goes: the hosts in the order in which they are to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destination, or the smarthost that stands for it.
    pub next_hop: NextHop,
    /// True if the smarthost table has changed the destination.
    pub is_smarthost: bool,
    /// True if the MX records are validated by DNSSEC, or no MX records were needed.
    pub is_mx_validated: bool,
    /// The hosts, at least one, each with at least one endpoint.
    pub exchangers: Vec<Exchanger>,
    /// Exchangers left out since their addresses cannot be found, with the reason.
    pub unresolved: Vec<Unresolved>,
    /// Maximum number of sessions for a message (`max-sessions`).
    pub max_sessions: usize,
}

/// A host to which mail goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanger {
    /// Its name; an address in brackets if it has none; the path of a UNIX socket.
    pub name: String,
    /// Its preference, if there are MX records; the lowest is tried first.
    pub preference: Option<u16>,
    /// Where to connect to, in the order to try.
    pub endpoints: Vec<Endpoint>,
    /// The name that has the addresses, after CNAMEs.
    pub canonical: String,
    /// True if the addresses are validated by DNSSEC.
    pub is_validated: bool,
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a UNIX socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => write!(f, "{address}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// An exchanger without addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Its name.
    pub name: String,
    /// True if a later try may find addresses.
    pub is_temporary: bool,
    /// The reason, for people.
    pub reason: String,
}

/// The addresses and names of this host.
pub(crate) trait OwnAddresses {
    /// Returns true for an address of this host.
    fn has_address(&self, address: IpAddr) -> bool;
    /// Returns true for a name of this host, in lower case.
    fn has_name(&self, name: &str) -> bool;
}

/// What routing needs to know and to ask.
pub(crate) struct Router<'a, L, O> {
    pub(crate) settings: &'a RoutingSettings,
    pub(crate) lookups: L,
    pub(crate) own: &'a O,
    pub(crate) random: &'a mut fastrand::Rng,
    pub(crate) default_port: u16,
    pub(crate) deadline: Instant,
}

/// An exchanger before its addresses are known.
struct Candidate {
    name: String,
    preference: Option<u16>,
}

impl<L: Lookups, O: OwnAddresses> Router<'_, L, O> {
    /// Finds the route of a destination.
    pub(crate) fn route(&mut self, destination: &NextHop) -> Result<Route, RouteError> {
        match self.settings.smarthost_rule(destination).and_then(|rule| rule.next_hop.as_ref()) {
            Some(next_hop) => self.route_to(next_hop, true),
            None => self.route_to(destination, false),
        }
    }

    /// Finds the route to a host, whatever the smarthost table has for it.
    pub(crate) fn route_to(
        &mut self,
        next_hop: &NextHop,
        is_smarthost: bool,
    ) -> Result<Route, RouteError> {
        let mut route = Route {
            next_hop: next_hop.clone(),
            is_smarthost,
            is_mx_validated: true,
            exchangers: Vec::new(),
            unresolved: Vec::new(),
            max_sessions: self.settings.max_sessions.max(1),
        };
        let port = next_hop.port.unwrap_or(self.default_port);
        match &next_hop.kind {
            NextHopKind::Socket(path) => {
                route.exchangers.push(fixed(host_of(next_hop), Endpoint::Unix(path.clone())));
            }
            NextHopKind::Address(address) => {
                let endpoint = Endpoint::Tcp(SocketAddr::new(*address, port));
                route.exchangers.push(fixed(host_of(next_hop), endpoint));
            }
            NextHopKind::Host(name) => {
                let candidates = vec![Candidate { name: name.clone(), preference: None }];
                self.resolve(name, candidates, port, false, &mut route)?;
            }
            NextHopKind::Domain(name) => {
                let candidates = self.exchangers_of(name, &mut route)?;
                self.resolve(name, candidates, port, port == SMTP_PORT, &mut route)?;
            }
        }
        Ok(route)
    }

    /// Looks up the MX records of a domain (RFC 5321 5.1), in the order to try.
    fn exchangers_of(
        &mut self,
        domain: &str,
        route: &mut Route,
    ) -> Result<Vec<Candidate>, RouteError> {
        let question = Question::new(RecordKind::Mx, domain);
        let answer = match self.lookups.look_up(question, self.deadline) {
            Ok(answer) => answer,
            // The domain itself is its exchanger.
            Err(LookupFailure::NoRecords) => {
                return Ok(vec![Candidate { name: domain.to_string(), preference: None }]);
            }
            Err(failure) => return Err(RouteError::of_lookup(domain, "MX", &failure)),
        };
        route.is_mx_validated = answer.is_validated;
        let mut candidates: Vec<Candidate> = answer.records.into_iter().filter_map(mx).collect();
        // RFC 7505: one record, and its exchanger is the root.
        if candidates.iter().all(|candidate| candidate.name.is_empty()) {
            return Err(RouteError::new(RouteErrorKind::NullMx, domain, ""));
        }
        candidates.retain(|candidate| !candidate.name.is_empty());
        self.random.shuffle(&mut candidates);
        candidates.sort_by_key(|candidate| candidate.preference);
        candidates.truncate(self.settings.max_exchangers.max(1));
        Ok(candidates)
    }

    /// Finds the addresses of exchangers, and leaves out those that cannot be used.
    fn resolve(
        &mut self,
        domain: &str,
        candidates: Vec<Candidate>,
        port: u16,
        finds_loops: bool,
        route: &mut Route,
    ) -> Result<(), RouteError> {
        let kinds = record_kinds(self.settings.address_family);
        let questions: Vec<Question> = candidates
            .iter()
            .flat_map(|candidate| kinds.iter().map(|kind| Question::new(*kind, &candidate.name)))
            .collect();
        let mut answers = self.lookups.look_up_all(&questions, self.deadline).into_iter();
        let mut failures = Vec::new();
        // The preference of this host itself, which ends the list.
        let mut own_preference = None;
        for candidate in candidates {
            let found: Vec<_> = answers.by_ref().take(kinds.len()).collect();
            if own_preference.is_some_and(|own| candidate.preference >= own) {
                continue;
            }
            match addresses(found) {
                Ok(found) => {
                    let is_own = self.own.has_name(&candidate.name)
                        || found.addresses.iter().any(|address| self.own.has_address(*address));
                    if finds_loops && is_own {
                        let drop = |other: &Exchanger| other.preference < candidate.preference;
                        route.exchangers.retain(drop);
                        own_preference = Some(candidate.preference);
                        continue;
                    }
                    let addresses = self.in_order(found.addresses);
                    let endpoint = |address| Endpoint::Tcp(SocketAddr::new(address, port));
                    route.exchangers.push(Exchanger {
                        endpoints: addresses.into_iter().map(endpoint).collect(),
                        name: candidate.name,
                        preference: candidate.preference,
                        canonical: found.canonical,
                        is_validated: found.is_validated,
                    });
                }
                // Its name is enough to know that this host is meant.
                Err(_) if finds_loops && self.own.has_name(&candidate.name) => {
                    let drop = |other: &Exchanger| other.preference < candidate.preference;
                    route.exchangers.retain(drop);
                    own_preference = Some(candidate.preference);
                }
                Err(failure) => {
                    route.unresolved.push(Unresolved {
                        reason: format!("{}: {failure}", candidate.name),
                        is_temporary: failure.is_temporary(),
                        name: candidate.name,
                    });
                    failures.push(failure);
                }
            }
        }
        self.limit_addresses(route);
        if route.exchangers.is_empty() {
            return Err(self.no_exchanger(domain, own_preference.is_some(), route, &failures));
        }
        Ok(())
    }

    /// Why a domain has no exchanger that can be used.
    fn no_exchanger(
        &self,
        domain: &str,
        is_loop: bool,
        route: &Route,
        failures: &[LookupFailure],
    ) -> RouteError {
        let reasons: Vec<&str> =
            route.unresolved.iter().map(|unresolved| &*unresolved.reason).collect();
        let reasons = reasons.join(", ");
        if let Some(failure) = failures.iter().find(|failure| failure.is_temporary()) {
            return RouteError::of_temporary(domain, &reasons, failure);
        }
        if is_loop {
            return RouteError::new(RouteErrorKind::Loop, domain, "");
        }
        // A host without MX that does not exist is a domain that does not exist.
        let is_domain = route.unresolved.iter().all(|unresolved| unresolved.name == domain);
        if is_domain && failures.contains(&LookupFailure::NoDomain) {
            return RouteError::new(RouteErrorKind::NoSuchDomain, domain, "");
        }
        let family = match self.settings.address_family {
            AddressFamily::Ipv4 => " (only IPv4 is used)",
            AddressFamily::Ipv6 => " (only IPv6 is used)",
            AddressFamily::PreferIpv4 | AddressFamily::PreferIpv6 => "",
        };
        RouteError::new(RouteErrorKind::NoUsableAddress, domain, &format!("{reasons}{family}"))
    }

    /// Shuffles addresses, and lets the families take turns (RFC 8305 4).
    fn in_order(&mut self, mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
        addresses.sort_unstable();
        addresses.dedup();
        self.random.shuffle(&mut addresses);
        let is_first = |address: &IpAddr| match self.settings.address_family {
            AddressFamily::PreferIpv4 | AddressFamily::Ipv4 => address.is_ipv4(),
            AddressFamily::PreferIpv6 | AddressFamily::Ipv6 => address.is_ipv6(),
        };
        let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_first);
        let mut second = second.into_iter();
        let mut ordered = Vec::new();
        for address in first {
            ordered.push(address);
            ordered.extend(second.next());
        }
        ordered.extend(second);
        ordered
    }

    /// Keeps as many addresses as may be tried; each exchanger gets one before any gets two.
    fn limit_addresses(&self, route: &mut Route) {
        let max = self.settings.max_addresses.max(1);
        route.exchangers.truncate(max);
        let mut kept = vec![0; route.exchangers.len()];
        let mut left = max;
        for round in 0..max {
            for (kept, exchanger) in kept.iter_mut().zip(&route.exchangers) {
                if left > 0 && exchanger.endpoints.len() > round {
                    *kept += 1;
                    left -= 1;
                }
            }
        }
        for (kept, exchanger) in kept.into_iter().zip(&mut route.exchangers) {
            exchanger.endpoints.truncate(kept);
        }
    }
}

/// What the address lookups of one host have found.
struct Found {
    addresses: Vec<IpAddr>,
    canonical: String,
    is_validated: bool,
}

/// Combines the answers for the families. A failure is that of the first family which may find
/// addresses later, if there is one.
fn addresses(answers: Vec<Result<Answer, LookupFailure>>) -> Result<Found, LookupFailure> {
    let mut found: Option<Found> = None;
    let mut failure = None;
    for answer in answers {
        match answer {
            Ok(answer) => {
                let addresses = answer.records.iter().filter_map(Record::address);
                let found = found.get_or_insert_with(|| Found {
                    addresses: Vec::new(),
                    canonical: answer.canonical.clone(),
                    is_validated: true,
                });
                found.addresses.extend(addresses);
                found.is_validated &= answer.is_validated;
            }
            Err(other) => {
                let replaces = failure.as_ref().is_none_or(|known: &LookupFailure| {
                    !known.is_temporary() && other.is_temporary()
                });
                if replaces {
                    failure = Some(other);
                }
            }
        }
    }
    found.ok_or(failure.unwrap_or(LookupFailure::NoRecords))
}

fn fixed(name: String, endpoint: Endpoint) -> Exchanger {
    Exchanger {
        canonical: name.clone(),
        name,
        preference: None,
        endpoints: vec![endpoint],
        is_validated: true,
    }
}

fn host_of(next_hop: &NextHop) -> String {
    match &next_hop.kind {
        NextHopKind::Address(_) => NextHop { port: None, ..next_hop.clone() }.to_string(),
        _ => next_hop.host(),
    }
}

fn mx(record: Record) -> Option<Candidate> {
    match record {
        Record::Mx { preference, exchanger } => {
            Some(Candidate { name: exchanger, preference: Some(preference) })
        }
        _ => None,
    }
}

fn record_kinds(family: AddressFamily) -> &'static [RecordKind] {
    match family {
        AddressFamily::Ipv4 => &[RecordKind::A],
        AddressFamily::Ipv6 => &[RecordKind::Aaaa],
        AddressFamily::PreferIpv4 | AddressFamily::PreferIpv6 => &[RecordKind::Aaaa, RecordKind::A],
    }
}

#[cfg(test)]
mod tests;
