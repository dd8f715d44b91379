//! Dispositions of signals in this process.

use super::succeeded;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Signals for errors that calls report, too. They are ignored, here and in agents.
const IGNORED_SIGNALS: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
/// Highest signal number.
const MAX_SIGNAL: i32 = 64;

/// Returns true if a signal is ignored. A parent may have set that before our start (`nohup`).
pub fn is_ignored(signal: i32) -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the current one into the given structure.
    let result = unsafe { libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: all zeros is a valid value of the structure, and the call may have filled it in.
    result == 0 && unsafe { current.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Resets inherited dispositions: no signal is ignored except SIGPIPE and SIGXFSZ.
pub(super) fn reset_dispositions() -> io::Result<()> {
    // Handlers are not inherited.
    for signal in (1..=MAX_SIGNAL).filter(|signal| is_ignored(*signal)) {
        set_disposition(signal, libc::SIG_DFL)?;
    }
    IGNORED_SIGNALS.iter().try_for_each(|signal| ignore_signal(*signal))
}

/// Ignores a signal from now on.
pub fn ignore_signal(signal: i32) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

fn set_disposition(signal: i32, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: SIG_IGN and SIG_DFL are valid dispositions, and no handler in use is replaced.
    let former = unsafe { libc::signal(signal, disposition) };
    if former == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Unblocks all signals in the calling OS thread. Pending ones are delivered at once.
pub(super) fn unblock_signals() -> io::Result<()> {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset fills the set in before it is read; the former set is not requested.
    succeeded(unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_ignores_sigpipe_only() {
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
        assert!(!is_ignored(-1));
    }
}
