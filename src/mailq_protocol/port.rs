//! The port of MAILQ.

use std::fs;

/// The port of MAILQ where nothing else is said.
pub const DEFAULT: u16 = 174;

/// The port of a TCP service, from the system's list of services.
pub fn of_service(name: &str) -> Option<u16> {
    let services = fs::read_to_string("/etc/services").ok()?;
    services.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let official = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?.parse().ok()?;
        (official == name || words.any(|alias| alias == name)).then_some(port)
    })
}
