//! Descriptors: inherited ones, the state of connections, and blocking writes.

use super::succeeded;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Keeps programs that we start from inheriting descriptors above 2.
///
/// Our parent may have left some open. Descriptors opened by our own code are closed on exec in any
/// case.
pub fn close_inherited_on_exec() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: touches no memory of ours.
        let result = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        match succeeded(result) {
            // The descriptor that the folder was listed with.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Returns true if the other end has closed both directions or is lost.
///
/// A half-closed connection may still be read by the other end. Over TCP the two cannot be told
/// apart before something was sent.
pub fn is_hung_up(stream: &impl AsFd) -> bool {
    let mut poll = libc::pollfd { fd: stream.as_fd().as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: the descriptor is open, and `poll` is one structure that the call may write to.
    let found = unsafe { libc::poll(&raw mut poll, 1, 0) };
    found == 1 && poll.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Makes a file opened with `O_NONBLOCK` blocking again.
pub fn set_blocking(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call only returns flags.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    succeeded(flags.min(0))?;
    // SAFETY: the descriptor is open, and takes a number.
    succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })
}
