//! Routes and protected connections with real peers on loopback: `unbound` with signed zones,
//! TLS servers with certificates made here, `openssl s_server`.

mod certificates;
mod connections;
mod dane;
mod dns;
mod dns_server;
mod mta_sts;
mod tls;
mod tls_server;

use std::time::{Duration, Instant};
use zsched_mail_exchanger::{DnsServer, DnsSettings, MailExchangers, RoutingSettings, TlsSettings};

/// A deadline that a test does not reach.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Settings that ask one server.
fn dns_settings(server: &dns_server::RunningDns) -> DnsSettings {
    DnsSettings { servers: vec![DnsServer(server.address())], ..DnsSettings::default() }
}

fn mail_exchangers(dns: DnsSettings, tls: &TlsSettings) -> MailExchangers {
    MailExchangers::new(dns, RoutingSettings::default(), tls, 25)
}
