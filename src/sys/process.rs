//! Processes: existence, signals, priorities, and ends of children.

use super::succeeded;
use std::io;

/// Returns true if a process has this pid.
pub fn process_exists(pid: u32) -> bool {
    match send_signal(pid, 0) {
        Ok(()) => true,
        // An error without a number means that the pid is invalid.
        Err(error) => error.raw_os_error().is_some_and(|number| number != libc::ESRCH),
    }
}

/// Sends a signal to one process.
pub fn send_signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 0);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: kill touches no memory of ours.
    succeeded(unsafe { libc::kill(pid, signal) })
}

/// Clock ticks per second, the unit of process times in `/proc`.
pub fn clock_ticks() -> u64 {
    // SAFETY: sysconf only returns a number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0).unwrap_or(100)
}

/// How a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildEnd {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

/// Reaps the next child that has ended, if there is one.
pub fn reap() -> Option<(u32, ChildEnd)> {
    let mut status = 0;
    // SAFETY: `status` is valid for writing for the length of the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let end = if libc::WIFSIGNALED(status) {
        ChildEnd::Signalled(libc::WTERMSIG(status))
    } else {
        ChildEnd::Exited(libc::WEXITSTATUS(status))
    };
    Some((pid, end))
}

/// Priority of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessPriority {
    /// Added to ours: nice(2).
    Relative(i32),
    /// Set as it is: setpriority(2).
    Absolute(i32),
}

/// Sets the priority of this process.
pub fn set_priority(priority: ProcessPriority) -> io::Result<()> {
    match priority {
        ProcessPriority::Absolute(value) => {
            // SAFETY: setpriority touches no memory of ours.
            succeeded(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) })
        }
        ProcessPriority::Relative(by) => {
            // SAFETY: both calls only read and write this process' errno and priority.
            let present = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
            set_priority(ProcessPriority::Absolute(present + by))
        }
    }
}
