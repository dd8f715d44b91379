//! What the host is like: how busy, how full; and chance.

use super::succeeded;
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How full a file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Bytes that somebody who is not root can still use.
    pub available: u64,
    /// Bytes that nobody uses.
    pub free: u64,
    /// Bytes in all.
    pub size: u64,
    /// Files that somebody who is not root can still make.
    pub available_files: u64,
    /// Files that nobody has made.
    pub free_files: u64,
    /// Files in all.
    pub files: u64,
}

/// How full the file system is that has this file or folder. It may have to wait for a disk.
pub fn file_system(path: &Path) -> io::Result<FileSystem> {
    let path = CString::new(path.as_os_str().as_bytes())?;
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

/// The mean number of processes that want to run, over one and over five minutes.
pub fn load_averages() -> Option<(f64, f64)> {
    let mut averages = [0.0; 2];
    // SAFETY: there is room for two.
    let count = unsafe { libc::getloadavg(averages.as_mut_ptr(), 2) };
    (count == 2).then_some((averages[0], averages[1]))
}

/// The time since the machine was started, as nobody can set it; time in which it was suspended counts.
pub fn time_since_boot() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing. The call fails only for clocks that a system does not have.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A number that nobody can guess.
pub fn random_number() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the length is that of the buffer.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // So few bytes come all at once, or not at all.
    match usize::try_from(count) {
        Ok(count) if count == bytes.len() => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_can_be_looked_at() {
        let found = file_system(Path::new("/")).expect("there is a root");
        assert!(found.free <= found.size && found.available <= found.size);
        assert!(file_system(Path::new("/no/such/folder")).is_err());
        let (one, five) = load_averages().expect("it is known");
        assert!(one >= 0.0 && five >= 0.0);
        assert_ne!(random_number().expect("chance"), random_number().expect("chance"));
    }
}
