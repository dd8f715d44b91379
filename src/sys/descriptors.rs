//! Descriptors: those that this process was started with, and what writing to one means.

use super::succeeded;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

/// Keeps programs that we start from inheriting any descriptor but standard input, output and error:
/// whoever started us may have left some open. Everything that we open ourselves is closed anyway.
pub fn close_inherited_on_exec() -> io::Result<()> {
    let open: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: touches no memory of ours.
        let result = unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        match succeeded(result) {
            // The one that the folder was listed with.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Lets writes to a file that was opened with `O_NONBLOCK` wait until there is room.
pub fn let_writes_wait(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call only returns flags.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    succeeded(flags.min(0))?;
    // SAFETY: the descriptor is open, and takes a number.
    succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK) })
}
