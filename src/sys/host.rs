//! The host: its name, load, disk space and uptime; and random numbers.

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Space on a file system. The call may have to wait for a disk.
pub use rustix::fs::{StatVfs, statvfs};

/// Mean number of runnable processes over one and over five minutes.
pub fn load_averages() -> Option<(f64, f64)> {
    let mut averages = [0.0; 2];
    // SAFETY: there is room for two.
    let count = unsafe { libc::getloadavg(averages.as_mut_ptr(), 2) };
    (count == 2).then_some((averages[0], averages[1]))
}

/// Time since boot (`CLOCK_BOOTTIME`), including suspension. It cannot be set.
pub fn time_since_boot() -> Duration {
    clock_gettime(ClockId::Boottime).try_into().unwrap_or_default()
}

/// Number that cannot be guessed.
pub fn random_number() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // Eight bytes are returned all at once or not at all.
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Name of this host, from the kernel.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_state_is_available() {
        let found = statvfs("/").expect("there is a root");
        assert!(found.f_bfree <= found.f_blocks && found.f_bavail <= found.f_blocks);
        assert!(statvfs("/no/such/folder").is_err());
        let (one, five) = load_averages().expect("it is known");
        assert!(one >= 0.0 && five >= 0.0);
        assert_ne!(random_number().expect("chance"), random_number().expect("chance"));
    }

    #[test]
    fn host_name_is_not_empty() {
        assert!(!host_name().is_empty());
    }
}
