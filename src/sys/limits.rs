//! Limits of this process.

use super::succeeded;
use std::io;

/// Raises the number of descriptors this process may have as far as it may, but not beyond `most`.
/// Returns how many it may have now.
pub fn raise_file_limit(most: u64) -> io::Result<u64> {
    let limit = get(libc::RLIMIT_NOFILE)?;
    let wanted = limit.rlim_max.min(most).max(limit.rlim_cur);
    if wanted > limit.rlim_cur {
        set(libc::RLIMIT_NOFILE, libc::rlimit { rlim_cur: wanted, ..limit })?;
    }
    Ok(wanted)
}

/// Sets the number of descriptors this process may have; the upper bound stays.
pub(super) fn set_file_limit(count: u64) -> io::Result<()> {
    let limit = get(libc::RLIMIT_NOFILE)?;
    set(libc::RLIMIT_NOFILE, libc::rlimit { rlim_cur: limit.rlim_max.min(count), ..limit })
}

/// Lifts the limit on the size of files, as far as this process may. Returns what is left of it, in bytes.
pub fn lift_file_size_limit() -> io::Result<Option<u64>> {
    lift(libc::RLIMIT_FSIZE)
}

/// Lifts the limit on processor time, as far as this process may. Returns what is left of it, in seconds.
pub fn lift_processor_limit() -> io::Result<Option<u64>> {
    lift(libc::RLIMIT_CPU)
}

fn lift(resource: libc::__rlimit_resource_t) -> io::Result<Option<u64>> {
    let limit = get(resource)?;
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return Ok(None);
    }
    let none = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // The upper bound may be raised by root only.
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
