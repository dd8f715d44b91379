//! Where the mail of a destination goes, and how connections there are made and verified.
//!
//! This crate decides which hosts may get the mail, in which order, over which addresses, and which
//! protection each connection needs. It must not know SMTP, messages, recipients or the queue.
//! Begin with [`MailExchangers`], then read [`Route`] and [`TlsPolicy`].
//!
//! The user is an agent that works on one job at a time. All calls block, each until a deadline.
//! Nothing is loaded before it is needed: neither the DNS resolver nor certificate authorities.
//!
//! ```text
//! host column ──NextHop::parse──► NextHop
//!     ──MailExchangers::route──► Route: exchangers in the order to try, each with endpoints
//!     for each exchanger:
//!         MailExchangers::tls_policy ──► TlsPolicy
//!         MailExchangers::connect ──► Connection
//!         after STARTTLS: TlsConnector::start ──► TlsStream with a TlsSession
//! ```
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use zsched_mail_exchanger::{
//!     NextHop, DnsSettings, MailExchangers, RoutingSettings, TlsConnector, TlsSettings,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Once in the life of the agent:
//! let tls = TlsSettings::default();
//! let mut exchangers =
//!     MailExchangers::new(DnsSettings::default(), RoutingSettings::default(), &tls, 25);
//! let mut connector = TlsConnector::new(tls);
//!
//! // For each job:
//! let within = |seconds| Instant::now() + Duration::from_secs(seconds);
//! let destination = NextHop::parse("example.org")?;
//! let route = exchangers.route(&destination, within(30))?;
//! let source = exchangers.source("smtp", &destination);
//! for exchanger in &route.exchangers {
//!     let policy = exchangers.tls_policy(&route, exchanger, false, within(30))?;
//!     let mut connection = exchangers.connect(&exchanger.endpoints, &source, within(30))?;
//!     connection.set_deadline(within(300));
//!     // ... read the greeting, send EHLO and, if `policy.uses_tls`, STARTTLS ...
//!     let mut stream = connector.start(connection, &policy)?;
//!     stream.set_deadline(within(300));
//!     println!("{}", stream.session());
//! }
//! # Ok(()) }
//! ```
//!
//! # Failures
//!
//! | error | what the agent does |
//! |---|---|
//! | [`RouteError`] | all recipients get its codes and text; `is_temporary` tells defer from fail |
//! | [`ConnectError`] | the next exchanger; without one, 4.4.1 |
//! | [`PolicyError`] | the next exchanger; without one, its code |
//! | [`TlsError`] | if [`TlsPolicy::allows_retry_without_tls`], a new connection without TLS; else the next exchanger; without one, its code |
//!
//! [`Connection::peer`] is the endpoint that has accepted. If its host then fails, the agent
//! removes that endpoint from the list and connects again, until [`Route::max_sessions`] is
//! reached.
//! [`TlsRecord`] is what the status log needs for TLS-RPT.

#![warn(unreachable_pub)]

// Where mail goes.
mod next_hop;
mod dns;
mod exchangers;
mod route;
mod route_error;

// How connections are made.
mod connection;
mod mta_sts;
mod source;
mod tls;

// What can be set.
mod interval;
mod settings;

pub use connection::{ConnectError, Connection};
pub use exchangers::MailExchangers;
pub use next_hop::{NextHop, NextHopError, NextHopKind, domain_name};
pub use route::{Endpoint, Exchanger, Route, Unresolved};
pub use route_error::{RouteError, RouteErrorKind};
pub use settings::{
    AddressFamily, ClientCertificate, DnsServer, DnsSettings, Dnssec, DomainName, HostPattern,
    RoutingSettings, SmarthostRule, SourceAddress, SourceRule, TlsLevel, TlsRule, TlsSettings,
    parse_settings,
};
pub use source::Source;
pub use tls::{
    PolicyError, TlsConnector, TlsError, TlsErrorKind, TlsPolicy, TlsPolicyType, TlsRecord,
    TlsResultType, TlsSession, TlsStream, TlsaRecord, Verification, Verified,
};
