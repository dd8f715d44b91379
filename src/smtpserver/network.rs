//! Networks of clients: an address, or an address and the length of its prefix.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Length of the prefix by which IPv6 clients are counted: that of one site.
const IPV6_CLIENT_PREFIX: u32 = 64;

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: Ipv6Addr,
    /// Length of the prefix of the address as IPv6.
    prefix: u32,
}

impl Network {
    /// The client that an address belongs to: itself, or the /64 of an IPv6 address.
    pub fn of_client(ip: IpAddr) -> Network {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Network { address: ip.to_ipv6_mapped(), prefix: 128 },
            IpAddr::V6(ip) => Network::new(ip, IPV6_CLIENT_PREFIX),
        }
    }

    fn new(address: Ipv6Addr, prefix: u32) -> Network {
        let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
        Network { address: Ipv6Addr::from_bits(address.to_bits() & mask), prefix }
    }

    /// Returns true if an address belongs to the network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Network::new(ip, self.prefix) == *self
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Network, &'static str> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address =
            address.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(address);
        let address: IpAddr =
            address.parse().map_err(|_| "this is no network such as 192.0.2.0/24")?;
        let (address, bits) = match address {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped(), 32),
            IpAddr::V6(ip) => (ip, 128),
        };
        let prefix = match prefix {
            None => bits,
            Some(prefix) => prefix
                .parse()
                .ok()
                .filter(|prefix| *prefix <= bits)
                .ok_or("the length of the prefix is too large")?,
        };
        let network = Network::new(address, 128 - bits + prefix);
        match network.address == address {
            true => Ok(network),
            false => Err("the address has bits behind the prefix"),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.to_ipv4_mapped() {
            Some(ip) if self.prefix == 128 => write!(f, "{ip}"),
            Some(ip) if self.prefix >= 96 => write!(f, "{ip}/{}", self.prefix - 96),
            _ if self.prefix == 128 => write!(f, "{}", self.address),
            _ => write!(f, "{}/{}", self.address, self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_contains_its_addresses() {
        for (network, inside, outside) in [
            ("127.0.0.0/8", "127.9.9.9", "128.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("::1", "::1", "::2"),
            ("[2001:db8::]/32", "2001:db8:1::1", "2001:db9::1"),
            ("0.0.0.0/0", "1.2.3.4", "2001:db8::1"),
            ("192.0.2.0/24", "::ffff:192.0.2.1", "::1"),
        ] {
            let parsed: Network = network.parse().expect(network);
            assert!(parsed.contains(inside.parse().expect("an address")), "{network}");
            assert!(!parsed.contains(outside.parse().expect("an address")), "{network}");
        }
        for wrong in ["", "x", "1.2.3", "1.2.3.4/33", "1.2.3.4/8", "::1/200", "1.2.3.4/x"] {
            wrong.parse::<Network>().expect_err(wrong);
        }
    }

    #[test]
    fn clients_are_addresses_or_sites() {
        let shown = |ip: &str| Network::of_client(ip.parse().expect("an address")).to_string();
        assert_eq!(shown("192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(shown("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    }
}
