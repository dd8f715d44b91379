//! Finds routes, opens connections, and decides what each must be protected with.

use crate::connection::{self, ConnectError, Connection};
use crate::dns::{Dns, Lookups};
use crate::next_hop::{NextHop, domain_name};
use crate::route::{Endpoint, Exchanger, OwnAddresses, Route, Router};
use crate::route_error::RouteError;
use crate::settings::{DnsSettings, RoutingSettings, TlsSettings};
use crate::source::Source;
use crate::tls::{PolicyError, PolicyFinder, TlsPolicy};
use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::time::Instant;
use tokio::runtime::Runtime;

/// Finds where mail goes, for one agent and its life.
///
/// Nothing is loaded before it is needed: the DNS resolver with the first lookup.
pub struct MailExchangers {
    routing: RoutingSettings,
    default_port: u16,
    dns: Dns,
    policies: PolicyFinder,
    own: OwnHost,
    random: fastrand::Rng,
    runtime: Option<Runtime>,
}

impl MailExchangers {
    /// Creates it. `default_port` is that of destinations without one: 25 for SMTP, 24 for LMTP.
    pub fn new(
        dns: DnsSettings,
        routing: RoutingSettings,
        tls: &TlsSettings,
        default_port: u16,
    ) -> MailExchangers {
        MailExchangers {
            default_port,
            dns: Dns::new(dns),
            policies: PolicyFinder::new(tls.clone()),
            own: OwnHost::new(&routing),
            routing,
            random: fastrand::Rng::new(),
            runtime: None,
        }
    }

    /// Finds the hosts to which the mail of a destination goes.
    ///
    /// At the deadline, lookups without an answer have timed out.
    pub fn route(&mut self, destination: &NextHop, deadline: Instant) -> Result<Route, RouteError> {
        self.router(deadline).route(destination)
    }

    /// Next hops to try after the route of a destination.
    ///
    /// Mail goes there if no host of the route takes it.
    pub fn fallbacks(&self, destination: &NextHop) -> &[NextHop] {
        self.routing.smarthost_rule(destination).map_or(&[], |rule| &rule.fallback)
    }

    /// Finds the hosts of a fallback. The smarthost table is not applied to it.
    pub fn route_to_fallback(
        &mut self,
        fallback: &NextHop,
        deadline: Instant,
    ) -> Result<Route, RouteError> {
        self.router(deadline).route_to(fallback, true)
    }

    fn router(&mut self, deadline: Instant) -> Router<'_, impl Lookups + '_, OwnHost> {
        Router {
            settings: &self.routing,
            lookups: self.dns.on(runtime(&mut self.runtime)),
            own: &self.own,
            random: &mut self.random,
            default_port: self.default_port,
            deadline,
        }
    }

    /// Chooses the address from which connections to a destination come.
    pub fn source(&mut self, channel: &str, destination: &NextHop) -> Source {
        let rules = &self.routing.source;
        Source::choose(rules, channel, &destination.host(), &mut self.random)
    }

    /// Connects to the first endpoint that accepts, within the deadline.
    ///
    /// The deadline is also the connection's own until the caller sets another.
    pub fn connect(
        &mut self,
        endpoints: &[Endpoint],
        source: &Source,
        deadline: Instant,
    ) -> Result<Connection, ConnectError> {
        let delay = self.routing.connection_attempt_delay;
        let runtime = runtime(&mut self.runtime);
        runtime.block_on(connection::connect(endpoints, source, delay, deadline))
    }

    /// Decides how a connection to an exchanger of a route must be protected.
    ///
    /// Looks up TLSA records and policies of MTA-STS where the settings ask for them. With
    /// `requires_tls`, for a message with REQUIRETLS (RFC 8689), it does so in any case, unless a
    /// rule for the destination forbids MTA-STS.
    pub fn tls_policy(
        &mut self,
        route: &Route,
        exchanger: &Exchanger,
        requires_tls: bool,
        deadline: Instant,
    ) -> Result<TlsPolicy, PolicyError> {
        let (validates, runtime) = (self.dns.validates(), runtime(&mut self.runtime));
        let mut lookups = self.dns.on(runtime);
        self.policies.find(route, exchanger, requires_tls, validates, &mut lookups, deadline)
    }
}

/// The runtime that waits for DNS and connections, in the thread of the caller.
fn runtime(slot: &mut Option<Runtime>) -> &Runtime {
    slot.get_or_insert_with(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("the system has descriptors for epoll")
    })
}

/// Which names and addresses are this host's.
struct OwnHost {
    names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl OwnHost {
    fn new(settings: &RoutingSettings) -> OwnHost {
        let host_name = zsched_sys::host_name();
        let own_names = settings.own_names.iter().map(|name| name.as_str().to_string());
        OwnHost {
            names: own_names.chain(domain_name(&host_name)).collect(),
            addresses: settings.own_addresses.iter().copied().collect(),
        }
    }
}

impl OwnAddresses for OwnHost {
    /// A socket can be bound to addresses of this host only.
    fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address) || UdpSocket::bind((address, 0)).is_ok()
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}
