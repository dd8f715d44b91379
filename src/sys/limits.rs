//! Resource limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Raises the limit of descriptors as far as allowed, up to `max`.
///
/// Returns the limit in force.
pub fn raise_file_limit(max: u64) -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current else { return Ok(u64::MAX) };
    let wanted = maximum.map_or(max, |maximum| maximum.min(max)).max(current);
    if wanted > current {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })?;
    }
    Ok(wanted)
}

/// Sets the limit of descriptors; the hard limit stays.
pub(super) fn set_file_limit(count: u64) -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.map_or(count, |maximum| maximum.min(count)));
    Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
}

/// Lifts the limit of file sizes as far as allowed. Returns what remains of it, in bytes.
pub fn lift_file_size_limit() -> io::Result<Option<u64>> {
    lift(Resource::Fsize)
}

/// Lifts the limit of processor time as far as allowed. Returns what remains of it, in seconds.
pub fn lift_processor_limit() -> io::Result<Option<u64>> {
    lift(Resource::Cpu)
}

fn lift(resource: Resource) -> io::Result<Option<u64>> {
    let limit = getrlimit(resource);
    // Only root may raise the hard limit.
    let none = Rlimit { current: None, maximum: None };
    if limit.current.is_none() || setrlimit(resource, none).is_ok() {
        return Ok(None);
    }
    setrlimit(resource, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum)
}
