//! What this process does about a signal.

use super::succeeded;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals that say by another way what is wrong: a call that fails. They are ignored, here and in agents.
const IGNORED: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
/// The highest signal number there is.
const LAST_SIGNAL: i32 = 64;

/// Whether a signal is ignored, as a parent may have arranged before it started us (`nohup`).
pub fn is_ignored(signal: i32) -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the current one into the given structure.
    let result = unsafe { libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: all zeros is a valid value of the structure, and the call may have filled it in.
    result == 0 && unsafe { current.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Undoes what a parent has arranged about signals: none is ignored, but for SIGPIPE and SIGXFSZ.
pub(super) fn reset_dispositions() -> io::Result<()> {
    // Handlers are not inherited.
    for signal in (1..=LAST_SIGNAL).filter(|signal| is_ignored(*signal)) {
        set_disposition(signal, libc::SIG_DFL)?;
    }
    IGNORED.iter().try_for_each(|signal| ignore_signal(*signal))
}

/// Ignores a signal from now on.
pub(super) fn ignore_signal(signal: i32) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

fn set_disposition(signal: i32, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: SIG_IGN and SIG_DFL are valid dispositions, and no handler is replaced that is of use.
    let former = unsafe { libc::signal(signal, disposition) };
    if former == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets all signals through that the calling OS thread has blocked. Those that wait are delivered at once.
pub(super) fn unblock_signals() -> io::Result<()> {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset fills the set in before it is read; nobody asks for the former one.
    succeeded(unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_ignores_broken_pipes_only() {
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
        assert!(!is_ignored(-1));
    }
}
