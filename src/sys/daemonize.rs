//! Becoming a daemon: a process of its own session, whose starter waits until it is ready.

use super::succeeded;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// What [`daemonize`] returns in the daemon: tells the process that was started on the command line
/// how the start went, so that its exit status can.
pub struct Starter {
    pipe: File,
}

/// The byte that means "ready".
const READY: u8 = b'+';

impl Starter {
    /// The daemon is at work: the starter exits with status 0. Dropping this without a word lets the
    /// starter exit with status 1.
    pub fn report_ready(mut self) -> io::Result<()> {
        self.pipe.write_all(&[READY])
    }
}

/// Goes on in a new process that leads its own session, without a terminal. The process that calls
/// it does not come back: it waits for the daemon's word and exits.
///
/// Must be called before any OS thread is started: only the calling one goes on.
pub fn daemonize() -> io::Result<Starter> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors; both are owned by the Files made here.
    let (mut reader, writer) = unsafe {
        succeeded(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    if fork()? {
        drop(writer);
        let mut word = [0];
        let status = if reader.read_exact(&mut word).is_ok() && word[0] == READY { 0 } else { 1 };
        std::process::exit(status);
    }
    drop(reader);
    // SAFETY: setsid touches no memory of ours.
    if unsafe { libc::setsid() } == -1 {
        return Err(io::Error::last_os_error());
    }
    // The scheduler leads its process group, so that a signal to the group reaches its agents; a
    // second fork, which would keep it from ever getting a terminal, would take that away. It opens
    // no terminal without O_NOCTTY.
    redirect(Path::new("/dev/null"), false, &[0])?;
    Ok(Starter { pipe: writer })
}

/// Forks. Tells whether this is the parent.
fn fork() -> io::Result<bool> {
    // SAFETY: there is only one OS thread, as `daemonize` demands, so the child's memory is whole.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(child != 0),
    }
}

/// Points standard output and error at a log file, opened for appending.
pub fn redirect_output(log: &Path) -> io::Result<()> {
    redirect(log, true, &[1, 2])
}

fn redirect(path: &Path, append: bool, descriptors: &[i32]) -> io::Result<()> {
    let file = match append {
        true => OpenOptions::new().append(true).create(true).open(path)?,
        false => File::open(path)?,
    };
    for descriptor in descriptors {
        // SAFETY: both descriptors are open or become so; dup2 closes the old one atomically.
        if unsafe { libc::dup2(file.as_raw_fd(), *descriptor) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sets the file mode creation mask, and returns the one before.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: umask cannot fail and touches no memory of ours.
    unsafe { libc::umask(mask as libc::mode_t) }
}

/// Gives up all supplementary groups. Needs root.
pub fn drop_groups() -> io::Result<()> {
    // SAFETY: the list is empty.
    succeeded(unsafe { libc::setgroups(0, std::ptr::null()) })
}
