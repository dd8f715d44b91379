//! Chooses the address that connections come from.

use crate::settings::{SourceAddress, SourceRule};
use std::net::{IpAddr, SocketAddr};

/// The source addresses of a connection, one of each family at most.
///
/// A family without an address leaves the choice to the system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// For connections over IPv4.
    pub ipv4: Option<SourceAddress>,
    /// For connections over IPv6.
    pub ipv6: Option<SourceAddress>,
}

impl Source {
    /// Chooses from the pool of the first rule for a channel and destination.
    ///
    /// Each address of the pool is chosen in proportion to its weight.
    pub(crate) fn choose(
        rules: &[SourceRule],
        channel: &str,
        destination: &str,
        random: &mut fastrand::Rng,
    ) -> Source {
        let is_for = |rule: &&SourceRule| {
            rule.channel.matches(channel) && rule.destination.matches(destination)
        };
        let Some(rule) = rules.iter().find(is_for) else { return Source::default() };
        let mut pick = |is_ipv4| {
            let of_family = |source: &&SourceAddress| source.address.is_ipv4() == is_ipv4;
            let pool: Vec<_> = rule.addresses.iter().filter(of_family).collect();
            weighted(&pool, random).cloned()
        };
        Source { ipv4: pick(true), ipv6: pick(false) }
    }

    /// The address for a connection to this peer.
    pub fn address_for(&self, peer: &SocketAddr) -> Option<IpAddr> {
        let source = if peer.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        source.as_ref().map(|source| source.address)
    }

    /// The name for `EHLO` on a connection that comes from this address.
    pub fn helo_of(&self, local: &IpAddr) -> Option<&str> {
        let source = if local.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        source.as_ref().filter(|source| source.address == *local)?.helo.as_deref()
    }
}

fn weighted<'a>(
    pool: &[&'a SourceAddress],
    random: &mut fastrand::Rng,
) -> Option<&'a SourceAddress> {
    let total: u64 = pool.iter().map(|source| u64::from(source.weight)).sum();
    if total == 0 {
        return None;
    }
    let mut at = random.u64(..total);
    pool.iter().copied().find(|source| {
        let weight = u64::from(source.weight);
        let is_here = at < weight;
        at = at.saturating_sub(weight);
        is_here
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::HostPattern;

    fn rule(channel: &str, destination: &str, addresses: &[(&str, u32)]) -> SourceRule {
        let pattern = |text: &str| HostPattern::try_from(text.to_string()).unwrap();
        let source = |(address, weight): &(&str, u32)| SourceAddress {
            address: address.parse().unwrap(),
            weight: *weight,
            helo: None,
        };
        SourceRule {
            channel: pattern(channel),
            destination: pattern(destination),
            addresses: addresses.iter().map(source).collect(),
        }
    }

    #[test]
    fn addresses_are_chosen_by_weight_and_family() {
        let rules = [
            rule("lmtp", "*", &[]),
            rule("*", "*.a.example", &[("192.0.2.1", 3), ("192.0.2.2", 1), ("192.0.2.3", 0)]),
            rule("*", "*", &[("2001:db8::1", 1)]),
        ];
        let mut random = fastrand::Rng::with_seed(1);
        let mut counts = [0; 4];
        for _ in 0..4000 {
            let source = Source::choose(&rules, "smtp", "x.a.example", &mut random);
            assert_eq!(source.ipv6, None);
            let address = source.address_for(&"192.0.2.99:25".parse().unwrap()).unwrap();
            let IpAddr::V4(address) = address else { panic!("{address} is not IPv4") };
            counts[usize::from(address.octets()[3])] += 1;
        }
        assert!((2850..3150).contains(&counts[1]), "{counts:?}");
        assert_eq!(counts[1] + counts[2], 4000);
        let other = Source::choose(&rules, "smtp", "b.example", &mut random);
        assert_eq!((other.ipv4.is_none(), other.ipv6.is_some()), (true, true));
        assert_eq!(Source::choose(&rules, "lmtp", "b.example", &mut random), Source::default());
    }
}
