//! Locks on files that other mail programs respect.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes a POSIX write lock (`fcntl(2)`) on the whole file.
///
/// Mail readers lock mailboxes in this way.
///
/// Returns at once; `false` means that another process holds a lock. The lock ends when this
/// process closes the file, by *any* of its descriptors, so open it once.
pub fn try_posix_lock(file: &File) -> io::Result<bool> {
    let whole_file = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the structure outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const whole_file) };
    if result != -1 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posix_lock_held_by_us_can_be_taken_again() {
        let file = tempfile::tempfile().expect("a file");
        assert!(try_posix_lock(&file).expect("a lock"));
        assert!(try_posix_lock(&file).expect("the same lock"));
    }
}
