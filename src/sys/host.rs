//! The host: its name, load, disk space and uptime; and random numbers.

use super::{c_string, succeeded};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

/// Space on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes available to users other than root.
    pub available: u64,
    /// Free bytes.
    pub free: u64,
    /// Size in bytes.
    pub size: u64,
    /// Files that users other than root can still create.
    pub available_files: u64,
    /// Free inodes.
    pub free_files: u64,
    /// Maximum number of files.
    pub files: u64,
}

/// Space on the file system of a file or folder. The call may have to wait for a disk.
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    let path = c_string(path.as_os_str())?;
    let mut found = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is a C string, and the result has room for what is written.
    succeeded(unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded, so all of it was written.
    let found = unsafe { found.assume_init() };
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(FileSystem {
        available: bytes(found.f_bavail),
        free: bytes(found.f_bfree),
        size: bytes(found.f_blocks),
        available_files: found.f_favail,
        free_files: found.f_ffree,
        files: found.f_files,
    })
}

/// Mean number of runnable processes over one and over five minutes.
pub fn load_averages() -> Option<(f64, f64)> {
    let mut averages = [0.0; 2];
    // SAFETY: there is room for two.
    let count = unsafe { libc::getloadavg(averages.as_mut_ptr(), 2) };
    (count == 2).then_some((averages[0], averages[1]))
}

/// Time since boot (`CLOCK_BOOTTIME`), including suspension. It cannot be set.
pub fn time_since_boot() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing. The call fails only for clocks that a system lacks.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Number that cannot be guessed.
pub fn random_number() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the length is that of the buffer.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Eight bytes are returned all at once or not at all.
    match usize::try_from(count) {
        Ok(count) if count == bytes.len() => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Name of this host, from the kernel.
pub fn host_name() -> io::Result<String> {
    let mut buffer = [0u8; 256];
    // SAFETY: the length is that of the buffer, less one: the last byte stays zero even if the name
    // is truncated.
    succeeded(unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) })?;
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    Ok(String::from_utf8_lossy(&buffer[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_state_is_available() {
        let found = file_system(Path::new("/")).expect("there is a root");
        assert!(found.free <= found.size && found.available <= found.size);
        assert!(file_system(Path::new("/no/such/folder")).is_err());
        let (one, five) = load_averages().expect("it is known");
        assert!(one >= 0.0 && five >= 0.0);
        assert_ne!(random_number().expect("chance"), random_number().expect("chance"));
    }

    #[test]
    fn host_name_is_not_empty() {
        assert!(!host_name().expect("a name").is_empty());
    }
}
