//! Failed logins: slowed down by address, and counted.
//!
//! The first failures of an address cost it nothing. After them its attempts are checked one after the other,
//! with a growing time between them: an attempt waits for its turn, and if that is too far away, it is refused
//! unchecked. So the right password is let in, a little later, and guessing goes at a few attempts a minute.
//! A few addresses are remembered; of IPv6 a network of 64 bits counts as one.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use zsched_mailq_server::acl::Peer;

/// Maximum number of addresses that we remember.
const MAX_ADDRESSES: usize = 1024;
/// Failures of an address that cost it no time.
const FREE_FAILURES: u32 = 3;
/// Time between two attempts after these; it doubles with each further failure.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Maximum time between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Maximum time that an attempt waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time without failures after which an address starts afresh.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Time between two log lines about an address.
const REPORT_AFTER: Duration = Duration::from_secs(60);

/// When an attempt to log in may be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// At once.
    Now,
    /// At this time.
    At(Instant),
    /// Not at all; another one may come after this time.
    Refused(Duration),
}

/// What counts as one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Origin {
    Address(IpAddr),
    /// The first 64 bits of an IPv6 address.
    Network([u8; 8]),
    /// A user of this host, over a UNIX socket.
    User(Option<u32>),
}

/// What is known of an address.
struct Record {
    failures: u32,
    /// When the next attempt may be checked.
    next: Instant,
    last_failure: Instant,
    /// Failures since the last log line.
    unreported: u64,
    /// When that was; `None` if the next failure is to be logged at once.
    reported: Option<Instant>,
}

/// The failed logins of all addresses.
#[derive(Default)]
pub struct Logins {
    records: HashMap<Origin, Record>,
    /// Failures of addresses that were forgotten before they were reported.
    of_others: u64,
}

impl Logins {
    /// Gives an attempt to log in its turn.
    pub fn admit(&mut self, peer: &Peer, now: Instant) -> Admission {
        let Some(record) = self.records.get_mut(&Origin::of(peer)) else {
            return Admission::Now;
        };
        if now.saturating_duration_since(record.last_failure) > FORGET_AFTER {
            record.failures = 0;
        }
        let delay = delay_after(record.failures);
        let turn = record.next.max(now);
        if turn.duration_since(now) > MAX_WAIT {
            return Admission::Refused(turn.duration_since(now));
        }
        record.next = turn + delay;
        if turn > now { Admission::At(turn) } else { Admission::Now }
    }

    /// Counts a failure. Returns what is to be logged at once: the first one of an address.
    pub fn failed(&mut self, peer: &Peer, text: String, now: Instant) -> Option<String> {
        let origin = Origin::of(peer);
        if !self.records.contains_key(&origin) {
            self.make_room();
        }
        let record = self.records.entry(origin).or_insert(Record {
            failures: 0,
            next: now,
            last_failure: now,
            unreported: 0,
            reported: None,
        });
        record.failures = record.failures.saturating_add(1);
        record.last_failure = now;
        record.next = record.next.max(now + delay_after(record.failures));
        if record.reported.is_none() {
            record.reported = Some(now);
            return Some(text);
        }
        record.unreported += 1;
        None
    }

    /// What is to be logged now: how many logins of each address have failed since the last line about it.
    pub fn reports(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (origin, record) in &mut self.records {
            let Some(reported) = record.reported else {
                continue;
            };
            let passed = now.saturating_duration_since(reported);
            if passed < REPORT_AFTER {
                continue;
            }
            record.reported = None;
            if record.unreported > 0 {
                let (count, seconds) = (std::mem::take(&mut record.unreported), passed.as_secs());
                lines.push(format!(
                    "MAILQ: {count} more failed logins from {origin} in the last {seconds} s"
                ));
                record.reported = Some(now);
            }
        }
        if !lines.is_empty() && self.of_others > 0 {
            let count = std::mem::take(&mut self.of_others);
            lines.push(format!("MAILQ: {count} more failed logins from other addresses"));
        }
        lines
    }

    /// Time until there may be something to log.
    pub fn until_report(&self, now: Instant) -> Option<Duration> {
        let with_some = self.records.values().filter(|record| record.unreported > 0);
        let reported = with_some.filter_map(|record| record.reported).min()?;
        Some((reported + REPORT_AFTER).saturating_duration_since(now))
    }

    /// Forgets the address whose last failure is the oldest, if there are as many as may be.
    fn make_room(&mut self) {
        if self.records.len() < MAX_ADDRESSES {
            return;
        }
        let oldest = self.records.iter().min_by_key(|(_, record)| record.last_failure);
        if let Some(record) =
            oldest.map(|(origin, _)| *origin).and_then(|o| self.records.remove(&o))
        {
            self.of_others += record.unreported;
        }
    }
}

/// Time between two attempts of an address with so many failures.
fn delay_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES) {
        None | Some(0) => Duration::ZERO,
        Some(more) => FIRST_DELAY.saturating_mul(1 << (more - 1).min(10)).min(MAX_DELAY),
    }
}

impl Origin {
    fn of(peer: &Peer) -> Origin {
        match peer {
            Peer::Address(IpAddr::V6(address)) if !address.is_loopback() => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Origin::Network([a, b, c, d, e, f, g, h])
            }
            Peer::Address(address) => Origin::Address(*address),
            Peer::Local(user) => Origin::User(*user),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Address(address) => write!(f, "{address}"),
            Origin::Network(bits) => {
                let mut octets = [0; 16];
                octets[..bits.len()].copy_from_slice(bits);
                write!(f, "{}/64", std::net::Ipv6Addr::from(octets))
            }
            Origin::User(user) => write!(f, "{}", Peer::Local(*user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::at(address.parse().expect("an address"))
    }

    fn fail(logins: &mut Logins, peer: &Peer, now: Instant) -> Option<String> {
        logins.failed(peer, "failed".to_string(), now)
    }

    #[test]
    fn attempts_of_one_address_are_slowed_down_and_others_are_not() {
        let (mut logins, mut now) = (Logins::default(), Instant::now());
        let (guesser, other) = (peer("192.0.2.1"), peer("192.0.2.2"));
        let start = now;
        for _ in 0..20 {
            match logins.admit(&guesser, now) {
                Admission::Now => {}
                Admission::At(turn) => now = turn,
                Admission::Refused(wait) => panic!("a single client waits {wait:?}"),
            }
            fail(&mut logins, &guesser, now);
        }
        // 250 ms, 500 ms, 1 s, and 2 s each from then on.
        let took = now.duration_since(start);
        assert_eq!(took, Duration::from_millis(1750) + 13 * MAX_DELAY);
        assert_eq!(logins.admit(&other, now), Admission::Now);
        now += FORGET_AFTER + MAX_DELAY;
        assert_eq!(logins.admit(&guesser, now), Admission::Now);
        assert_eq!(logins.admit(&guesser, now), Admission::Now, "it starts afresh");
    }

    #[test]
    fn attempts_at_the_same_time_wait_one_behind_the_other_up_to_a_bound() {
        let (mut logins, now) = (Logins::default(), Instant::now());
        let guesser = peer("192.0.2.1");
        (0..20).for_each(|_| drop(fail(&mut logins, &guesser, now)));
        let admissions: Vec<Admission> = (0..7).map(|_| logins.admit(&guesser, now)).collect();
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(
            admissions,
            [
                Admission::At(after(2)),
                Admission::At(after(4)),
                Admission::At(after(6)),
                Admission::At(after(8)),
                Admission::At(after(10)),
                Admission::Refused(Duration::from_secs(12)),
                Admission::Refused(Duration::from_secs(12)),
            ]
        );
    }

    #[test]
    fn every_failure_is_in_the_log_and_lines_are_few() {
        let (mut logins, start) = (Logins::default(), Instant::now());
        let (guesser, at) = (peer("2001:db8::1"), |seconds| start + Duration::from_secs(seconds));
        assert_eq!(fail(&mut logins, &guesser, start).as_deref(), Some("failed"));
        assert_eq!(logins.until_report(start), None);
        (0..46_000).for_each(|_| assert_eq!(fail(&mut logins, &guesser, at(3)), None));
        assert!(logins.reports(at(59)).is_empty());
        assert_eq!(logins.until_report(at(59)), Some(Duration::from_secs(1)));
        let line = "MAILQ: 46000 more failed logins from 2001:db8::/64 in the last 60 s";
        assert_eq!(logins.reports(at(60)), [line]);
        assert!(logins.reports(at(200)).is_empty());
        assert!(fail(&mut logins, &guesser, at(200)).is_some(), "a new period");
    }

    #[test]
    fn addresses_that_are_remembered_are_bounded_and_no_failure_is_lost() {
        let (mut logins, start) = (Logins::default(), Instant::now());
        let mut logged = 0;
        for round in 0..2_u64 {
            for number in 0..2 * MAX_ADDRESSES as u32 {
                let guesser = Peer::at(IpAddr::from(number.to_be_bytes()));
                let now = start + Duration::from_secs(round);
                for _ in 0..3 {
                    logged += u64::from(fail(&mut logins, &guesser, now).is_some());
                }
            }
        }
        assert_eq!(logins.records.len(), MAX_ADDRESSES);
        for line in logins.reports(start + 2 * REPORT_AFTER) {
            let count = line.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
            logged += count.expect("a number");
        }
        assert_eq!(logged, 2 * 2 * MAX_ADDRESSES as u64 * 3);
    }
}
