//! Failed logins: delayed by address, and counted.
//!
//! The first failures of an address have no effect. After these its attempts are checked one after
//! the other, with a growing delay between them. An attempt waits for its time, or is refused
//! unchecked if that is too far away. So the right password still works, a little later, and
//! guessing is limited to 30 attempts a minute. The number of remembered addresses is limited. An
//! IPv6 network of 64 bits counts as one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use zsched_format::log_limiter::LogLimiter;
use zsched_mailq_server::acl::Peer;

/// Maximum number of addresses remembered.
const MAX_ADDRESSES: usize = 1024;
/// Number of failures of an address without a delay.
const FREE_FAILURES: u32 = 3;
/// Delay between attempts after these. It doubles with each further failure.
const FIRST_DELAY: Duration = Duration::from_millis(250);
/// Maximum delay between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Maximum time an attempt waits to be checked.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time without failures after which the failures of an address are forgotten.
const FAILURE_LIFETIME: Duration = Duration::from_secs(600);
/// Minimum time between two log lines about an address.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Time at which a login attempt may be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// At once.
    Now,
    /// At this time.
    At(Instant),
    /// Refused; another attempt may be made after this time.
    Refused(Duration),
}

/// Failures of an address.
struct AddressRecord {
    failures: u32,
    /// Time at which the next attempt may be checked.
    next: Instant,
    last_failure: Instant,
    log: LogLimiter,
}

/// Failed logins of all addresses.
pub(super) struct LoginLimiter {
    records: HashMap<Peer, AddressRecord>,
    /// Limiter for the failures of addresses that were dropped from the table. It allows no line
    /// but their number.
    dropped: LogLimiter,
}

impl Default for LoginLimiter {
    fn default() -> LoginLimiter {
        LoginLimiter { records: HashMap::new(), dropped: LogLimiter::new(0, REPORT_INTERVAL) }
    }
}

impl LoginLimiter {
    /// Schedules a login attempt.
    pub(super) fn admit(&mut self, peer: &Peer, now: Instant) -> Admission {
        let Some(record) = self.records.get_mut(&origin(peer)) else {
            return Admission::Now;
        };
        if now.saturating_duration_since(record.last_failure) > FAILURE_LIFETIME {
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

    /// Counts a failure. Returns the log line if it is the first of an address.
    pub(super) fn failed(&mut self, peer: &Peer, text: String, now: Instant) -> Option<String> {
        let origin = origin(peer);
        if !self.records.contains_key(&origin) {
            self.drop_oldest(now);
        }
        let record = self.records.entry(origin).or_insert(AddressRecord {
            failures: 0,
            next: now,
            last_failure: now,
            log: LogLimiter::new(1, REPORT_INTERVAL),
        });
        record.failures = record.failures.saturating_add(1);
        record.last_failure = now;
        record.next = record.next.max(now + delay_after(record.failures));
        record.log.permit(now).map(|more| format!("{text}{more}"))
    }

    /// Log lines that are due: failed logins of each address since the last line about it.
    pub(super) fn reports(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for (origin, record) in &mut self.records {
            if let Some((count, passed)) = record.log.end_period(now) {
                let seconds = passed.as_secs();
                lines.push(format!(
                    "MAILQ: {count} more failed logins from {} in the last {seconds} s",
                    shown(origin)
                ));
            }
        }
        if let Some((count, _)) = self.dropped.end_period(now) {
            lines.push(format!("MAILQ: {count} more failed logins from other addresses"));
        }
        lines
    }

    /// Time until a log line may be due.
    pub(super) fn until_report(&self, now: Instant) -> Option<Duration> {
        let logs = self.records.values().map(|record| &record.log).chain([&self.dropped]);
        logs.filter_map(|log| log.until_report(now)).min()
    }

    /// Drops the address with the oldest last failure if the table is full.
    fn drop_oldest(&mut self, now: Instant) {
        if self.records.len() < MAX_ADDRESSES {
            return;
        }
        let oldest = self.records.iter().min_by_key(|(_, record)| record.last_failure);
        if let Some(record) =
            oldest.map(|(origin, _)| *origin).and_then(|o| self.records.remove(&o))
        {
            self.dropped.suppress(record.log.suppressed(), now);
        }
    }
}

/// Delay between two attempts of an address after this number of failures.
fn delay_after(failures: u32) -> Duration {
    match failures.checked_sub(FREE_FAILURES) {
        None | Some(0) => Duration::ZERO,
        Some(more) => FIRST_DELAY.saturating_mul(1 << (more - 1).min(10)).min(MAX_DELAY),
    }
}

/// Unit that failures are counted by: a peer, or the network of 64 bits of an IPv6 address.
fn origin(peer: &Peer) -> Peer {
    match peer {
        Peer::Address(IpAddr::V6(address)) if !address.is_loopback() => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Peer::Address(Ipv6Addr::from_bits(network).into())
        }
        other => *other,
    }
}

fn shown(origin: &Peer) -> String {
    match origin {
        Peer::Address(IpAddr::V6(address)) if !address.is_loopback() => format!("{address}/64"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::at(address.parse().expect("an address"))
    }

    fn fail(logins: &mut LoginLimiter, peer: &Peer, now: Instant) -> Option<String> {
        logins.failed(peer, "failed".to_string(), now)
    }

    #[test]
    fn login_attempts_after_failures_are_delayed_per_address() {
        let (mut logins, mut now) = (LoginLimiter::default(), Instant::now());
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
        now += FAILURE_LIFETIME + MAX_DELAY;
        assert_eq!(logins.admit(&guesser, now), Admission::Now);
        assert_eq!(logins.admit(&guesser, now), Admission::Now, "it starts afresh");
    }

    #[test]
    fn login_attempts_at_once_are_queued_up_to_max_wait() {
        let (mut logins, now) = (LoginLimiter::default(), Instant::now());
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
    fn login_failures_repeated_are_logged_as_count() {
        let (mut logins, start) = (LoginLimiter::default(), Instant::now());
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
    fn login_records_over_limit_are_dropped_without_losing_counts() {
        let (mut logins, start) = (LoginLimiter::default(), Instant::now());
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
        for line in logins.reports(start + 2 * REPORT_INTERVAL) {
            let count = line.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
            logged += count.expect("a number");
        }
        assert_eq!(logged, 2 * 2 * MAX_ADDRESSES as u64 * 3);
    }

    #[test]
    fn login_failures_of_dropped_addresses_are_logged_without_others() {
        let (mut logins, start) = (LoginLimiter::default(), Instant::now());
        let first = peer("192.0.2.1");
        (0..3).for_each(|_| drop(fail(&mut logins, &first, start)));
        let second = start + Duration::from_secs(1);
        for number in 0..MAX_ADDRESSES as u32 {
            fail(&mut logins, &Peer::at(IpAddr::from(number.to_be_bytes())), second);
        }
        assert_eq!(logins.until_report(second), Some(REPORT_INTERVAL));
        let line = "MAILQ: 2 more failed logins from other addresses";
        assert_eq!(logins.reports(second + REPORT_INTERVAL), [line]);
    }
}
