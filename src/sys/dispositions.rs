//! What this process does about a signal.

use std::mem::MaybeUninit;
use std::ptr;

/// Whether a signal is ignored, as a parent may have arranged before it started us (`nohup`).
pub fn is_ignored(signal: i32) -> bool {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the current one into the given structure.
    let result = unsafe { libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: all zeros is a valid value of the structure, and the call may have filled it in.
    result == 0 && unsafe { current.assume_init() }.sa_sigaction == libc::SIG_IGN
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
