//! Routes from tables of DNS answers.

use super::*;
use crate::settings::{HostPattern, SmarthostRule};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

/// DNS from a table.
#[derive(Clone, Debug, Default)]
struct Table {
    answers: BTreeMap<Question, Result<Answer, LookupFailure>>,
    /// What was asked.
    asked: Vec<Question>,
}

impl Table {
    /// Reads lines such as `example.org MX 10 mx1.example.org`, `mx1.example.org A 192.0.2.1`.
    ///
    /// Instead of data, `NXDOMAIN`, `SERVFAIL` and `TIMEOUT` are failures; `unsigned` at the end
    /// marks an answer that is not validated.
    fn read(lines: &str) -> Table {
        let mut table = Table::default();
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (line, is_validated) =
                line.strip_suffix(" unsigned").map_or((line, true), |line| (line, false));
            let words: Vec<&str> = line.split(' ').collect();
            let kind = match words[1] {
                "MX" => RecordKind::Mx,
                "A" => RecordKind::A,
                "AAAA" => RecordKind::Aaaa,
                other => panic!("{other}"),
            };
            let name = words[0].trim_end_matches('.');
            let record = match words[2..] {
                ["NXDOMAIN"] => Err(LookupFailure::NoDomain),
                ["SERVFAIL"] => Err(LookupFailure::Server("SERVFAIL".into())),
                ["TIMEOUT"] => Err(LookupFailure::Timeout),
                [preference, exchanger] => Ok(Record::Mx {
                    preference: preference.parse().unwrap(),
                    exchanger: exchanger.trim_end_matches('.').to_string(),
                }),
                [address] => Ok(Record::Address(address.parse().unwrap())),
                _ => panic!("{line}"),
            };
            let entry = table.answers.entry(Question::new(kind, name));
            match record {
                Err(failure) => drop(entry.or_insert(Err(failure))),
                Ok(record) => {
                    let canonical = name.to_string();
                    let none = Answer { records: Vec::new(), canonical, is_validated };
                    let answer = entry.or_insert(Ok(none)).as_mut().unwrap();
                    answer.records.push(record);
                }
            }
        }
        table
    }
}

impl Lookups for &mut Table {
    fn look_up_all(
        &mut self,
        questions: &[Question],
        _: Instant,
    ) -> Vec<Result<Answer, LookupFailure>> {
        self.asked.extend_from_slice(questions);
        let answer = |question| self.answers.get(question).cloned();
        let answers = questions.iter().map(answer);
        answers.map(|answer| answer.unwrap_or(Err(LookupFailure::NoRecords))).collect()
    }
}

/// This host: `us.example`, 192.0.2.99.
struct Us;

impl OwnAddresses for Us {
    fn has_address(&self, address: IpAddr) -> bool {
        address.to_string() == "192.0.2.99"
    }

    fn has_name(&self, name: &str) -> bool {
        name == "us.example"
    }
}

fn find(
    settings: &RoutingSettings,
    table: &mut Table,
    destination: &str,
    seed: u64,
) -> Result<Route, RouteError> {
    let mut router = Router {
        settings,
        lookups: table,
        own: &Us,
        random: &mut fastrand::Rng::with_seed(seed),
        default_port: 25,
        deadline: Instant::now() + Duration::from_secs(1),
    };
    router.route(&NextHop::parse(destination).unwrap())
}

/// Exchangers with their endpoints, or the code and text of the error.
fn shown(settings: &RoutingSettings, table: &str, destination: &str) -> String {
    show(find(settings, &mut Table::read(table), destination, 1))
}

fn show(route: Result<Route, RouteError>) -> String {
    match route {
        Ok(route) => {
            let exchanger = |exchanger: &Exchanger| {
                let endpoints: Vec<_> =
                    exchanger.endpoints.iter().map(Endpoint::to_string).collect();
                format!("{}={}", exchanger.name, endpoints.join(","))
            };
            route.exchangers.iter().map(exchanger).collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("{} {} {error}", error.reply_code(), error.enhanced_code()),
    }
}

fn check(table: &str, destination: &str, expected: &str) {
    assert_eq!(shown(&RoutingSettings::default(), table, destination), expected);
}

const TWO: &str = "
    d.example MX 20 b.example
    d.example MX 10 a.example
    a.example A 192.0.2.1
    a.example AAAA 2001:db8::1
    b.example A 192.0.2.2";

#[test]
fn exchangers_are_in_order_of_preference_and_families_take_turns() {
    check(TWO, "d.example", "a.example=[2001:db8::1]:25,192.0.2.1:25 b.example=192.0.2.2:25");
    check(
        TWO,
        "d.example:2525",
        "a.example=[2001:db8::1]:2525,192.0.2.1:2525 b.example=192.0.2.2:2525",
    );
}

#[test]
fn exchangers_of_equal_preference_are_shuffled() {
    let table = "
        d.example MX 10 a.example
        d.example MX 10 b.example
        a.example A 192.0.2.1
        b.example A 192.0.2.2";
    let first = |seed| {
        let route = find(&RoutingSettings::default(), &mut Table::read(table), "d.example", seed);
        route.unwrap().exchangers[0].name.clone()
    };
    let counts = (0..1000).filter(|seed| first(*seed) == "a.example").count();
    assert!((400..600).contains(&counts), "{counts}");
}

#[test]
fn a_domain_without_mx_is_its_own_exchanger() {
    check("d.example A 192.0.2.1", "d.example", "d.example=192.0.2.1:25");
    let route = find(
        &RoutingSettings::default(),
        &mut Table::read("d.example A 192.0.2.1"),
        "d.example",
        1,
    );
    assert_eq!(route.unwrap().exchangers[0].preference, None);
}

#[test]
fn a_host_in_brackets_has_no_mx() {
    let mut table = Table::read(TWO);
    let route = find(&RoutingSettings::default(), &mut table, "[a.example]:24", 1);
    assert_eq!(show(route), "a.example=[2001:db8::1]:24,192.0.2.1:24");
    assert!(table.asked.iter().all(|question| question.kind != RecordKind::Mx));
}

#[test]
fn addresses_and_sockets_need_no_lookup() {
    let mut table = Table::default();
    let mut route =
        |destination| show(find(&RoutingSettings::default(), &mut table, destination, 1));
    assert_eq!(route("[192.0.2.1]"), "[192.0.2.1]=192.0.2.1:25");
    assert_eq!(route("[IPv6:2001:db8::1]:24"), "[IPv6:2001:db8::1]=[2001:db8::1]:24");
    assert_eq!(route("unix:/run/lmtp"), "/run/lmtp=/run/lmtp");
    assert_eq!(table.asked, []);
}

#[test]
fn each_failure_has_its_code() {
    let nothing = "no mail exchanger of d.example has a usable address: a.example: ";
    check("d.example MX NXDOMAIN", "d.example", "550 5.1.2 the domain d.example does not exist");
    check(
        "d.example A NXDOMAIN\nd.example AAAA NXDOMAIN",
        "[d.example]",
        "550 5.1.2 the domain d.example does not exist",
    );
    check(
        "d.example MX 0 .",
        "d.example",
        "556 5.1.10 the domain d.example accepts no mail (null MX, RFC 7505)",
    );
    check(
        "d.example MX SERVFAIL",
        "d.example",
        "451 4.4.3 DNS lookup of d.example failed: MX: SERVFAIL",
    );
    check(
        "d.example MX TIMEOUT",
        "d.example",
        "451 4.4.3 DNS lookup of d.example timed out: MX: no DNS server answered in time",
    );
    check(
        "d.example MX 10 a.example",
        "d.example",
        &format!("550 5.4.4 {nothing}the name has no such records"),
    );
    check(
        "d.example MX 10 a.example\na.example A NXDOMAIN\na.example AAAA NXDOMAIN",
        "d.example",
        &format!("550 5.4.4 {nothing}the name does not exist"),
    );
    // One exchanger may come back.
    check(
        "d.example MX 10 a.example\nd.example MX 20 b.example\nb.example AAAA SERVFAIL",
        "d.example",
        "451 4.4.3 DNS lookup of d.example failed: a.example: the name has no such records, \
         b.example: SERVFAIL",
    );
}

#[test]
fn exchangers_without_addresses_are_left_out() {
    let table = format!("{TWO}\nd.example MX 5 gone.example\ngone.example A SERVFAIL");
    let route =
        find(&RoutingSettings::default(), &mut Table::read(&table), "d.example", 1).unwrap();
    assert_eq!(route.exchangers[0].name, "a.example");
    assert_eq!(route.unresolved[0].reason, "gone.example: SERVFAIL");
    assert!(route.unresolved[0].is_temporary);
}

#[test]
fn a_failed_family_leaves_the_other() {
    let table = "d.example A 192.0.2.1\nd.example AAAA SERVFAIL";
    check(table, "d.example", "d.example=192.0.2.1:25");
}

#[test]
fn exchangers_from_our_preference_on_are_dropped() {
    let by_name = "
        d.example MX 10 a.example
        d.example MX 20 us.example
        d.example MX 20 b.example
        d.example MX 30 c.example
        a.example A 192.0.2.1
        b.example A 192.0.2.2
        c.example A 192.0.2.3";
    let by_address = by_name.replace("us.example", "u.example") + "\nu.example A 192.0.2.99";
    for seed in 0..20 {
        for table in [by_name, &by_address] {
            let settings = RoutingSettings::default();
            let route = find(&settings, &mut Table::read(table), "d.example", seed);
            assert_eq!(show(route), "a.example=192.0.2.1:25");
        }
    }
    let best = "d.example MX 10 us.example\nd.example MX 10 a.example\na.example A 192.0.2.1";
    let looped = "550 5.4.6 mail for d.example loops back to this host, its best mail exchanger";
    check(best, "d.example", looped);
    check("d.example A 192.0.2.99", "d.example", looped);
    // Another port is another server on this host.
    check("d.example A 192.0.2.99", "d.example:2525", "d.example=192.0.2.99:2525");
    check("", "[192.0.2.99]", "[192.0.2.99]=192.0.2.99:25");
}

#[test]
fn families_and_limits_are_kept() {
    let table = format!("{TWO}\na.example A 192.0.2.11\na.example A 192.0.2.12");
    let with = |family, max_addresses| {
        let settings =
            RoutingSettings { address_family: family, max_addresses, ..RoutingSettings::default() };
        let route = find(&settings, &mut Table::read(&table), "d.example", 1).unwrap();
        let families = route.exchangers.iter().map(|exchanger| {
            let family = |endpoint: &Endpoint| match endpoint {
                Endpoint::Tcp(address) if address.is_ipv4() => '4',
                _ => '6',
            };
            exchanger.endpoints.iter().map(family).collect::<String>()
        });
        families.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(with(AddressFamily::PreferIpv6, 9), "6444 4");
    assert_eq!(with(AddressFamily::PreferIpv4, 9), "4644 4");
    assert_eq!(with(AddressFamily::PreferIpv6, 3), "64 4");
    assert_eq!(with(AddressFamily::PreferIpv6, 1), "6");
    assert_eq!(with(AddressFamily::Ipv4, 9), "444 4");
    assert_eq!(with(AddressFamily::Ipv6, 9), "6");
}

#[test]
fn a_smarthost_replaces_the_destination() {
    let rule = |destination: &str, next_hop: &str| SmarthostRule {
        destination: HostPattern::try_from(destination.to_string()).unwrap(),
        next_hop: Some(NextHop::parse(next_hop).unwrap()),
        fallback: Vec::new(),
    };
    let settings = RoutingSettings {
        smarthost: vec![rule("*.internal.example", "[b.example]:587"), rule("*", "d.example")],
        ..RoutingSettings::default()
    };
    assert_eq!(shown(&settings, TWO, "x.internal.example"), "b.example=192.0.2.2:587");
    let route = find(&settings, &mut Table::read(TWO), "other.example", 1).unwrap();
    assert!(route.is_smarthost);
    assert_eq!(route.next_hop.to_string(), "d.example");
    assert_eq!(route.exchangers[0].name, "a.example");
}

#[test]
fn routes_tell_what_is_validated() {
    let of = |table: &str| {
        let settings = RoutingSettings::default();
        let route = find(&settings, &mut Table::read(table), "d.example", 1).unwrap();
        (route.is_mx_validated, route.exchangers[0].is_validated)
    };
    assert_eq!(of("d.example MX 1 a.example\na.example A 192.0.2.1"), (true, true));
    assert_eq!(of("d.example MX 1 a.example unsigned\na.example A 192.0.2.1"), (false, true));
    assert_eq!(of("d.example MX 1 a.example\na.example A 192.0.2.1 unsigned"), (true, false));
}

/// Exchangers, each with a preference and addresses, of which 99 is this host's.
fn any_exchangers() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    let addresses = prop::collection::vec(prop_oneof![9 => 1..90u8, 1 => Just(99)], 0..4);
    prop::collection::vec((0..4u16, addresses), 0..8)
}

proptest! {
    #[test]
    fn any_answers_make_a_route_that_keeps_the_rules(
        exchangers in any_exchangers(),
        max_addresses in 1..6usize,
        seed in 0..100u64,
    ) {
        let mut lines = String::new();
        for (number, (preference, addresses)) in exchangers.iter().enumerate() {
            lines += &format!("d.example MX {preference} m{number}.example\n");
            for address in addresses {
                lines += &format!("m{number}.example A 192.0.2.{address}\n");
            }
        }
        let settings = RoutingSettings { max_addresses, ..RoutingSettings::default() };
        let route = find(&settings, &mut Table::read(&lines), "d.example", seed);
        prop_assert_eq!(&route, &find(&settings, &mut Table::read(&lines), "d.example", seed));
        let ours = exchangers.iter().filter(|(_, addresses)| addresses.contains(&99));
        let ours = ours.map(|(preference, _)| *preference).min();
        let usable = |(preference, addresses): &&(u16, Vec<u8>)| {
            !addresses.is_empty() && ours.is_none_or(|ours| *preference < ours)
        };
        let expected = exchangers.iter().filter(usable).count().min(max_addresses);
        match route {
            Ok(route) => {
                prop_assert_eq!(route.exchangers.len(), expected);
                let preferences = route.exchangers.iter().map(|exchanger| exchanger.preference);
                prop_assert!(preferences.is_sorted());
                let endpoints = route.exchangers.iter().map(|exchanger| exchanger.endpoints.len());
                prop_assert!(endpoints.clone().all(|count| count > 0));
                prop_assert!(endpoints.sum::<usize>() <= max_addresses);
            }
            Err(error) => {
                prop_assert_eq!(expected, 0);
                prop_assert_eq!(error.kind == RouteErrorKind::Loop, ours.is_some());
            }
        }
    }
}
