//! Resets what a process inherits from its parent.

use super::sigaction::{reset_dispositions, unblock_signals};
use rustix::fs::Mode;
use rustix::process::umask;
use std::io;

/// Resets blocked and ignored signals, the umask and timers.
///
/// Must be called before any OS thread is started, since those inherit the signal mask. Closed
/// descriptors 0 to 2 have been opened to `/dev/null` before `main`, by the Rust runtime.
pub fn reset_inherited_state() -> io::Result<()> {
    umask(Mode::from_raw_mode(0o022));
    stop_timers();
    reset_dispositions()?;
    unblock_signals()
}

/// Stops timers. They survive `execve`, and their signals may end the process.
fn stop_timers() {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let off = libc::itimerval { it_interval: none, it_value: none };
    for timer in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
        // SAFETY: `off` is valid for reading, and the former value is not requested. It cannot
        // fail.
        unsafe { libc::setitimer(timer, &raw const off, std::ptr::null_mut()) };
    }
}
