//! Processes: existence, signals, priorities, and ends of children.

use super::succeeded;
use rustix::process::{WaitOptions, nice, setpriority_process, wait};
use std::ffi::CString;
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
    rustix::param::clock_ticks_per_second().max(1)
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
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    let signalled = status.terminating_signal().map(ChildEnd::Signalled);
    let end = signalled.or(status.exit_status().map(ChildEnd::Exited))?;
    Some((pid.as_raw_nonzero().get().cast_unsigned(), end))
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
        ProcessPriority::Absolute(value) => Ok(setpriority_process(None, value)?),
        ProcessPriority::Relative(by) => Ok(nice(by).map(drop)?),
    }
}

/// Gives the calling OS thread the policy for batch work (`SCHED_BATCH`).
///
/// When it has something to do, it no longer interrupts another thread at once, but waits until
/// that one pauses or has used its time. Its share of the processors stays the same, and so do
/// other policies, which an administrator has chosen. Threads and processes that it starts inherit
/// it.
pub fn use_batch_policy() -> io::Result<()> {
    // SAFETY: takes and returns only numbers.
    if unsafe { libc::sched_getscheduler(0) } != libc::SCHED_OTHER {
        return Ok(());
    }
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters are valid for the call.
    succeeded(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) })
}

/// Sets the name of the process in `ps -o comm` and `top`: the first 15 bytes of it.
pub fn set_process_name(name: &str) -> io::Result<()> {
    let end = (0..=name.len().min(15)).rev().find(|end| name.is_char_boundary(*end));
    let name = CString::new(&name[..end.unwrap_or_default()])?;
    Ok(rustix::thread::set_name(&name)?)
}
