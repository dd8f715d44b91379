//! Turns a child process of the scheduler into an agent.
//!
//! The scheduler starts its own program again as a small process ([`super::launch`]), which runs
//! this code before it becomes the agent. It is a separate process with one OS thread and hardly
//! any memory. So it may do all that any program may do, unlike a child after `fork`.

use super::launch::{ABSENT_ARGUMENT, BECOME_AGENT, REPORT_DESCRIPTOR, VARIABLE_MARK};
use super::limits::set_file_limit;
use super::process::{ProcessPriority, set_priority};
use super::sigaction::{ignore_signal, reset_dispositions, unblock_signals};
use super::users::{effective_group, effective_user, is_root};
use super::{c_string, drop_groups, pointers, succeeded};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

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
    let error = AgentSetup::parse(arguments)
        .map_or_else(|| ErrorKind::InvalidInput.into(), AgentSetup::exec);
    let number = error.raw_os_error().unwrap_or(libc::EINVAL);
    let mut record = std::process::id().to_ne_bytes().to_vec();
    record.extend_from_slice(&number.to_ne_bytes());
    // Writing fails only if the scheduler is gone. Then the report is not needed.
    drop(report.write_all(&record));
    Some(AGENT_FAILED_STATUS)
}

/// Preparations in the order of the command line, and the agent's environment.
struct AgentSetup {
    file_limit: u64,
    user: Option<u32>,
    group: Option<u32>,
    priority: Option<ProcessPriority>,
    ignore_hangup: bool,
    folder: CString,
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl AgentSetup {
    fn parse(mut words: impl Iterator<Item = OsString>) -> Option<AgentSetup> {
        let file_limit = number(&words.next()?)?;
        let (user, group) = (optional(&words.next()?, number)?, optional(&words.next()?, number)?);
        let priority = optional(&words.next()?, parse_priority)?;
        let ignore_hangup = words.next()? == "ignore-hangup";
        let (folder, program) = (c_string(&words.next()?).ok()?, c_string(&words.next()?).ok()?);
        let texts = words.map(|word| c_string(&word).ok()).collect::<Option<Vec<CString>>>()?;
        let arguments = std::iter::once(program.clone()).chain(texts).collect();
        let environment = std::env::vars_os().map(variable).collect::<Option<Vec<CString>>>()?;
        Some(AgentSetup {
            file_limit,
            user,
            group,
            priority,
            ignore_hangup,
            folder,
            program,
            arguments,
            environment,
        })
    }

    /// Becomes the agent. Returns only with the error if that fails.
    fn exec(self) -> io::Error {
        match self.prepare() {
            Ok(()) => execute(&self.program, &self.arguments, &self.environment),
            Err(error) => error,
        }
    }

    fn prepare(&self) -> io::Result<()> {
        // SAFETY: the path is a C string that outlives the call.
        succeeded(unsafe { libc::chdir(self.folder.as_ptr()) })?;
        reset_dispositions()?;
        if self.ignore_hangup {
            ignore_signal(libc::SIGHUP)?;
        }
        set_file_limit(self.file_limit)?;
        self.priority.map_or(Ok(()), set_priority)?;
        become_user(self.user, self.group)?;
        // Signals that came since the start are delivered now, with the effect they would have on
        // the agent.
        unblock_signals()
    }
}

fn number<N: std::str::FromStr>(word: &OsStr) -> Option<N> {
    word.to_str()?.parse().ok()
}

/// Parses a value that may be absent; `None` if it is invalid.
fn optional<T>(word: &OsStr, parse: impl Fn(&OsStr) -> Option<T>) -> Option<Option<T>> {
    if word == ABSENT_ARGUMENT { Some(None) } else { parse(word).map(Some) }
}

fn parse_priority(word: &OsStr) -> Option<ProcessPriority> {
    let (kind, value) = word.to_str()?.split_once(':')?;
    let value = value.parse().ok()?;
    match kind {
        "absolute" => Some(ProcessPriority::Absolute(value)),
        "relative" => Some(ProcessPriority::Relative(value)),
        _ => None,
    }
}

/// A variable of the agent, from one of this process: without the mark before its name.
fn variable((name, value): (OsString, OsString)) -> Option<CString> {
    let name = name.into_vec();
    let name = name.strip_prefix(VARIABLE_MARK.as_bytes())?;
    CString::new([name, b"=", value.as_bytes()].concat()).ok()
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
