//! Processes: do they live, signal them, start and reap them.

use super::limits::set_file_limit;
use super::succeeded;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether there is a process of this id. One that we may not signal exists too.
pub fn process_exists(pid: u32) -> bool {
    match send_signal(pid, 0) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::EPERM),
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

/// The next child that has ended, if there is one.
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

/// Priority of a process to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessPriority {
    /// Added to ours: nice(2).
    Relative(i32),
    /// Set as it is: setpriority(2).
    Absolute(i32),
}

/// A process to be started with one socket as its standard input, output and error.
pub struct ChildProcess<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments, the program's name not included.
    pub arguments: &'a [OsString],
    /// All of its environment.
    pub environment: &'a [(OsString, OsString)],
    /// Its working folder.
    pub folder: &'a Path,
    /// Becomes its descriptors 0, 1 and 2.
    pub socket: OwnedFd,
    /// User id to change to, if any. Needs root, unless it is the present one.
    pub user: Option<u32>,
    /// Group id to change to, if any; supplementary groups are given up with it.
    pub group: Option<u32>,
    /// Its priority, if it is not to be ours.
    pub priority: Option<ProcessPriority>,
    /// How many descriptors it may have.
    pub file_limit: u64,
    /// Let it ignore SIGHUP from the start.
    pub ignore_hangup: bool,
}

impl ChildProcess<'_> {
    /// Starts it. The error tells what failed, in the child too, up to and including the `exec`.
    pub fn start(self) -> io::Result<u32> {
        let mut command = Command::new(self.program);
        command
            .args(self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder)
            .stdin(Stdio::from(self.socket.try_clone()?))
            .stdout(Stdio::from(self.socket.try_clone()?))
            .stderr(Stdio::from(self.socket));
        let ChildProcess { user, group, priority, file_limit, ignore_hangup, .. } = self;
        // SAFETY: the closure makes only system calls, which are safe between fork and exec, and
        // allocates nothing; all it uses is copied into it.
        unsafe {
            command.pre_exec(move || {
                ignore_signal(libc::SIGPIPE)?;
                if ignore_hangup {
                    ignore_signal(libc::SIGHUP)?;
                }
                set_file_limit(file_limit)?;
                if let Some(priority) = priority {
                    set_priority(priority)?;
                }
                become_user(user, group)
            });
        }
        command.spawn().map(|child| child.id())
    }
}

fn ignore_signal(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition, and no handler of ours is replaced in the parent.
    let former = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if former == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
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

fn become_user(user: Option<u32>, group: Option<u32>) -> io::Result<()> {
    // SAFETY: geteuid cannot fail; the others touch no memory but the empty list given.
    unsafe {
        let is_root = libc::geteuid() == 0;
        if is_root {
            succeeded(libc::setgroups(0, std::ptr::null()))?;
        }
        if let Some(group) = group
            && (is_root || group != libc::getegid())
        {
            succeeded(libc::setgid(group))?;
        }
        if let Some(user) = user
            && (is_root || user != libc::geteuid())
        {
            succeeded(libc::setuid(user))?;
        }
    }
    Ok(())
}
