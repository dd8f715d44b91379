//! Turns a child process of the scheduler into an agent.
//!
//! The scheduler starts its own program again as a small process ([`super::launch`]), which runs
//! this code before it becomes the agent. It is a separate process with one OS thread and hardly
//! any memory. So it may do all that any program may do, unlike a child after `fork`.

use super::launch::{ABSENT_ARGUMENT, BECOME_AGENT, REPORT_DESCRIPTOR, VARIABLE_MARK};
use super::limits::set_file_limit;
use super::process::{ProcessPriority, set_priority, use_batch_policy};
use super::sigaction::{ignore_signal, reset_dispositions, unblock_signals};
use super::users::{effective_group, effective_user, is_root};
use super::{c_string, drop_groups, pointers, succeeded};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::str::FromStr;

/// Exit status of a process that did not become an agent. The scheduler reads the report instead.
const AGENT_FAILED_STATUS: i32 = 127;

/// Becomes the agent that the command line describes, if it does.
///
/// Returns the exit status if that fails. Must be called before anything else.
pub fn become_agent() -> Option<i32> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != BECOME_AGENT {
        return None;
    }
    // Keeps the pipe from the agent. It fails if a person tries this, without such a pipe.
    // SAFETY: touches no memory of ours.
    if unsafe { libc::fcntl(REPORT_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        eprintln!("scheduler: {BECOME_AGENT} is for internal use by the scheduler");
        return Some(AGENT_FAILED_STATUS);
    }
    // SAFETY: the descriptor is open, and nothing else uses it.
    let mut report = unsafe { File::from_raw_fd(REPORT_DESCRIPTOR) };
    let Err(error) = run_agent(arguments);
    let number = error.raw_os_error().unwrap_or(libc::EINVAL);
    let mut record = std::process::id().to_ne_bytes().to_vec();
    record.extend_from_slice(&number.to_ne_bytes());
    // Writing fails only if the scheduler is gone. Then the report is not needed.
    drop(report.write_all(&record));
    Some(AGENT_FAILED_STATUS)
}

/// Makes the preparations that the words describe, and becomes the agent.
fn run_agent(mut words: impl Iterator<Item = OsString>) -> io::Result<Infallible> {
    let mut next = || words.next().ok_or_else(invalid);
    let file_limit = number(&next()?)?;
    let (user, group) = (optional(&next()?, number)?, optional(&next()?, number)?);
    let priority = optional(&next()?, parse_priority)?;
    let ignores_hangup = next()? == "ignore-hangup";
    let starter = optional(&next()?, number)?;
    let folder = next()?;
    let arguments: Vec<CString> = words.map(|word| c_string(&word)).collect::<io::Result<_>>()?;
    let environment: Vec<CString> = std::env::vars_os().map(variable).collect::<io::Result<_>>()?;
    let program = arguments.first().ok_or_else(invalid)?;
    std::env::set_current_dir(folder)?;
    reset_dispositions()?;
    if ignores_hangup {
        ignore_signal(libc::SIGHUP)?;
    }
    set_file_limit(file_limit)?;
    priority.map_or(Ok(()), set_priority)?;
    // The scheduler wakes many agents, one after the other. Only speed depends on it.
    use_batch_policy().ok();
    become_user(user, group)?;
    starter.map_or(Ok(()), end_with)?;
    // Signals that came since the start are delivered now, with the effect they would have on the
    // agent.
    unblock_signals()?;
    Err(execute(program, &arguments, &environment))
}

/// Makes this process get SIGTERM at the end of its parent, which has this pid.
fn end_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // It may have ended before.
    match std::os::unix::process::parent_id() == parent {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

fn invalid() -> io::Error {
    ErrorKind::InvalidInput.into()
}

fn number<N: FromStr>(word: &OsStr) -> io::Result<N> {
    word.to_str().and_then(|word| word.parse().ok()).ok_or_else(invalid)
}

/// Parses a value that may be absent.
fn optional<T>(word: &OsStr, parse: impl Fn(&OsStr) -> io::Result<T>) -> io::Result<Option<T>> {
    if word == ABSENT_ARGUMENT { Ok(None) } else { parse(word).map(Some) }
}

fn parse_priority(word: &OsStr) -> io::Result<ProcessPriority> {
    let (kind, value) = word.to_str().and_then(|word| word.split_once(':')).ok_or_else(invalid)?;
    let value = number(OsStr::new(value))?;
    match kind {
        "absolute" => Ok(ProcessPriority::Absolute(value)),
        "relative" => Ok(ProcessPriority::Relative(value)),
        _ => Err(invalid()),
    }
}

/// A variable of the agent: one of this process, without the mark before its name.
fn variable((name, value): (OsString, OsString)) -> io::Result<CString> {
    let name = name.as_bytes().strip_prefix(VARIABLE_MARK.as_bytes()).ok_or_else(invalid)?;
    Ok(CString::new([name, b"=", value.as_bytes()].concat())?)
}

fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with a null pointer, and the strings they point to outlive the call.
    unsafe {
        libc::execve(program.as_ptr(), arguments.as_ptr().cast(), environment.as_ptr().cast())
    };
    io::Error::last_os_error()
}

fn become_user(user: Option<u32>, group: Option<u32>) -> io::Result<()> {
    if is_root() {
        drop_groups()?;
    }
    // Only root may set its own ids again.
    let must_set = |id: &u32, own| is_root() || *id != own;
    if let Some(group) = group.filter(|id| must_set(id, effective_group())) {
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::setgid(group) })?;
    }
    if let Some(user) = user.filter(|id| must_set(id, effective_user())) {
        // SAFETY: takes a number only.
        succeeded(unsafe { libc::setuid(user) })?;
    }
    Ok(())
}
