//! Resource limits of this process.

use super::succeeded;
use std::io;

/// Raises the limit of descriptors as far as allowed, up to `most`.
///
/// Returns the limit in force.
pub fn raise_file_limit(most: u64) -> io::Result<u64> {
    let limit = get(libc::RLIMIT_NOFILE)?;
    let wanted = limit.rlim_max.min(most).max(limit.rlim_cur);
    if wanted > limit.rlim_cur {
        set(libc::RLIMIT_NOFILE, libc::rlimit { rlim_cur: wanted, ..limit })?;
    }
    Ok(wanted)
}

/// Sets the limit of descriptors; the hard limit stays.
pub(super) fn set_file_limit(count: u64) -> io::Result<()> {
    let limit = get(libc::RLIMIT_NOFILE)?;
    set(libc::RLIMIT_NOFILE, libc::rlimit { rlim_cur: limit.rlim_max.min(count), ..limit })
}

/// Lifts the limit of file sizes as far as allowed. Returns what remains of it, in bytes.
pub fn lift_file_size_limit() -> io::Result<Option<u64>> {
    lift(libc::RLIMIT_FSIZE)
}

/// Lifts the limit of processor time as far as allowed. Returns what remains of it, in seconds.
pub fn lift_processor_limit() -> io::Result<Option<u64>> {
    lift(libc::RLIMIT_CPU)
}

fn lift(resource: libc::__rlimit_resource_t) -> io::Result<Option<u64>> {
    let limit = get(resource)?;
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return Ok(None);
    }
    let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // Only root may raise the hard limit.
    if set(resource, none).is_ok() {
        return Ok(None);
    }
    set(resource, libc::rlimit { rlim_cur: limit.rlim_max, ..limit })?;
    Ok(Some(limit.rlim_max).filter(|most| *most != libc::RLIM_INFINITY))
}

fn get(resource: libc::__rlimit_resource_t) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing for the length of the call.
    succeeded(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    Ok(limit)
}

fn set(resource: libc::__rlimit_resource_t, limit: libc::rlimit) -> io::Result<()> {
    // SAFETY: `limit` is valid for reading for the length of the call.
    succeeded(unsafe { libc::setrlimit(resource, &raw const limit) })
}
