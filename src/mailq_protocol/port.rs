//! The TCP port of MAILQ.

use std::fs;

/// Default port of MAILQ.
pub const DEFAULT_PORT: u16 = 174;

/// Returns the port of a TCP service from `/etc/services`.
pub fn from_services(name: &str) -> Option<u16> {
    let services = fs::read_to_string("/etc/services").ok()?;
    services.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let official = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?.parse().ok()?;
        (official == name || words.any(|alias| alias == name)).then_some(port)
    })
}
