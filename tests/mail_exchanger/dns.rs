//! Routes from the answers of a real DNS server.

use crate::dns_server::{RunningDns, Zones, silent_dns};
use crate::{dns_settings, mail_exchangers, soon};
use std::time::{Duration, Instant};
use zsched_mail_exchanger::{
    DnsServer, DnsSettings, Dnssec, MailExchangers, NextHop, Route, RouteError, RouteErrorKind,
    TlsSettings,
};

const EXAMPLE: &str = "
d       MX 20 mx2.d
d       MX 10 mx1.d
mx1.d   A 198.51.100.1
mx1.d   AAAA 2001:db8::1
mx2.d   CNAME host
host    A 198.51.100.2
alias   CNAME d
plain   A 198.51.100.3
null    MX 0 .
empty   MX 10 nothing
text    TXT none
loop1   CNAME loop2
loop2   CNAME loop1
mixed   MX 10 host.unsigned.
";

const UNSIGNED: &str = "
@       MX 10 host
host    A 198.51.100.4
";

fn zones() -> Zones {
    // More than fits into one datagram.
    let many: String = (0..200)
        .map(|number| format!("many MX {number} mx{number}.many\nmx{number}.many A 198.51.100.9\n"))
        .collect();
    Zones { example: format!("{EXAMPLE}{many}"), unsigned: UNSIGNED.into() }
}

fn route(exchangers: &mut MailExchangers, destination: &str) -> Result<Route, RouteError> {
    exchangers.route(&NextHop::parse(destination).unwrap(), soon())
}

fn shown(exchangers: &mut MailExchangers, destination: &str) -> String {
    match route(exchangers, destination) {
        Ok(route) => {
            let exchanger = |exchanger: &zsched_mail_exchanger::Exchanger| {
                let endpoints = exchanger.endpoints.iter().map(ToString::to_string);
                format!("{}={}", exchanger.name, endpoints.collect::<Vec<_>>().join(","))
            };
            route.exchangers.iter().map(exchanger).collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("{} {error}", error.enhanced_code()),
    }
}

#[test]
fn routes_follow_the_records_of_a_server() {
    let server = RunningDns::start(&zones());
    let mut exchangers = mail_exchangers(dns_settings(&server), &TlsSettings::default());
    let mut check = |destination: &str, expected: &str| {
        assert_eq!(shown(&mut exchangers, destination), expected, "{destination}");
    };
    let both = "mx1.d.example=[2001:db8::1]:25,198.51.100.1:25 mx2.d.example=198.51.100.2:25";
    check("D.example.", both);
    check("alias.example", both);
    check("plain.example:26", "plain.example=198.51.100.3:26");
    check("[mx2.d.example]", "mx2.d.example=198.51.100.2:25");
    check("null.example", "5.1.10 the domain null.example accepts no mail (null MX, RFC 7505)");
    check("none.example", "5.1.2 the domain none.example does not exist");
    check("[none.example]", "5.1.2 the domain none.example does not exist");
    check(
        "empty.example",
        "5.4.4 no mail exchanger of empty.example has a usable address: \
         nothing.example: the name does not exist",
    );
    check(
        "text.example",
        "5.4.4 no mail exchanger of text.example has a usable address: \
         text.example: the name has no such records",
    );
    check("x.refused", "4.4.3 DNS lookup of x.refused failed: MX: the DNS server answers REFUSED");
    check("bogus", "4.4.3 DNS lookup of bogus failed: MX: the DNS server answers SERVFAIL");
    let looped = shown(&mut exchangers, "loop1.example");
    assert!(looped.starts_with("4.4.3 DNS lookup of loop1.example failed: MX: "), "{looped}");
}

#[test]
fn a_large_answer_comes_over_tcp() {
    let server = RunningDns::start(&zones());
    let mut exchangers = mail_exchangers(dns_settings(&server), &TlsSettings::default());
    let route = route(&mut exchangers, "many.example").unwrap();
    let preferences: Vec<_> = route.exchangers.iter().map(|found| found.preference).collect();
    assert_eq!(preferences, (0..5).map(Some).collect::<Vec<_>>());
}

/// The two ways to know that an answer is authentic agree.
#[test]
fn signed_answers_are_validated_by_the_server_or_by_us() {
    let server = RunningDns::start(&zones());
    for dnssec in [Dnssec::Trust, Dnssec::Validate] {
        let settings = DnsSettings {
            dnssec,
            trust_anchor: Some(server.trust_anchor()),
            ..dns_settings(&server)
        };
        let mut exchangers = mail_exchangers(settings, &TlsSettings::default());
        let mut validated = |destination: &str| {
            let route = route(&mut exchangers, destination)
                .unwrap_or_else(|error| panic!("{dnssec:?} {destination}: {error}"));
            let of = |found: &zsched_mail_exchanger::Exchanger| found.is_validated;
            (route.is_mx_validated, route.exchangers.iter().all(of))
        };
        assert_eq!(validated("d.example"), (true, true), "{dnssec:?}");
        assert_eq!(validated("alias.example"), (true, true), "{dnssec:?}");
        assert_eq!(validated("unsigned"), (false, false), "{dnssec:?}");
        assert_eq!(validated("mixed.example"), (true, false), "{dnssec:?}");
        // What does not exist is also known.
        let missing = route(&mut exchangers, "none.example").unwrap_err();
        assert_eq!(missing.kind, RouteErrorKind::NoSuchDomain, "{dnssec:?}: {missing}");
        assert_eq!(shown(&mut exchangers, "plain.example"), "plain.example=198.51.100.3:25");
        let bogus = route(&mut exchangers, "bogus").unwrap_err();
        assert_eq!(bogus.kind, RouteErrorKind::ServerFailure, "{dnssec:?}: {bogus}");
    }
}

#[test]
fn nothing_is_validated_by_default() {
    let server = RunningDns::start(&zones());
    let mut exchangers = mail_exchangers(dns_settings(&server), &TlsSettings::default());
    assert!(!route(&mut exchangers, "d.example").unwrap().is_mx_validated);
}

#[test]
fn answers_are_kept_for_their_ttl() {
    let mut server = RunningDns::start(&zones());
    let mut exchangers = mail_exchangers(
        DnsSettings { timeout: Duration::from_millis(200), ..dns_settings(&server) },
        &TlsSettings::default(),
    );
    let before = shown(&mut exchangers, "d.example");
    let missing = shown(&mut exchangers, "none.example");
    server.stop();
    assert_eq!(shown(&mut exchangers, "d.example"), before);
    assert_eq!(shown(&mut exchangers, "none.example"), missing);
    assert!(route(&mut exchangers, "plain.example").unwrap_err().is_temporary());
}

#[test]
fn a_silent_server_is_a_timeout_at_the_deadline() {
    let (_udp, _tcp, address) = silent_dns();
    let settings = DnsSettings { servers: vec![DnsServer(address)], ..DnsSettings::default() };
    let mut exchangers = mail_exchangers(settings, &TlsSettings::default());
    let destination = NextHop::parse("d.example").unwrap();
    let deadline = Instant::now() + Duration::from_millis(300);
    let error = exchangers.route(&destination, deadline).unwrap_err();
    assert_eq!(error.kind, RouteErrorKind::Timeout);
    assert_eq!(
        error.to_string(),
        "DNS lookup of d.example timed out: MX: no DNS server answered in time"
    );
    assert!(Instant::now() >= deadline);
}

#[test]
fn another_server_answers_for_a_silent_one() {
    let (_udp, _tcp, silent) = silent_dns();
    let server = RunningDns::start(&zones());
    let servers = vec![DnsServer(silent), DnsServer(server.address())];
    let mut exchangers =
        mail_exchangers(DnsSettings { servers, ..DnsSettings::default() }, &TlsSettings::default());
    assert_eq!(shown(&mut exchangers, "plain.example"), "plain.example=198.51.100.3:25");
}

#[test]
fn a_server_that_is_trusted_must_be_on_loopback() {
    let settings = DnsSettings {
        servers: vec![DnsServer("198.51.100.53:53".parse().unwrap())],
        dnssec: Dnssec::Trust,
        ..DnsSettings::default()
    };
    let mut exchangers = mail_exchangers(settings, &TlsSettings::default());
    assert_eq!(
        shown(&mut exchangers, "d.example"),
        "4.4.3 DNS lookup of d.example failed: MX: `dnssec = \"trust\"`, but the DNS server \
         198.51.100.53:53 is not on loopback"
    );
}
